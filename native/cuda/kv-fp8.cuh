// fp8 pages: e4m3 codes with one power of two for each vector. Such a number has 4 significant bits, so bf16 holds it exactly: a tile of
// codes becomes a tile of bf16 in shared memory, and from there on everything is what it is for bf16 pages, bit for bit.
//
// 8 slots of a head in a tiled page: their codes in core matrices, [dim / 8][8 slots][8 dims], then 8 factors of 16 bits. A code's bits moved
// to their places in a bf16 are its value * 2^-120, subnormal ones too; the factor, 2^(120 + exponent) in bf16, brings both back.
#pragma once
#include "common.cuh"

#define KIND_FP8 3     // a kind of pages alone, beside the KIND_* of ptx.cuh: in registers they are bf16
#define FP8_MOST 7     // exponents of vectors; 2^127 is the largest power of two of bf16
#define FP8_LEAST -100

// The least power of two that brings `top`, the largest magnitude of a vector, within 448 = 1.75 * 2^8.
__device__ __forceinline__ int fp8_exponent(float top) {
  const u32 bits = __float_as_uint(top);
  return min(max((int)(bits >> 23) - 127 - 8 + ((bits & 0x7FFFFF) > 0x600000), FP8_LEAST), FP8_MOST);
}
// Nearest code, ties to even; 448 and more become 448.
__device__ __forceinline__ u8 fp8_code(float x) {
  const u32 bits = __float_as_uint(x), rest = bits & 0x7FFFFFFF;
  u32 code = (rest + 0x7FFFF + (rest >> 20 & 1) - 0x3C000000) >> 20;
  if (rest < 0x3C800000) code = __float_as_uint(__fadd_rn(__uint_as_float(rest), 16384.f)) - 0x46800000;  // subnormal: units of 2^-9
  if (rest >= 0x43E00000) code = 0x7E;
  return (u8)((bits >> 24 & 0x80) | code);
}
__device__ __forceinline__ float fp8_value(u8 code) {
  return __fmul_rn(__uint_as_float((u32)(code & 0x80) << 24 | (u32)(code & 0x7F) << 20), __uint_as_float(247u << 23));
}

// Bytes of a slot in a tiled page.
__device__ __forceinline__ int fp8_slot(int dim) { return dim + 2; }

// Two codes, the bytes of `codes` that `choice` puts at 1 and 3, as bf16.
__device__ __forceinline__ u32 fp8_pair(u32 codes, u32 choice, u32 factor) {
  const u32 w = permute_bytes(codes, 0, choice);
  return fma_bf16x2((w & 0x80008000) | (w >> 4 & 0x07F007F0), factor, 0x80008000);
}
// 8 dims of slot `row` (of a unit's): 16-byte column `column` of the tile. codes: the unit's first group of 8 slots.
__device__ __forceinline__ uint4 fp8_column(const u8* codes, int row, int column, int dim) {
  const u8* group = codes + (row >> 3) * 8 * fp8_slot(dim);
  const u64 w = *(const u64*)(group + column * 64 + (row & 7) * 8);
  const u32 x = (u32)w, y = (u32)(w >> 32);
  const u32 factor = *(const u16*)(group + 8 * dim + (row & 7) * 2) * 0x10001u;
  // Byte 4 of the permutation is 0.
  return {fp8_pair(x, 0x1404, factor), fp8_pair(x, 0x3424, factor), fp8_pair(y, 0x1404, factor), fp8_pair(y, 0x3424, factor)};
}
