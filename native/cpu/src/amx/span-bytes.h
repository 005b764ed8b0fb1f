// Weights of q8 and q4 as int8 over a span of columns: factor * code = unit * byte, a unit for each output.
//
// Maths    the factors of a span are integer multiples of one number, and their products with the codes are rounded, halfway cases up:
//            q8  multiplier = factor / max |factor| * 254   byte = multiplier * code / 256   unit = max |factor| * 256 / 254
//            q4  multiplier = factor / max |factor| * 63    byte = multiplier * code / 4     unit = max |factor| * 4 / 63
// Rounding a weight is off by half a 127th of the largest that its span could have, about as much as x is, and a factor by half a 254th or
//          63rd of the largest (q4_k has its factors as 63rds too).
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

template <Codes C>
constexpr float kMostMultiplied = C == Codes::kByte ? 254.0f : 63.0f;
template <Codes C>
PG_INLINE vf unit_of(vf largest) { return v_mul(largest, v_set((C == Codes::kByte ? 256.0f : 4.0f) / kMostMultiplied<C>)); }
template <Codes C>
PG_INLINE vf load_unit(const uint8_t* units, int half) { return unit_of<C>(v_load_f16((const uint16_t*)units + half * 16)); }

// Multipliers of 16 outputs in the blocks of a span, and their unit. factors: f16 of the first of `count` blocks; the next are block_bytes on.
struct SpanMultipliers {
  vf largest, unit;
  __m512i of[kSpanBlocks];
};
PG_INLINE void store_unit(uint8_t* units, int half, const SpanMultipliers& of) {
  _mm256_storeu_si256((__m256i*)units + half, _mm512_cvtps_ph(of.largest, _MM_FROUND_TO_NEAREST_INT));
}

// kCount: of blocks.
template <Codes C, int kCount>
PG_INLINE void read_multipliers_of(SpanMultipliers& out, const uint8_t* factors, int64_t block_bytes) {
  vf values[kCount];
  // Magnitudes order by their bits, and NaN comes out on top. What is not finite reaches the output by the unit.
  __m512i most = _mm512_setzero_si512();
#pragma GCC unroll 8
  for (int b = 0; b < kCount; b++) {
    values[b] = v_load_f16((const uint16_t*)(factors + b * block_bytes));
    most = _mm512_max_epi32(most, _mm512_and_si512(_mm512_castps_si512(values[b]), _mm512_set1_epi32(0x7fffffff)));
  }
  out.largest = _mm512_castsi512_ps(most);
  out.unit = unit_of<C>(out.largest);
  const vf inverse = _mm512_maskz_div_ps(_mm512_test_epi32_mask(most, most), v_set(kMostMultiplied<C>), out.largest);
#pragma GCC unroll 8
  for (int b = 0; b < kCount; b++) out.of[b] = _mm512_cvtps_epi32(v_mul(values[b], inverse));
}

template <Codes C>
PG_INLINE void read_multipliers(SpanMultipliers& out, const uint8_t* factors, int64_t block_bytes, int64_t count) {
  switch (count) {
    case 1: return read_multipliers_of<C, 1>(out, factors, block_bytes);
    case 2: return read_multipliers_of<C, 2>(out, factors, block_bytes);
    case 3: return read_multipliers_of<C, 3>(out, factors, block_bytes);
    case 4: return read_multipliers_of<C, 4>(out, factors, block_bytes);
    case 5: return read_multipliers_of<C, 5>(out, factors, block_bytes);
    case 6: return read_multipliers_of<C, 6>(out, factors, block_bytes);
    case 7: return read_multipliers_of<C, 7>(out, factors, block_bytes);
    default: return read_multipliers_of<C, kSpanBlocks>(out, factors, block_bytes);
  }
}

PG_INLINE __m512i each_byte(__m512i x) {  // the lowest of 32 bits, four times
  return _mm512_shuffle_epi8(x, _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0));
}
PG_INLINE __m512i each_pair(__m512i x) {  // the lower 16 of 32 bits, twice
  return _mm512_shuffle_epi8(x, _mm512_set4_epi32(0x0d0c0d0c, 0x09080908, 0x05040504, 0x01000100));
}

// 64 entries of a byte, by the lower 6 bits of each index.
PG_INLINE __m512i looked_up(__m512i index, __m512i table) {
#ifdef PG_TILES_TWIN  // where tests run there may be no such instruction
  alignas(64) uint8_t at[64], from[64];
  _mm512_store_si512(at, index);
  _mm512_store_si512(from, table);
  for (uint8_t& byte : at) byte = from[byte & 63];
  return _mm512_load_si512(at);
#else
  return _mm512_permutexvar_epi8(index, table);
#endif
}

// How the codes of a block become bytes that are larger by `excess` (0 or 128).
template <Codes C>
struct BlockBytes;

// 16 bits of multiplier * code + constant, of which the upper eight count.
template <>
struct BlockBytes<Codes::kByte> {
  static constexpr int kParts = 1;
  __m512i multipliers, constants;
  [[gnu::always_inline]] BlockBytes(__m512i multiplier, int excess)
      : multipliers(each_pair(multiplier)),
        constants(_mm512_sub_epi16(_mm512_set1_epi16((short)(128 + 256 * excess)), _mm512_slli_epi16(multipliers, 7))) {}
  // A vector of codes, [16 outputs][4 columns].
  [[gnu::always_inline]] void make(__m512i (&out)[kParts], __m512i codes) const {
    const auto number = [&](__m512i code) { return _mm512_add_epi16(_mm512_mullo_epi16(code, multipliers), constants); };
    const __m512i even = number(_mm512_and_si512(codes, _mm512_set1_epi16(255))), odd = number(_mm512_srli_epi16(codes, 8));
    const __m512i upper = _mm512_set4_epi32(0x000f000d, 0x000b0009, 0x00070005, 0x00030001);
    out[0] = _mm512_mask_shuffle_epi8(odd, 0x5555555555555555ull, even, upper);
  }
};

// multiplier = 4 * whole + quarters: whole * code fits a byte, so one multiplication does for two of them (codes of a negative one are turned
// round, which keeps products from borrowing of each other), and the quarters' part is looked up.
template <>
struct BlockBytes<Codes::kNibbleOffset> {
  static constexpr int kParts = 2;
  __m512i wholes, turned, quarters, offsets;
  [[gnu::always_inline]] BlockBytes(__m512i multiplier, int excess) {
    const __m512i whole = _mm512_srai_epi32(multiplier, 2), size = _mm512_abs_epi32(whole);
    turned = _mm512_srai_epi32(multiplier, 31);
    wholes = each_pair(size);
    quarters = each_byte(_mm512_slli_epi32(_mm512_and_si512(multiplier, _mm512_set1_epi32(3)), 4));
    // Codes are stored larger by 8, turned ones by 7.
    const __m512i sevens = _mm512_sub_epi32(size, _mm512_slli_epi32(size, 3));
    offsets = each_byte(_mm512_add_epi32(_mm512_set1_epi32(excess), _mm512_sub_epi32(sevens, _mm512_andnot_si512(turned, size))));
  }
  // The group of the lower nibbles and that of the upper ones.
  [[gnu::always_inline]] void make(__m512i (&out)[kParts], __m512i codes) const {
    alignas(64) static constexpr int8_t kQuarters[64] = {
        0,  0,  0,  0,  0,  0,  0,  0,  0, 0, 0, 0, 0, 0, 0, 0,   // (code - 8) * 0 / 4
        -2, -2, -1, -1, -1, -1, 0,  0,  0, 0, 1, 1, 1, 1, 2, 2,   // * 1 / 4
        -4, -3, -3, -2, -2, -1, -1, 0,  0, 1, 1, 2, 2, 3, 3, 4,   // * 2 / 4
        -6, -5, -4, -4, -3, -2, -1, -1, 0, 1, 2, 2, 3, 4, 5, 5};  // * 3 / 4
    const __m512i mask = _mm512_set1_epi8(15), table = _mm512_load_si512(kQuarters);
    const auto bytes = [&](__m512i nibbles) {
      const __m512i product = _mm512_mullo_epi16(_mm512_ternarylogic_epi32(nibbles, turned, mask, 0x28), wholes);  // (a ^ b) & c
      const __m512i rest = looked_up(_mm512_ternarylogic_epi32(nibbles, mask, quarters, 0xea), table);             // a & b | c
      return _mm512_add_epi8(_mm512_add_epi8(product, offsets), rest);
    };
    out[0] = bytes(codes);
    out[1] = bytes(_mm512_srli_epi16(codes, 4));
  }
};

// The codes of 16 outputs of a block as bytes, [8 groups of 4 columns][16 outputs][4].
template <Codes C>
PG_INLINE void make_bytes(uint8_t* out, const uint8_t* codes, __m512i multiplier) {
  using Block = BlockBytes<C>;
  constexpr int kVectors = 8 / Block::kParts;
  const Block block(multiplier, 0);
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; v++) {
    __m512i made[Block::kParts];
    block.make(made, _mm512_loadu_si512(codes + v * 128));
#pragma GCC unroll 2
    for (int part = 0; part < Block::kParts; part++) _mm512_store_si512(out + (v + part * kVectors) * 64, made[part]);
  }
}

}  // namespace PG_NS
}  // namespace pg
