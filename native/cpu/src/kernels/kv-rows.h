// Rows of the page pool as vectors of f32, for each element type. Loads may run past a row's end (the pool has slack behind
// it); callers never let such lanes into a result. i8 and fp8 rows come without their scale: kernels apply it to scores and
// probabilities, one multiplication per key instead of one per element.
#pragma once
#include "../kv-pool.h"
#include "lanes.h"

namespace pg {
namespace PG_NS {

struct RowF32 {
  static constexpr int bytes = 4;
  static constexpr bool scaled = false;
  PG_INLINE vf load(const uint8_t* row, int64_t i) { return v_load((const float*)row + i); }
};

struct RowF16 {
  static constexpr int bytes = 2;
  static constexpr bool scaled = false;
  PG_INLINE vf load(const uint8_t* row, int64_t i) { return v_load_f16((const uint16_t*)row + i); }
};

struct RowBf16 {
  static constexpr int bytes = 2;
  static constexpr bool scaled = false;
  PG_INLINE vf load(const uint8_t* row, int64_t i) { return v_load_bf16((const uint16_t*)row + i); }
};

struct RowI8 {
  static constexpr int bytes = 1;
  static constexpr bool scaled = true;
  PG_INLINE vf load(const uint8_t* row, int64_t i) {
#if PG_ISA == 3
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)(row + i))));
#elif PG_ISA == 2
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)(row + i))));
#else
    return v_load_i8((const int8_t*)row + i);
#endif
  }
};

// A code's sign, exponent and mantissa moved to their places in an f16 are its value / 256, subnormal ones too: the scale has the 256.
struct RowFp8 {
  static constexpr int bytes = 1;
  static constexpr bool scaled = true;
  PG_INLINE vf load(const uint8_t* row, int64_t i) {
#if PG_ISA == 3
    const __m256i w = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i*)(row + i)));
    const __m256i rest = _mm256_slli_epi16(_mm256_and_si256(w, _mm256_set1_epi16(0x7f)), 7);
    const __m256i sign = _mm256_slli_epi16(_mm256_and_si256(w, _mm256_set1_epi16(0x80)), 8);
    return _mm512_cvtph_ps(_mm256_or_si256(rest, sign));
#elif PG_ISA == 2
    const __m128i w = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i*)(row + i)));
    const __m128i rest = _mm_slli_epi16(_mm_and_si128(w, _mm_set1_epi16(0x7f)), 7);
    const __m128i sign = _mm_slli_epi16(_mm_and_si128(w, _mm_set1_epi16(0x80)), 8);
    return _mm256_cvtph_ps(_mm_or_si128(rest, sign));
#else
    uint16_t halves[VL];
    for (int k = 0; k < VL; k++) halves[k] = (uint16_t)((row[i + k] & 0x80) << 8 | (row[i + k] & 0x7f) << 7);
    return v_load_f16(halves);
#endif
  }
};

// VL numbers from i on, of which the first `lanes` belong to the row; the others are 0.
template <typename Row>
PG_INLINE vf load_row_some(const uint8_t* row, int64_t i, int lanes) {
  if (lanes == VL) return Row::load(row, i);
  uint8_t bytes[VL * 4] = {0};
  memcpy(bytes, row + i * Row::bytes, (size_t)(lanes * Row::bytes));
  return Row::load(bytes, 0);
}

}  // namespace PG_NS
}  // namespace pg
