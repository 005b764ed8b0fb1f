// 32 activations as int8: scale = max|x| / 127, q = x * (127 / max|x|) to the nearest integer, halves to even. Every variant
// rounds alike, so the integers are the same on all of them. A NaN or an infinity makes the scale NaN or infinite and so reaches
// the output.
#pragma once
#include "simd.h"

namespace pg {
namespace PG_NS {
namespace {

struct QuantizedBlock {
  float scale;
  int32_t sum_lo, sum_hi;  // of q over each half
  alignas(32) uint8_t q[32];
};

// The largest magnitude, by its bits: as integers they order alike, and NaN comes out on top.
PG_INLINE float finish_scale(QuantizedBlock& block, int32_t most) {
  const float max = s_from_bits((uint32_t)most);
  block.scale = max * (1.0f / 127.0f);
  return max > 0.0f ? 127.0f / max : 0.0f;
}

#if PG_ISA >= 2
// Sums of 16 int8 values: unsigned sums of value + 128, less 16 * 128.
PG_INLINE int32_t sum16(__m128i q) {
  const __m128i sums = _mm_sad_epu8(_mm_xor_si128(q, _mm_set1_epi8((char)0x80)), _mm_setzero_si128());
  return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 2048;
}
#endif

#if PG_ISA == 3
PG_INLINE void quantize_block(QuantizedBlock& block, const float* x) {
  const __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const __m512i most = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a), magnitude),
                                        _mm512_and_si512(_mm512_castps_si512(b), magnitude));
  const __m512 inverse = _mm512_set1_ps(finish_scale(block, _mm512_reduce_max_epi32(most)));
  const __m128i lo = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(a, inverse)));
  const __m128i hi = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(b, inverse)));
  _mm_store_si128((__m128i*)block.q, lo);
  _mm_store_si128((__m128i*)(block.q + 16), hi);
  block.sum_lo = sum16(lo);
  block.sum_hi = sum16(hi);
}
#elif PG_ISA == 2
PG_INLINE void quantize_block(QuantizedBlock& block, const float* x) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256 v[4];
  __m256i most = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    v[i] = _mm256_loadu_ps(x + i * 8);
    most = _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
  }
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  const __m256 inverse = _mm256_set1_ps(finish_scale(block, _mm_cvtsi128_si32(four)));
  __m256i q[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
  // Packing works within halves of the vector; the permutation puts the groups of four back in order.
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  const __m256i ordered = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_store_si256((__m256i*)block.q, ordered);
  block.sum_lo = sum16(_mm256_castsi256_si128(ordered));
  block.sum_hi = sum16(_mm256_extracti128_si256(ordered, 1));
}
#elif PG_NEON
PG_INLINE void quantize_block(QuantizedBlock& block, const float* x) {
  float32x4_t v[8];
  uint32x4_t most = vdupq_n_u32(0);
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    v[i] = vld1q_f32(x + i * 4);
    most = vmaxq_u32(most, vandq_u32((uint32x4_t)v[i], vdupq_n_u32(0x7fffffff)));
  }
  const float inverse = finish_scale(block, (int32_t)vmaxvq_u32(most));
  int16x8_t q[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
    q[i] = vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(v[2 * i], inverse))),
                        vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(v[2 * i + 1], inverse))));
  const int8x16_t lo = vcombine_s8(vqmovn_s16(q[0]), vqmovn_s16(q[1])), hi = vcombine_s8(vqmovn_s16(q[2]), vqmovn_s16(q[3]));
  vst1q_s8((int8_t*)block.q, lo);
  vst1q_s8((int8_t*)block.q + 16, hi);
  block.sum_lo = vaddlvq_s8(lo);
  block.sum_hi = vaddlvq_s8(hi);
}
#else
PG_INLINE void quantize_block(QuantizedBlock& block, const float* x) {
  int32_t bits[32];
  memcpy(bits, x, sizeof bits);
  int32_t most = 0;
  for (int k = 0; k < 32; k++) {
    const int32_t magnitude = bits[k] & 0x7fffffff;
    most = magnitude > most ? magnitude : most;
  }
  const float inverse = finish_scale(block, most);
  int8_t q[32];
  for (int k = 0; k < 32; k++) {
    const float shifted = x[k] * inverse + 12582912.0f;  // 1.5 * 2^23: the low bits are now the rounded integer
    q[k] = (int8_t)s_bits(shifted);
  }
  block.sum_lo = block.sum_hi = 0;
  for (int k = 0; k < 16; k++) block.sum_lo += q[k];
  for (int k = 16; k < 32; k++) block.sum_hi += q[k];
  memcpy(block.q, q, sizeof q);
}
#endif

}  // namespace
}  // namespace PG_NS
}  // namespace pg
