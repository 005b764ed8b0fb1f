// Panels of span4: q4 that is only multiplied, held so that making bytes of it (span-bytes.h) is a lookup.
//
// A code is one of 16, so the bytes of a block are looked up among 16, if the codes of a 128-bit lane have one multiplier, that is, are of
// one output and block. A vector has four blocks of one output: what it becomes are rows of tiles, outputs being the rows, and nothing is
// transposed. The multipliers are made at load. For each span:
//   codes        [quads of blocks][32 outputs][blocks of the quad][16]: byte j has column j of the block in its lower nibble, column
//                16 + j in its upper one
//   multipliers  [quads][32 outputs][blocks of the quad]: a byte each, of twice the multiplier; zeros to a whole line
//   units        as span8 has them
#pragma once
#include "span-bytes.h"

namespace pg {
namespace PG_NS {

constexpr int kMostMultiplier = 63;
constexpr int64_t kSpan4Block = kPanelRows * kBlockCols / 2;  // bytes of codes
constexpr int64_t span4_units_at(int64_t blocks) { return blocks * kSpan4Block + (blocks * kPanelRows + 63) / 64 * 64; }
constexpr int64_t span4_span_bytes(int64_t blocks) { return span4_units_at(blocks) + kSpanUnits; }
constexpr int64_t kSpan4Bytes = span4_span_bytes(kSpanBlocks);

// Four blocks of a span, or as many as are left.
constexpr int64_t kQuadBlocks = 4;
constexpr int64_t kQuadCols = kQuadBlocks * kBlockCols;
constexpr int64_t kSpanQuads = kSpanBlocks / kQuadBlocks;
constexpr int64_t quads_of(int64_t blocks) { return (blocks + kQuadBlocks - 1) / kQuadBlocks; }
struct Quad {
  const uint8_t* codes;
  const uint8_t* multipliers;
  int64_t blocks;
};
PG_INLINE Quad quad_of(const uint8_t* span, int64_t blocks, int64_t quad) {
  const int64_t first = quad * kQuadBlocks, left = blocks - first;
  return {span + first * kSpan4Block, span + blocks * kSpan4Block + first * kPanelRows, left < kQuadBlocks ? left : kQuadBlocks};
}

// kWhole: there are four blocks; zeros stand for those that are not there.
template <bool kWhole>
PG_INLINE __m512i quad_codes(const Quad& quad, int64_t output) {
  if (kWhole) return _mm512_loadu_si512(quad.codes + output * 64);
  return _mm512_maskz_loadu_epi64((__mmask8)((1 << 2 * quad.blocks) - 1), quad.codes + output * 16 * quad.blocks);
}
// Of four outputs, [4 outputs][4 blocks], in every lane.
template <bool kWhole>
PG_INLINE __m512i quad_multipliers(const Quad& quad, int64_t output) {
  if (kWhole) return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)(quad.multipliers + output * 4)));
  alignas(16) uint8_t of[16] = {};
  for (int64_t i = 0; i < 4; i++)
    for (int64_t b = 0; b < quad.blocks; b++) of[i * 4 + b] = quad.multipliers[(output + i) * quad.blocks + b];
  return _mm512_broadcast_i32x4(_mm_load_si128((const __m128i*)of));
}

// The bytes that codes stand for, a lane for each block: four instructions make those of all 16 codes, fewer than loads of four multipliers
// and their tables are. A rounded product of 16 bits is ((2 * multiplier << 8) * (code - 8 << 4) + 2^14) >> 15, which is
// (multiplier * (code - 8) + 2) >> 2.
struct alignas(64) ToTables {
  uint8_t lanes[4][64];  // by output of the four: each lane's own multiplier, in the upper half of all words
  int16_t codes[2][32];
  constexpr ToTables() : lanes(), codes() {
    for (int i = 0; i < 64; i++)
      for (int output = 0; output < 4; output++) lanes[output][i] = i % 2 == 0 ? 0x80 : (uint8_t)(output * 4 + i / 16);
    for (int i = 0; i < 32; i++)
      for (int half = 0; half < 2; half++) codes[half][i] = (int16_t)((half * 8 + i % 8 - 8) * 16);
  }
};
inline constexpr ToTables kToTables{};
PG_INLINE __m512i nibble_tables(__m512i multipliers, int output) {
  const __m512i words = _mm512_shuffle_epi8(multipliers, _mm512_load_si512(kToTables.lanes[output]));
  return _mm512_packs_epi16(_mm512_mulhrs_epi16(words, _mm512_load_si512(kToTables.codes[0])),
                            _mm512_mulhrs_epi16(words, _mm512_load_si512(kToTables.codes[1])));
}

// The same, larger by 128, from a table of every multiplier's: for products of vectors, which are short of instructions and not of loads.
struct alignas(64) NibbleBytes {
  uint8_t of[2 * kMostMultiplier + 1][16];
  constexpr NibbleBytes() : of() {
    for (int multiplier = -kMostMultiplier; multiplier <= kMostMultiplier; multiplier++)
      for (int code = 0; code < 16; code++)
        of[multiplier + kMostMultiplier][code] = (uint8_t)((((code - 8) * multiplier + 2 + 4 * 256) >> 2) - 256 + 128);
  }
};
inline constexpr NibbleBytes kNibbleBytes{};
template <bool kWhole>
PG_INLINE __m512i loaded_tables(const Quad& quad, int64_t output) {
  const int8_t* doubled = (const int8_t*)quad.multipliers + output * (kWhole ? kQuadBlocks : quad.blocks);
  const auto table = [&](int block) {
    const int64_t twice = kWhole || block < quad.blocks ? doubled[block] : 0;
    return _mm_load_si128((const __m128i*)(kNibbleBytes.of[kMostMultiplier] + twice * 8));
  };
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

// 16 outputs of a quad from `first` on as two tiles, `apart` bytes from each other: [16 outputs][blocks][16], the first 16 columns of the
// blocks and the last.
template <bool kWhole>
PG_INLINE void make_quad_bytes(uint8_t* out, int64_t apart, const Quad& quad, int64_t first) {
#pragma GCC unroll 4
  for (int four = 0; four < kTileRows; four += 4) {
    const __m512i multipliers = quad_multipliers<kWhole>(quad, first + four);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      const __m512i tables = nibble_tables(multipliers, i), codes = quad_codes<kWhole>(quad, first + four + i);
      uint8_t* row = out + (four + i) * kTileRowBytes;
      _mm512_store_si512(row, _mm512_shuffle_epi8(tables, lower_nibbles(codes)));
      _mm512_store_si512(row + apart, _mm512_shuffle_epi8(tables, upper_nibbles(codes)));
    }
  }
}
[[gnu::noinline]] inline void make_part_of_quad(uint8_t* out, int64_t apart, const Quad& quad, int64_t first) {
  make_quad_bytes<false>(out, apart, quad, first);
}
PG_INLINE void make_quad(uint8_t* out, int64_t apart, const Quad& quad, int64_t first) {
  if (quad.blocks == kQuadBlocks) make_quad_bytes<true>(out, apart, quad, first);
  else make_part_of_quad(out, apart, quad, first);
}

}  // namespace PG_NS
}  // namespace pg
