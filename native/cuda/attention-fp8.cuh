// The tensor-core pieces of attention over fp8 pages (kv-fp8.cuh): of decodes codes become fragments in registers, of prompts tiles of bf16.
#pragma once
#include "attention-mma.cuh"

// score_keys of 8 * TILES keys' codes, without their factors: s is the true one * 2^-(exponent + 120 - QUERY_SHIFT). `codes`: those of the
// first eight.
template <int DK, int TILES>
__device__ __forceinline__ void score_codes(float (*s)[4], const u8* q, const u8* codes, int dim, int steps) {
  const int lane = threadIdx.x & 31, matrix = lane >> 3, in = lane & 7;
  const u8* qAt = q + (matrix & 1) * (DK * 16) + (matrix >> 1) * 128 + in * 16;
#pragma unroll
  for (int i = 0; i < DK / 16; i++) {
    if (i < steps) {
      u32 a[4], w[TILES];
      ldmatrix_x4(a, qAt + i * 256);
#pragma unroll
      for (int n = 0; n < TILES; n++) w[n] = *(const u32*)(codes + n * 8 * fp8_slot(dim) + i * 128 + lane * 4);
#pragma unroll
      for (int n = 0; n < TILES; n++) mma16816<KIND_BF16>(s[n], a, fp8_first(w[n]), fp8_second(w[n]));
    }
  }
}
// A lane's factors of 8 * TILES keys, as it has their scores.
template <int TILES>
__device__ __forceinline__ void factors_of(float (*f)[2], const u8* codes, int dim) {
#pragma unroll
  for (int n = 0; n < TILES; n++) {
    const u32 pair = fp8_factors(codes + n * 8 * fp8_slot(dim), dim, threadIdx.x & 3);
    f[n][0] = __uint_as_float(pair << 16);
    f[n][1] = __uint_as_float(pair & 0xFFFF0000);
  }
}

// add_values of codes, whose factors the probabilities have; `codes`: those of the 16 keys' 16 dims.
__device__ __forceinline__ void add_codes(float (*o)[4], const u32* p, const u8* codes, int dim) {
  const int lane = threadIdx.x & 31, at = (lane & 3) * 32 + (lane >> 2) * 4;
  const u32 w = *(const u32*)(codes + at), x = *(const u32*)(codes + 8 * fp8_slot(dim) + at);
  mma16816<KIND_BF16>(o[0], p, fp8_first(w), fp8_first(x));
  mma16816<KIND_BF16>(o[1], p, fp8_second(w), fp8_second(x));
}

// Codes of KEYS keys from `key` on as rows of a tile of bf16 [KEYS][D], by THREADS threads; dims beyond the head's are left as they are, and
// nobody reads them. Values of keys outside [lo, hi) become zeros: their slots may hold anything, and 0 * NaN is NaN.
template <int D, bool IS_VALUE, int KEYS, int THREADS>
__device__ __forceinline__ void widen_codes(u8* tile, const u8* codes, int thread, int dim, int key, int lo, int hi) {
  constexpr int BLOCKS = D / 16, SHARE = IS_VALUE ? 4 : 8;  // threads that share a block of 16 dims of 8 keys
  const bool isSeen = key >= lo && key + KEYS <= hi;
#pragma unroll 1
  for (int at = thread; at < KEYS / 8 * BLOCKS * SHARE; at += THREADS) {
    const int in = at % SHARE, block = at / SHARE % BLOCKS, group = at / (SHARE * BLOCKS);
    if (block * 16 >= dim) continue;
    const u8* from = codes + group * 8 * fp8_slot(dim);
    uint4* to = (uint4*)(tile + group * D * 16 + block * 256);  // of row 0 of 8; the next 8 dims are 8 uint4 further
    if constexpr (IS_VALUE) {
      uint4 columns[4];
      fp8_value_columns(columns, from, in, block, dim);
#pragma unroll
      for (int r = 0; r < 2; r++) {
        const int row = in * 2 + r;
        if (!isSeen && (key + group * 8 + row < lo || key + group * 8 + row >= hi)) columns[2 * r] = columns[2 * r + 1] = {0, 0, 0, 0};
        to[row] = columns[2 * r];
        to[8 + row] = columns[2 * r + 1];
      }
    } else {
      uint4 columns[2];
      fp8_key_columns(columns, from, in, block, dim);
      to[in] = columns[0];
      to[8 + in] = columns[1];
    }
  }
}
