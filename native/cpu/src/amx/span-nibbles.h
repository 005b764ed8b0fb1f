// Panels of span4: q4 that is only multiplied, held so that making bytes of it (span-bytes.h) is a lookup.
//
// A multiplier is one of 127 and a code one of 16, so the bytes of a block are looked up among 16, if the codes of a 128-bit lane have one
// multiplier, that is, are of one output. The multipliers are made at load. For each span:
//   codes   [blocks][halves of the outputs][4 quarters][4 outputs][16]: the quarter q of a half has its outputs q, q + 4, q + 8, q + 12, and
//           byte j of them column j of the block in its lower nibble, column 16 + j in its upper one
//   places  a byte for each block and output, in the order of the codes: where the bytes of its multiplier begin, in eights; zeros to
//           a whole line
//   units   as span8 has them
#pragma once
#include "span-bytes.h"

namespace pg {
namespace PG_NS {

constexpr int kMostMultiplier = 63;
constexpr int64_t kSpan4Half = kTileRows * kBlockCols / 2;  // bytes of codes
constexpr int64_t kSpan4Block = 2 * kSpan4Half;
constexpr int64_t span4_units_at(int64_t blocks) { return blocks * kSpan4Block + (blocks * kPanelRows + 63) / 64 * 64; }
constexpr int64_t span4_span_bytes(int64_t blocks) { return span4_units_at(blocks) + kSpanUnits; }
constexpr int64_t kSpan4Bytes = span4_span_bytes(kSpanBlocks);

// The bytes of every multiplier, larger by kExcess (0 or 128).
template <int kExcess>
struct alignas(64) NibbleBytes {
  uint8_t of[2 * kMostMultiplier + 1][16];
  constexpr NibbleBytes() : of() {
    for (int multiplier = -kMostMultiplier; multiplier <= kMostMultiplier; multiplier++)
      for (int code = 0; code < 16; code++)
        of[multiplier + kMostMultiplier][code] = (uint8_t)((((code - 8) * multiplier + 2 + 4 * 256) >> 2) - 256 + kExcess);
  }
};
template <int kExcess>
inline constexpr NibbleBytes<kExcess> kNibbleBytes{};
constexpr uint8_t place_of(int multiplier) { return (uint8_t)((multiplier + kMostMultiplier) * 2); }

// The bytes that the codes of four outputs stand for, a lane for each.
template <int kExcess>
PG_INLINE __m512i nibble_tables(const uint8_t* places) {
  const auto table = [&](int i) { return _mm_load_si128((const __m128i*)(kNibbleBytes<kExcess>.of[0] + places[i] * 8)); };
  __m512i tables = _mm512_broadcast_i32x4(table(0));
  tables = _mm512_mask_broadcast_i32x4(tables, 0x00f0, table(1));
  tables = _mm512_mask_broadcast_i32x4(tables, 0x0f00, table(2));
  return _mm512_mask_broadcast_i32x4(tables, 0xf000, table(3));
}

// A product of each byte with a matrix of bits: one instruction where a shift and a mask are two.
#ifdef PG_TILES_TWIN  // where tests run there may be no such instruction
PG_INLINE __m512i lower_nibbles(__m512i x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
PG_INLINE __m512i upper_nibbles(__m512i x) { return _mm512_and_si512(_mm512_srli_epi16(x, 4), _mm512_set1_epi8(15)); }
#else
PG_INLINE __m512i lower_nibbles(__m512i x) { return _mm512_gf2p8affine_epi64_epi8(x, _mm512_set1_epi64(0x0102040800000000), 0); }
PG_INLINE __m512i upper_nibbles(__m512i x) { return _mm512_gf2p8affine_epi64_epi8(x, _mm512_set1_epi64(0x1020408000000000), 0); }
#endif

// A quarter of a half of a block: [4 outputs][16 columns], the first 16 of them and the others.
struct Quarter {
  __m512i first, last;
};
template <int kExcess>
PG_INLINE Quarter quarter_bytes(const uint8_t* codes, const uint8_t* places) {
  const __m512i both = _mm512_loadu_si512(codes), tables = nibble_tables<kExcess>(places);
  return {_mm512_shuffle_epi8(tables, lower_nibbles(both)), _mm512_shuffle_epi8(tables, upper_nibbles(both))};
}

// A half of a block as bytes, [8 groups of 4 columns][16 outputs][4].
PG_INLINE void make_nibble_bytes(uint8_t* out, const uint8_t* codes, const uint8_t* places) {
  Quarter quarters[4];
#pragma GCC unroll 4
  for (int q = 0; q < 4; q++) quarters[q] = quarter_bytes<0>(codes + q * 64, places + q * 4);
  // In every lane, four outputs of four groups each become four groups of four outputs.
  const auto store = [&](uint8_t* to, __m512i a, __m512i b, __m512i c, __m512i d) {
    const __m512i lower = _mm512_unpacklo_epi32(a, b), upper = _mm512_unpackhi_epi32(a, b);
    const __m512i lower2 = _mm512_unpacklo_epi32(c, d), upper2 = _mm512_unpackhi_epi32(c, d);
    _mm512_store_si512(to, _mm512_unpacklo_epi64(lower, lower2));
    _mm512_store_si512(to + 64, _mm512_unpackhi_epi64(lower, lower2));
    _mm512_store_si512(to + 128, _mm512_unpacklo_epi64(upper, upper2));
    _mm512_store_si512(to + 192, _mm512_unpackhi_epi64(upper, upper2));
  };
  store(out, quarters[0].first, quarters[1].first, quarters[2].first, quarters[3].first);
  store(out + 256, quarters[0].last, quarters[1].last, quarters[2].last, quarters[3].last);
}

// A block at its place in a step: [halves][blocks of the step][groups][16 outputs][4].
PG_INLINE void make_nibble_block(uint8_t* step, int64_t block, const uint8_t* codes, const uint8_t* places) {
  for (int half = 0; half < 2; half++)
    make_nibble_bytes(step + half * kTileBytes + block % 2 * (kTileBytes / 2), codes + half * kSpan4Half, places + half * kTileRows);
}

}  // namespace PG_NS
}  // namespace pg
