// Matmul of span-matmul.h on int8 tiles, for many rows.
//
// Tiling   multiplier * code, 16 bits, is 256 * high + low: two planes of bytes, signed and unsigned. A span of a panel is made planes in L1
//          once for the row tiles of a band, whose x stays in L2 while kTilePanels panels run. 16 rows of x by 16 outputs are two products
//          a step into two sums, the planes through one register: four are in use, and operands are zeroed (tile-bf16.cpp says why).
//          The sums of a span are stored, and folded into f32 between the products of the next: what a tile stores is not forwarded to
//          loads, which must find it in L1.
// Traffic  weights come from memory once per band of row tiles; per step 2 KiB of planes from L1 and 1 of x from L2 or L1, for 16,384
//          multiply-adds of x and weights. Every row tile asks for its share of the weights that come next.
#include "../kernels/finish.h"
#include "span-matmul.h"
#include "tile-matmul.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int64_t kBandTiles = 32;
constexpr int64_t kTileSums = kTileRows * kTileRows;

// A worker's: a span of a panel, the sums of it by two row tiles, and the sums of a band.
struct alignas(64) Room {
  uint8_t planes[2][kSpanSteps][2][kTileBytes];  // [halves of the outputs][steps][high, low][16 groups of 4 columns][16 outputs][4]
  vf units[2];
  int32_t products[2][2][kTileSums];  // [one, and the one before][high, low]
  float sums[kTilePanels][kBandTiles][kTileRows][kPanelRows];
};

enum : int { kHigh, kLow, kQuants, kPlane };

TileConfig whole_tiles() {
  TileConfig config;
  for (int tile = kHigh; tile <= kPlane; tile++) config.set(tile, kTileRows, kTileRowBytes);
  return config;
}

// 16-bit numbers times multipliers: codes of even columns, or of odd ones, less their offset.
struct Multiplied {
  __m512i even, odd;
};

template <Codes C>
PG_INLINE Multiplied multiply_codes(const uint8_t* codes, int half, int group, __m512i multipliers, __m512i offsets) {
  const auto product = [&](__m512i code) { return _mm512_sub_epi16(_mm512_mullo_epi16(code, multipliers), offsets); };
  if constexpr (C == Codes::kByte) {
    const __m512i bytes = _mm512_loadu_si512(codes + group * 128 + half * 64);
    return {product(_mm512_and_si512(bytes, _mm512_set1_epi16(255))), product(_mm512_srli_epi16(bytes, 8))};
  }
  const __m512i nibbles = _mm512_loadu_si512(codes + (group & 3) * 128 + half * 64), mask = _mm512_set1_epi16(15);
  if (group < 4) return {product(_mm512_and_si512(nibbles, mask)), product(_mm512_and_si512(_mm512_srli_epi16(nibbles, 8), mask))};
  return {product(_mm512_and_si512(_mm512_srli_epi16(nibbles, 4), mask)), product(_mm512_srli_epi16(nibbles, 12))};
}

// Blocks [first, first + count) of a panel, a span, as planes; zeros to the end of a step.
template <int E>
void make_planes(Room& room, const uint8_t* panel, int64_t first, int64_t count) {
  constexpr EncodingSpec spec = spec_of(E);
  constexpr __mmask64 kOddBytes = 0xaaaaaaaaaaaaaaaaull;
  for (int half = 0; half < 2; half++) {
    const uint8_t* at = panel + first * block_bytes(spec);
    SpanFactors factors;
    read_factors<spec.codes>(factors, at + code_bytes(spec.codes) + half * 32, block_bytes(spec), count);
    room.units[half] = factors.unit;
    for (int64_t b = 0; b < count; b++, at += block_bytes(spec)) {
      uint8_t* high = room.planes[half][b / 2][0] + b % 2 * (kTileBytes / 2);
      uint8_t* low = room.planes[half][b / 2][1] + b % 2 * (kTileBytes / 2);
      const __m512i one = _mm512_and_si512(factors.multipliers[b], _mm512_set1_epi32(0xffff));
      const __m512i multipliers = _mm512_or_si512(one, _mm512_slli_epi32(one, 16));  // for both pairs of an output's columns
      const __m512i offsets = _mm512_slli_epi16(multipliers, offset_of(spec.codes) == 128 ? 7 : 3);
#pragma GCC unroll 8
      for (int group = 0; group < 8; group++) {
        const Multiplied v = multiply_codes<spec.codes>(at, half, group, multipliers, offsets);
        _mm512_store_si512(low + group * 64, _mm512_mask_blend_epi8(kOddBytes, v.even, _mm512_slli_epi16(v.odd, 8)));
        _mm512_store_si512(high + group * 64, _mm512_mask_blend_epi8(kOddBytes, _mm512_srli_epi16(v.even, 8), v.odd));
      }
    }
    if (count % 2 != 0)
      for (int plane = 0; plane < 2; plane++) memset(room.planes[half][count / 2][plane] + kTileBytes / 2, 0, kTileBytes / 2);
  }
}

// The sums of 16 rows by 16 outputs on their way: sums += (256 * high + low) * (unit of the output * scale of the row).
struct Fold {
  float* sums;  // kPanelRows apart; null: there is nothing to fold
  const int32_t (*products)[kTileSums];
  const float* scales;
  vf unit;
};

template <int N>
PG_INLINE void fold_rows(const Fold& f, int64_t begin) {
  if (f.sums == nullptr) return;
#pragma GCC unroll 4
  for (int64_t i = begin; i < begin + N; i++) {
    const __m512i high = _mm512_load_si512(f.products[0] + i * 16), low = _mm512_load_si512(f.products[1] + i * 16);
    const vf whole = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high, 8), low));
    float* sums = f.sums + i * kPanelRows;
    v_store(sums, v_madd(whole, v_mul(f.unit, v_set(f.scales[i])), v_load(sums)));
  }
}

// `steps` steps of 16 rows of x (step_bytes apart) by 16 outputs, and what is to be folded meanwhile. soon: half a span of the x that comes
// next, asked for into L1.
PG_INLINE void multiply_span(const uint8_t* x, int64_t step_bytes, const uint8_t (*planes)[2][kTileBytes], int64_t steps,
                             int32_t (*products)[kTileSums], const Fold& before, const uint8_t* soon) {
  constexpr int kRowsEach = kTileRows / kSpanSteps / 2;
  tile_zero<kHigh>();
  tile_zero<kLow>();
  for (int64_t step = 0; step < steps; step++, x += step_bytes) {
    for (int64_t line = 0; line < kTileRows / 2; line++) __builtin_prefetch(soon + (step * kTileRows / 2 + line) * kTileRowBytes, 0, 3);
    tile_load<kQuants>(x, kTileRowBytes);
    tile_load<kPlane>(planes[step][0], kTileRowBytes);
    tile_dot_int8<kHigh, kQuants, kPlane>();
    tile_zero<kPlane>();
    fold_rows<kRowsEach>(before, 2 * step * kRowsEach);
    tile_load<kPlane>(planes[step][1], kTileRowBytes);
    tile_dot_low_bytes<kLow, kQuants, kPlane>();
    tile_zero<kQuants>();
    tile_zero<kPlane>();
    fold_rows<kRowsEach>(before, (2 * step + 1) * kRowsEach);
  }
  for (int64_t row = 2 * steps * kRowsEach; row < kTileRows; row++) fold_rows<1>(before, row);
  tile_store<kHigh>(products[0], kTileRowBytes);
  tile_store<kLow>(products[1], kTileRowBytes);
}

// Weights to be asked for, into L2.
struct Next {
  const uint8_t* at;
  int64_t bytes;
};

// A span of a panel, in planes, by the tiles of a band, the halves of the outputs one after the other.
void run_span(const Gemm& g, Room& room, float (*sums)[kTileRows][kPanelRows], int64_t tile_begin, int64_t tile_end, int64_t span,
              int64_t steps, Next next) {
  Fold before = {};
  const int64_t share = (next.bytes / (tile_end - tile_begin) + 63) / 64 * 64;
  for (int64_t t = tile_begin; t < tile_end; t++) {
    const SpanRows x = span_rows(g.tile_of(t), g.tiles.height(t), g.cols);
    const int64_t step_bytes = x.height * kTileRowBytes;
    for (int64_t line = 0; line < share; line += 64) __builtin_prefetch(next.at + (t - tile_begin) * share + line, 0, 2);
    for (int half = 0; half < 2; half++) {
      const uint8_t* from = x.quants + span * kSpanSteps * step_bytes;
      const uint8_t* soon = from + g.x_tile_bytes + half * kSpanSteps * step_bytes / 2;
      multiply_span(from, step_bytes, room.planes[half], steps, room.products[half], before, soon);
      before = {sums[t - tile_begin][0] + half * 16, room.products[half], x.scales + span * x.height, room.units[half]};
    }
  }
  fold_rows<kTileRows>(before, 0);
}

// Up to kTilePanels panels by the tiles of a band.
template <int E>
void run_panels(const Gemm& g, Room& room, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end) {
  constexpr EncodingSpec spec = spec_of(E);
  constexpr int64_t kSpanBytes = kSpanBlocks * block_bytes(spec);
  const int64_t blocks = blocks_of(g.cols), tiles = tile_end - tile_begin;
  for (int64_t panel = panel_begin; panel < panel_end; panel++)
    memset(room.sums[panel - panel_begin], 0, (size_t)tiles * sizeof room.sums[0][0]);
  for (int64_t first = 0; first < blocks; first += kSpanBlocks) {
    const int64_t count = blocks - first < kSpanBlocks ? blocks - first : kSpanBlocks;
    for (int64_t panel = panel_begin; panel < panel_end; panel++) {
      const uint8_t* at = g.panels + panel * g.panel_bytes;
      const uint8_t* next = panel + 1 < panel_end ? at + g.panel_bytes : g.panels + panel_begin * g.panel_bytes + kSpanBytes;
      make_planes<E>(room, at, first, count);
      run_span(g, room, room.sums[panel - panel_begin], tile_begin, tile_end, first / kSpanBlocks, (count + 1) / 2,
               {next + first * block_bytes(spec), kSpanBytes});
    }
  }
  for (int64_t panel = panel_begin; panel < panel_end; panel++)
    for (int64_t t = tile_begin; t < tile_end; t++)
      finish(g, room.sums[panel - panel_begin][t - tile_begin][0], g.tiles.first(t), g.tiles.height(t), panel * kPanelRows, kPanelRows);
}

template <int E>
void many_rows_gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t* scratch) {
  const TileScope scope(whole_tiles());
  for (int64_t panel = panel_begin; panel < panel_end; panel += kTilePanels) {
    const int64_t last_panel = panel + kTilePanels < panel_end ? panel + kTilePanels : panel_end;
    for (int64_t first = tile_begin; first < tile_end; first += kBandTiles) {
      const int64_t last = first + kBandTiles < tile_end ? first + kBandTiles : tile_end;
      run_panels<E>(g, *(Room*)scratch, panel, last_panel, first, last);
    }
  }
}

}  // namespace

const GemmFn gemm_q8_many_rows = many_rows_gemm<kEncodingQ8>;
const GemmFn gemm_q4_many_rows = many_rows_gemm<kEncodingQ4>;

int64_t span_scratch_bytes() { return sizeof(Room); }

}  // namespace PG_NS
}  // namespace pg
