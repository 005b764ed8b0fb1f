// fp8 pages: e4m3 codes with one power of two for each vector. Such a number has 4 significant bits, so bf16 holds it exactly, and results
// are those of bf16 pages, bit for bit. Moved to their places in a bf16, a code's bits are its value * 2^-120, subnormal ones too; the
// factor, 2^(120 + exponent) in bf16, brings both back. Decodes multiply such bits as they are and give the factors to scores and
// probabilities: powers of two change no rounding. Prompts make tiles of bf16.
//
// 8 slots of a head in a tiled page: their codes, 16 dims after the other, then 8 factors of 16 bits. Dims i and i + 8 of 16 share 16 bits:
//   bit 15: sign of i    14-12: its mantissa    11: sign of i + 8    10-7: exponent of i    6-0: exponent and mantissa of i + 8
// so that two registers of an mma fragment come out of a word by two and by three instructions. Keys: [dim / 16][8 slots][i]; values:
// [dim / 16][slot / 2][i][slot % 2]. In both, a lane's word of the fragment is where its number says.
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

// Where the 16 bits of dims i and i + 8 of 16 lie among the codes of 8 slots, i counted over all dims; and those bits.
__device__ __forceinline__ int fp8_key_at(int slot, int i) { return (i >> 3) * 128 + slot * 16 + (i & 7) * 2; }
__device__ __forceinline__ int fp8_value_at(int slot, int i) { return (i >> 3) * 128 + (slot >> 1) * 32 + (i & 7) * 4 + (slot & 1) * 2; }
__device__ __forceinline__ u16 fp8_mix(u32 first, u32 second) {
  return (u16)((first & 0x80) << 8 | (first & 0x07) << 12 | (first & 0x78) << 4 | (second & 0x80) << 4 | (second & 0x7F));
}
// Two numbers * 2^-120 in bf16: the dims i of a word's halves, and the dims i + 8.
__device__ __forceinline__ u32 fp8_first(u32 w) { return (w & 0x87808780) | (w >> 8 & 0x00700070); }
__device__ __forceinline__ u32 fp8_second(u32 w) { return w << 4 & 0x87F087F0; }
// The factors of slots 2i and 2i + 1 of 8 slots, in bf16.
__device__ __forceinline__ u32 fp8_factors(const u8* group, int dim, int i) { return *(const u32*)(group + 8 * dim + i * 4); }

// 16 dims, from 16 * block on, of a slot as two 16-byte columns of a tile. `group`: the slot's eight.
__device__ __forceinline__ void fp8_key_columns(uint4* to, const u8* group, int slot, int block, int dim) {
  const uint4 w = *(const uint4*)(group + block * 128 + slot * 16);
  const u32 pair = fp8_factors(group, dim, slot >> 1), f = permute_bytes(pair, 0, slot & 1 ? 0x3232 : 0x1010);
  auto wide = [&](u32 bits) { return fma_bf16x2(bits, f, 0x80008000); };
  to[0] = {wide(fp8_first(w.x)), wide(fp8_first(w.y)), wide(fp8_first(w.z)), wide(fp8_first(w.w))};
  to[1] = {wide(fp8_second(w.x)), wide(fp8_second(w.y)), wide(fp8_second(w.z)), wide(fp8_second(w.w))};
}
// The same of slots 2 * pair and 2 * pair + 1: to[0], to[1] and to[2], to[3].
__device__ __forceinline__ void fp8_value_columns(uint4* to, const u8* group, int pair, int block, int dim) {
  const uint4 w = *(const uint4*)(group + block * 128 + pair * 32), x = *(const uint4*)(group + block * 128 + pair * 32 + 16);
  const u32 factors = fp8_factors(group, dim, pair);
#pragma unroll
  for (int s = 0; s < 2; s++) {
    const u32 choice = s == 0 ? 0x5410 : 0x7632, f = permute_bytes(factors, 0, s == 0 ? 0x1010 : 0x3232);
    auto wide = [&](u32 bits) { return fma_bf16x2(bits, f, 0x80008000); };
    const u32 v[4] = {permute_bytes(w.x, w.y, choice), permute_bytes(w.z, w.w, choice), permute_bytes(x.x, x.y, choice), permute_bytes(x.z, x.w, choice)};
    to[2 * s] = {wide(fp8_first(v[0])), wide(fp8_first(v[1])), wide(fp8_first(v[2])), wide(fp8_first(v[3]))};
    to[2 * s + 1] = {wide(fp8_second(v[0])), wide(fp8_second(v[1])), wide(fp8_second(v[2])), wide(fp8_second(v[3]))};
  }
}
