// Activations into the order the matmul kernels read: one tile of rows at a time.
//   pack_float  [height][cols] -> [cols][height]
//   pack_int    quantises blocks of 32: scale = max|x| / 127, q = x * (127 / max|x|) to the nearest integer, halves to even;
//               see IntRows for what is written where.
// Every variant rounds alike, so the integers are the same on all of them. A NaN or an infinity in a block makes its scale NaN or
// infinite and so reaches the output.
#include "matmul.h"

namespace pg {
namespace PG_NS {
namespace {

// --- transposing a square of VL x VL, so that a tile's columns are written whole ---------------------------------------------
#if PG_ISA == 3
PG_INLINE void transpose(vf (&r)[VL]) {
  vf t[VL];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4)
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
      const __m512d a = _mm512_castps_pd(t[i + j]), b = _mm512_castps_pd(t[i + j + 2]);
      r[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      r[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
#pragma GCC unroll 2
  for (int i = 0; i < 16; i += 8)
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
      t[i + j] = _mm512_shuffle_f32x4(r[i + j], r[i + j + 4], 0x88);
      t[i + j + 4] = _mm512_shuffle_f32x4(r[i + j], r[i + j + 4], 0xdd);
    }
#pragma GCC unroll 8
  for (int j = 0; j < 8; j++) {
    r[j] = _mm512_shuffle_f32x4(t[j], t[j + 8], 0x88);
    r[j + 8] = _mm512_shuffle_f32x4(t[j], t[j + 8], 0xdd);
  }
}
#elif PG_ISA == 2
PG_INLINE void transpose(vf (&r)[VL]) {
  vf t[VL];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
      r[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0x44);
      r[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0xee);
    }
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {
    t[j] = _mm256_permute2f128_ps(r[j], r[j + 4], 0x20);
    t[j + 4] = _mm256_permute2f128_ps(r[j], r[j + 4], 0x31);
  }
#pragma GCC unroll 8
  for (int j = 0; j < 8; j++) r[j] = t[j];
}
#endif

}  // namespace

void pack_float(float* out, const float* x, int64_t x_stride, int64_t height, int64_t cols) {
  int64_t k = 0;
#if PG_ISA >= 2
  // Columns are stored a whole vector wide; what spills into the next column is overwritten by it. So the last ones are not.
  for (; height > 1 && (k + VL) * height + VL <= cols * height; k += VL) {
    vf square[VL];
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++) square[i] = i < height ? v_load(x + i * x_stride + k) : v_set(0.0f);
    transpose(square);
#pragma GCC unroll 16
    for (int j = 0; j < VL; j++) v_store(out + (k + j) * height, square[j]);
  }
#endif
  for (int64_t i = 0; i < height; i++)
    for (int64_t c = k; c < cols; c++) out[c * height + i] = x[i * x_stride + c];
}

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

void pack_int(uint8_t* out, const float* x, int64_t x_stride, int64_t height, int64_t cols, bool all_fields) {
  const int64_t blocks = (cols + 31) / 32;
  float padded[32] = {};  // the last block, where it is short
  for (int64_t b = 0; b < blocks; b++) {
    uint8_t* codes = out + b * 32 * height;
    uint8_t* side = out + blocks * 32 * height + b * kSideFields * 4 * height;
    const int64_t left = cols - b * 32;
    for (int64_t i = 0; i < height; i++) {
      const float* from = x + i * x_stride + b * 32;
      if (left < 32) {
        memcpy(padded, from, (size_t)left * sizeof(float));
        from = padded;
      }
      QuantizedBlock block;
      quantize_block(block, from);
#pragma GCC unroll 8
      for (int group = 0; group < 8; group++) memcpy(codes + (group * height + i) * 4, block.q + group * 4, 4);
      const auto put = [&](int32_t field, const void* word) { memcpy(side + (field * height + i) * 4, word, 4); };
      const int32_t sum = block.sum_lo + block.sum_hi;
      const int32_t starts[4] = {-128 * sum, -8 * sum, -8 * block.sum_lo, -8 * block.sum_hi};
      put(kSideScale, &block.scale);
      put(kSideMinus128, &starts[0]);
      put(kSideMinus8, &starts[1]);
      if (!all_fields) continue;
      const float totals[3] = {block.scale * (float)sum, block.scale * (float)block.sum_lo,
                               block.scale * (float)block.sum_hi};
      put(kSideMinus8Lo, &starts[2]);
      put(kSideMinus8Hi, &starts[3]);
      for (int f = 0; f < 3; f++) put(kSideSum + f, &totals[f]);
    }
  }
}

}  // namespace PG_NS
}  // namespace pg
