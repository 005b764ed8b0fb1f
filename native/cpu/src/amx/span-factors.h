// Weights as bytes over a span of columns: factor * value = unit * byte, a unit for each output.
//
// Maths    the factors of a span are integer multiples of one number, and their products with the codes' values are rounded, halfway
//          cases up:  byte = multiplier * value >> shift.  What the multipliers are multiples of:
//            max |factor| / most   where each block has a factor of its own: q8 254, q4 and q4_1 63, q5_0, q5_1 and iq4_nl 127,
//                                  mxfp4 128 (its factors are powers of two: exact down to a 128th)
//            the factor of the super block, exactly: k-quants and iq4_xs have multipliers in the file
//          Values of q4_k and q5_k are not negative, their bytes are unsigned; others are signed, of q4_1 and q5_1 taken from the middle
//          of the codes, for which the minimums make up. q6_k's bytes end at 127.
// Minimums stay apart and exact: integers of 16 bits (the file's own, of q4_1 and q5_1 32767ths of the largest) by the sums of x.
// Rounding a weight is off by half a 127th of the largest that its span could have, about as much as x is, and a factor by half a 254th or
//          63rd of the largest.
#pragma once
#include "../encoding.h"
#include "tiles.h"

namespace pg {
namespace PG_NS {

constexpr int64_t kSpanBlocks = 8;
constexpr int64_t kSpanCols = kSpanBlocks * kBlockCols;
constexpr int64_t spans_of(int64_t cols) { return (cols + kSpanCols - 1) / kSpanCols; }
// A tile has 64 columns of 16 rows of x, or of 16 outputs.
constexpr int64_t kIntStepCols = 64;
constexpr int64_t kSpanSteps = kSpanCols / kIntStepCols;
constexpr int64_t kTileRowBytes = 64;
constexpr int64_t kTileBytes = kTileRows * kTileRowBytes;
constexpr int64_t int_steps_of(int64_t cols) { return (cols + kIntStepCols - 1) / kIntStepCols; }

// A step of a panel: [halves of the outputs][16 groups of 4 columns][16 outputs][4].
constexpr int64_t kStepBytes = 2 * kTileBytes;
// Zeros for the second block of a step that has only one.
PG_INLINE void clear_last_block(uint8_t* step) {
  for (int half = 0; half < 2; half++) memset(step + half * kTileBytes + kTileBytes / 2, 0, kTileBytes / 2);
}
// What panels made at load have of the units: max |factor|, which is an f16 of the file, [32 outputs].
constexpr int64_t kSpanUnits = kPanelRows * 2;
// Panels of span8 have, for each span, its steps and then the units.
constexpr int64_t kSpan8Bytes = kSpanSteps * kStepBytes + kSpanUnits;

// How the bytes of an encoding are made.
struct ByteRule {
  int shift;
  float most;  // the multiplier of the largest factor; 0: multipliers are the file's
  bool is_unsigned = false;
  bool saturates = false;  // products may be one more than a byte holds
};
constexpr ByteRule byte_rule(int32_t encoding) {
  switch (encoding) {
    case kEncodingQ8: return {8, 254};
    case kEncodingQ4:
    case kEncodingQ4M: return {2, 63};
    case kEncodingQ5:
    case kEncodingQ5M: return {4, 127};
    case kEncodingN4: return {7, 127};
    case kEncodingMx4: return {4, 128};
    case kEncodingQ4K: return {2, 0, true};
    case kEncodingQ5K: return {3, 0, true};
    case kEncodingQ6K: return {5, 0, false, true};
    default: return {5, 0};  // iq4_xs
  }
}

template <int E>
PG_INLINE vf unit_of(vf largest) {
  constexpr ByteRule rule = byte_rule(E);
  return v_mul(largest, v_set((float)(1 << rule.shift) / (rule.most > 0 ? rule.most : 1.0f)));
}
template <int E>
PG_INLINE vf load_unit(const uint8_t* units, int half) { return unit_of<E>(v_load_f16((const uint16_t*)units + half * 16)); }

// A span of a panel: its bytes, and block b of it.
template <int E>
constexpr int64_t span_bytes() {
  constexpr EncodingSpec spec = spec_of(E);
  static_assert(record_blocks(spec) == 1 || record_blocks(spec) == kSpanBlocks, "a super block is a span");
  return header_bytes(spec) + kSpanBlocks * block_bytes(spec);
}
template <int E>
PG_INLINE const uint8_t* block_at(const uint8_t* span, int64_t b) { return span + header_bytes(spec_of(E)) + b * block_bytes(spec_of(E)); }

// Multipliers of 16 outputs in the blocks of a span, of each half block where those have their own; and the unit.
template <int E>
struct SpanMultipliers {
  static constexpr int kHalves = spec_of(E).scale == Factor::kSuper16 ? 2 : 1;
  vf largest, unit;
  __m512i of[kSpanBlocks][kHalves];
};
template <int E>
PG_INLINE void store_unit(uint8_t* units, int half, const SpanMultipliers<E>& of) {
  _mm256_storeu_si256((__m256i*)units + half, _mm512_cvtps_ph(of.largest, _MM_FROUND_TO_NEAREST_INT));
}

PG_INLINE __m512i load_small(const uint8_t* at) { return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)at)); }
// Magnitudes order by their bits, and NaN comes out on top. What is not finite reaches the output by the unit.
PG_INLINE __m512i larger_of(__m512i most, vf values) {
  return _mm512_max_epi32(most, _mm512_and_si512(_mm512_castps_si512(values), _mm512_set1_epi32(0x7fffffff)));
}
PG_INLINE vf over_largest(float most, __m512i largest) {
  return _mm512_maskz_div_ps(_mm512_test_epi32_mask(largest, largest), v_set(most), _mm512_castsi512_ps(largest));
}
template <int E>
PG_INLINE vf block_factors(const uint8_t* span, int64_t b, int half) {
  const uint16_t* at = (const uint16_t*)(block_at<E>(span, b) + code_bytes(spec_of(E).codes)) + half * 16;
  return spec_of(E).scale == Factor::kBhalf ? v_load_bf16(at) : v_load_f16(at);
}

// half: of the outputs.
template <int E, int kCount>
PG_INLINE void read_multipliers_of(SpanMultipliers<E>& out, const uint8_t* span, int half) {
  if constexpr (byte_rule(E).most == 0) {
    out.largest = v_load_f16((const uint16_t*)span + half * 16);
#pragma GCC unroll 8
    for (int b = 0; b < kCount; b++)
#pragma GCC unroll 2
      for (int part = 0; part < out.kHalves; part++)
        out.of[b][part] = load_small(block_at<E>(span, b) + code_bytes(spec_of(E).codes) + part * kPanelRows + half * 16);
  } else {
    vf values[kCount];
    __m512i most = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int b = 0; b < kCount; b++) {
      values[b] = block_factors<E>(span, b, half);
      most = larger_of(most, values[b]);
    }
    out.largest = _mm512_castsi512_ps(most);
    const vf inverse = over_largest(byte_rule(E).most, most);
#pragma GCC unroll 8
    for (int b = 0; b < kCount; b++) out.of[b][0] = _mm512_cvtps_epi32(v_mul(values[b], inverse));
  }
  out.unit = unit_of<E>(out.largest);
}

template <int E>
PG_INLINE void read_multipliers(SpanMultipliers<E>& out, const uint8_t* span, int half, int64_t count) {
  if constexpr (byte_rule(E).most == 0) return read_multipliers_of<E, kSpanBlocks>(out, span, half);
  switch (count) {
    case 1: return read_multipliers_of<E, 1>(out, span, half);
    case 2: return read_multipliers_of<E, 2>(out, span, half);
    case 3: return read_multipliers_of<E, 3>(out, span, half);
    case 4: return read_multipliers_of<E, 4>(out, span, half);
    case 5: return read_multipliers_of<E, 5>(out, span, half);
    case 6: return read_multipliers_of<E, 6>(out, span, half);
    case 7: return read_multipliers_of<E, 7>(out, span, half);
    default: return read_multipliers_of<E, kSpanBlocks>(out, span, half);
  }
}

// Minimums of 16 outputs: integers of two blocks side by side, and what they are multiples of, negative, since x has its sums so.
template <int E>
constexpr bool kHasMinimums = spec_of(E).minimum != Factor::kNone;
struct SpanMinimums {
  __m512i pairs[kSpanBlocks / 2];
  vf minus_unit;
};
template <int E>
PG_INLINE void read_minimums(SpanMinimums& out, const uint8_t* span, int half, int64_t count) {
  constexpr EncodingSpec spec = spec_of(E);
  constexpr int64_t at = code_bytes(spec.codes) + factor_bytes(spec.scale);  // in a block
  __m512i of[kSpanBlocks];
  vf unit;
  if constexpr (is_super(spec.minimum)) {
    unit = v_load_f16((const uint16_t*)(span + big_bytes(spec.scale)) + half * 16);
#pragma GCC unroll 8
    for (int64_t b = 0; b < kSpanBlocks; b++) of[b] = load_small(block_at<E>(span, b) + at + half * 16);
  } else {
    constexpr float middle = spec.codes == Codes::kFive ? 16.0f : 8.0f;
    vf values[kSpanBlocks];
    __m512i most = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int64_t b = 0; b < kSpanBlocks; b++) {
      values[b] = v_set(0.0f);
      if (b < count) values[b] = v_madd(block_factors<E>(span, b, half), v_set(middle), v_load_f16((const uint16_t*)(block_at<E>(span, b) + at) + half * 16));
      most = larger_of(most, values[b]);
    }
    const vf inverse = over_largest(32767.0f, most);
    unit = v_mul(_mm512_castsi512_ps(most), v_set(1.0f / 32767.0f));
#pragma GCC unroll 8
    for (int64_t b = 0; b < kSpanBlocks; b++) of[b] = _mm512_cvtps_epi32(v_mul(values[b], inverse));
  }
#pragma GCC unroll 4
  for (int pair = 0; pair < kSpanBlocks / 2; pair++)
    out.pairs[pair] = _mm512_mask_blend_epi16(0xaaaaaaaa, of[2 * pair], _mm512_slli_epi32(of[2 * pair + 1], 16));
  out.minus_unit = v_sub(v_set(0.0f), unit);
}
// Less the products with a row's sums of x, [8 blocks].
PG_INLINE __m512i minus_minimums(const SpanMinimums& minimums, const int16_t* sums) {
  __m512i out = _mm512_setzero_si512();
#pragma GCC unroll 4
  for (int pair = 0; pair < kSpanBlocks / 2; pair++) {
    int32_t two;
    memcpy(&two, sums + 2 * pair, 4);
    out = _mm512_dpwssd_epi32(out, minimums.pairs[pair], _mm512_set1_epi32(two));
  }
  return out;
}
// A span's products with a row, whose scale is `scale`, onto its sums.
PG_INLINE vf add_span(vf sums, __m512i products, vf unit, const SpanMinimums& minimums, const int16_t* row_sums, float scale) {
  const vf less = v_mul(_mm512_cvtepi32_ps(minus_minimums(minimums, row_sums)), minimums.minus_unit);
  return v_madd(v_madd(_mm512_cvtepi32_ps(products), unit, less), v_set(scale), sums);
}

}  // namespace PG_NS
}  // namespace pg
