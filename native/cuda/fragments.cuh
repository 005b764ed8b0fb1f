// Weights as they lie in memory, and as the tensor cores take them.
//
// A strip of 16 rows is cut into steps of 64 k's, each STEP_BYTES of contiguous memory: codes first, [..][lane][16 bytes], so that a lane
// finds those of its own four A fragments (m16n8k16; mma.sync and wgmma with A in registers alike); then the scales.
//
//   BF16, F16        2 bytes a weight: a lane's 16 bytes are the four registers of one fragment
//   Q4   4.5 bits    4-bit codes, groups of 32: scale * (q - 8)
//   Q4_MIN   5 bits  4-bit codes, groups of 32: scale * q + min
//   Q8   8.5 bits    8-bit codes, groups of 32: scale * (q - 128)
//   Q8_MIN  10 bits  7-bit codes in bytes, groups of 16: scale * q + min
//   E4M3   8.5 bits  floats of 8 bits, groups of 64: scale * q
//   E2M1  4.5 bits   floats of 4 bits, groups of 32: scale * q
//
// Scales and mins lie as [row % 8][group][row / 8 % 2], with a min behind each scale. Those of 8-bit codes are f16; with mins both are held
// times 1024, so that small ones keep their digits. Those of 4-bit codes are bf16, so that two weights are made by one instruction. Those of
// E4M3 are f32 in checkpoints: a bf16 and a bf16 of what that leaves, two instructions for two weights, times 2^120 (see `get`).
// A weight is bf16(scale * q + min), rounded once: the same number in every kernel, whatever the count of tokens.
#pragma once
#include "common.cuh"

#define FORMAT_BF16 1
#define FORMAT_F16 2
#define FORMAT_Q4 3
#define FORMAT_Q4_MIN 4
#define FORMAT_Q8 5
#define FORMAT_Q8_MIN 6
#define FORMAT_E4M3 7
#define FORMAT_E2M1 8
#define SCALED_BY 1024.f

template <int FORMAT>
struct Fragments {
  static constexpr bool IS_FLOAT = FORMAT == FORMAT_BF16 || FORMAT == FORMAT_F16, IS_E4M3 = FORMAT == FORMAT_E4M3, IS_E2M1 = FORMAT == FORMAT_E2M1;
  static constexpr int KIND = FORMAT == FORMAT_F16 ? KIND_F16 : KIND_BF16;  // of the operand
  static constexpr bool HAS_MIN = FORMAT == FORMAT_Q4_MIN || FORMAT == FORMAT_Q8_MIN, HAS_TWO = HAS_MIN || IS_E4M3;  // numbers a group
  static constexpr int BITS = IS_FLOAT ? 16 : FORMAT == FORMAT_Q4 || FORMAT == FORMAT_Q4_MIN || IS_E2M1 ? 4 : 8;
  static constexpr int GROUPS = IS_FLOAT ? 0 : IS_E4M3 ? 1 : FORMAT == FORMAT_Q8_MIN ? 4 : 2;  // of a row in a step
  static constexpr int CODE_BYTES = 128 * BITS, SCALE_BYTES = 16 * GROUPS * (HAS_TWO ? 4 : 2), STEP_BYTES = CODE_BYTES + SCALE_BYTES;
  static constexpr int CODE_WORDS = BITS, SCALE_WORDS = SCALE_BYTES / 32;

  u32 codes[CODE_WORDS], scales[SCALE_WORDS > 0 ? SCALE_WORDS : 1];

  // A lane's part of a step.
  __device__ __forceinline__ void load(const u8* step, int lane) {
#pragma unroll
    for (int i = 0; i < CODE_WORDS / 4; i++) {
      const uint4 v = *(const uint4*)(step + i * 512 + lane * 16);
      codes[4 * i] = v.x; codes[4 * i + 1] = v.y; codes[4 * i + 2] = v.z; codes[4 * i + 3] = v.w;
    }
    if constexpr (SCALE_WORDS > 0) {
      const u32* from = (const u32*)(step + CODE_BYTES + (lane >> 2) * (SCALE_BYTES / 8));
#pragma unroll
      for (int i = 0; i < SCALE_WORDS; i++) scales[i] = from[i];
    }
  }

  // The registers of the k-th 16 k's.
  __device__ __forceinline__ void get(int k, u32* a) const {
    if constexpr (IS_FLOAT) {
#pragma unroll
      for (int i = 0; i < 4; i++) a[i] = codes[4 * k + i];
    } else if constexpr (BITS == 4) {
      // Bits put behind those of 128 are 128 + q; 128 (of centred codes 136) is taken off exactly. A float's bits in their places are q * 2^-126.
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int r = i & 1, at = 8 * r + 4 * (i >> 1);
        const u32 q = IS_E2M1 ? fma_bf16x2((moved(codes[k], 6 - at) & 0x01C001C0) | (moved(codes[k], 12 - at) & 0x80008000), 0x7E807E80, 0x80008000)
                              : fma_bf16x2((codes[k] >> at & 0x000F000F) | 0x43004300, 0x3F803F80, HAS_MIN ? 0xC300C300 : 0xC308C308);
        const u32 word = scales[HAS_MIN ? 2 * (k >> 1) + r : k >> 1];
        const u32 scale = permute_bytes(word, 0, HAS_MIN || r == 0 ? 0x1010 : 0x3232);
        a[i] = fma_bf16x2(q, scale, HAS_MIN ? permute_bytes(word, 0, 0x3232) : 0x80008000);
      }
    } else if constexpr (IS_E4M3) {
      // A float's bits in their places (e4m3_word) are q * 2^-120, which the scales make up for.
#pragma unroll
      for (int r = 0; r < 2; r++) {
        const u32 w = codes[2 * k + r], high = permute_bytes(scales[r], 0, 0x1010), low = permute_bytes(scales[r], 0, 0x3232);
        const u32 q[2] = {w & 0x87F087F0, ((w >> 4 | w << 28) & 0x87808780) | (w << 4 & 0x00700070)};
#pragma unroll
        for (int i = 0; i < 2; i++) a[r + 2 * i] = fma_bf16x2(q[i], high, fma_bf16x2(q[i], low, 0x80008000));
      }
    } else {
      float scale[2], base[2];  // of rows g and g + 8; a code comes as BIAS + q
#pragma unroll
      for (int r = 0; r < 2; r++) scale_of(k, r, scale[r], base[r]);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int r = i & 1;
        a[i] = round2<KIND_BF16>(fmaf(scale[r], number(k, 2 * i), base[r]), fmaf(scale[r], number(k, 2 * i + 1), base[r]));
      }
    }
  }

  static __device__ __forceinline__ u32 moved(u32 bits, int left) { return left >= 0 ? bits << left : bits >> -left; }

  __device__ __forceinline__ void scale_of(int k, int r, float& scale, float& base) const {
    const int group = GROUPS == 4 ? k : k >> 1;
    if (!HAS_MIN) {
      scale = f16_value((u16)(scales[group] >> (16 * r)));
      base = -32896.f * scale;
      return;
    }
    const u32 pair = scales[2 * group + r];
    scale = f16_value((u16)pair) / SCALED_BY;
    base = fmaf(-128.f, scale, f16_value((u16)(pair >> 16)) / SCALED_BY);
  }

  // Byte j of the k-th 16 k's as a float without a conversion: its bits are put where a power of two has units. 128 + q, or 32768 + q.
  __device__ __forceinline__ float number(int k, int j) const {
    const u32 w = codes[(2 * k + (j >> 2)) & (CODE_WORDS - 1)];
    if (FORMAT == FORMAT_Q8_MIN) return __uint_as_float(permute_bytes(w, 0x43000000, 0x7044 | (j & 3) << 8));
    return __uint_as_float(permute_bytes(w, 0x47000000, 0x7404 | (j & 3) << 4));
  }
};

// Where the codes of an even k and the next of a row begin in its strip's step. 4 bits, k % 16 < 8: the byte of k and k + 8, two bytes before
// that of k + 1 and k + 9. E4M3, k % 16 < 8: the word of k, k + 1, k + 8 and k + 9.
template <int FORMAT>
__device__ __forceinline__ int code_at(int row, int k) {
  typedef Fragments<FORMAT> F;
  const int lane = (row & 7) * 4 + ((k & 7) >> 1), k16 = (k >> 4) & 3, i = ((k >> 3) & 1) * 2 + ((row >> 3) & 1);
  if (F::BITS == 4) return lane * 16 + k16 * 4 + (i & 1);
  return (k16 >> 1) * 512 + lane * 16 + (k16 & 1) * 8 + (F::IS_E4M3 ? (i & 1) * 4 : i * 2);
}
// The word of four e4m3 codes. k and k + 1: sign, exponent and fraction where a bf16 has them, so that a mask takes them out. k + 8 and
// k + 9 in the bits between: exponents four further up, fractions four further down, signs where a rotation by four brings them to the top.
__device__ __forceinline__ u32 e4m3_word(u32 k0, u32 k1, u32 k8, u32 k9) {
  const u32 first = k0 | k1 << 16, second = k8 | k9 << 16, signs = second & 0x00800080;
  return (first & 0x00800080) << 8 | (first & 0x007F007F) << 4 | (second & 0x00780078) << 8 | (second & 0x00070007) | signs >> 20 | signs << 12;
}
// Where the scale of a group of a row lies, in f16s from the step's scales on.
__device__ __forceinline__ int scale_at(int groups, bool hasMin, int row, int group) {
  return ((row & 7) * groups * 2 + group * 2 + ((row >> 3) & 1)) * (hasMin ? 2 : 1);
}

// One weight of a matrix in format F; `steps` of 64 k's.
template <int FORMAT>
__device__ __forceinline__ float weight_at(const u8* w, int steps, int row, int k) {
  typedef Fragments<FORMAT> F;
  const u8* step = w + ((i64)(row >> 4) * steps + (k >> 6)) * F::STEP_BYTES;
  F f;
  const int kk = k & 15, lane = (row & 7) * 4 + ((kk & 7) >> 1), i = (kk >> 3) * 2 + ((row >> 3) & 1);
  f.load(step, lane);
  float v = 0.f;
#pragma unroll
  for (int k16 = 0; k16 < 4; k16++) {
    u32 a[4];
    f.get(k16, a);
#pragma unroll
    for (int j = 0; j < 4; j++) if (k16 == ((k >> 4) & 3) && j == i) v = from_bits((u16)(a[j] >> (16 * (k & 1))), F::KIND);
  }
  return v;
}
