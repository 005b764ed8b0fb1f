// Matmul of span-matmul.h on int8 tiles, for many rows.
//
// Tiling   a span of a panel is made bytes in L1 once for the row tiles of a band, whose x stays in L2 while kTilePanels panels run. 16 rows of x by the 32 outputs of a panel are two products a step into two sums, the halves of the panel through one
//          register: four are in use, and operands are zeroed (tile-bf16.cpp says why). The sums of a span are stored, and folded into
//          f32 between the products of the next: what a tile stores is not forwarded to loads, which must find it in L1.
// Traffic  weights come from memory once per band of row tiles; per step 2 KiB of bytes from L1 and 1 of x from L2 or L1, for 32,768
//          multiply-adds. Every row tile asks for its share of the weights that come next.
#include "../kernels/finish.h"
#include "span-fold.h"
#include "span-nibbles.h"
#include "tile-matmul.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int64_t kBandTiles = 32;

// Some 32 outputs over a span: [steps][kStepBytes].
struct SpanPanel {
  const uint8_t* bytes;
  vf units[2];
};

// A worker's: a span of a panel as bytes, the sums of it by two row tiles, and the sums of a band.
struct alignas(64) Room {
  uint8_t bytes[kSpanSteps * kStepBytes];
  int32_t products[2][2][kTileSums];  // [one, and the one before][halves]
  float sums[kTilePanels][kBandTiles][kTileRows][kPanelRows];
};

enum : int { kSum0, kSum1, kQuants, kBytes };

TileConfig whole_tiles() {
  TileConfig config;
  for (int tile = kSum0; tile <= kBytes; tile++) config.set(tile, kTileRows, kTileRowBytes);
  return config;
}

// Blocks [first, first + count) of a panel, a span. Codes are made bytes in `room`, with zeros to the end of a step.
template <int E>
SpanPanel span_of(const uint8_t* panel, int64_t first, int64_t count, uint8_t* room) {
  if constexpr (E == kEncodingSpan8) {
    const uint8_t* bytes = panel + first / kSpanBlocks * kSpan8Bytes;
    const uint8_t* units = bytes + (count + 1) / 2 * kStepBytes;
    return {bytes, {load_unit<Codes::kByte>(units, 0), load_unit<Codes::kByte>(units, 1)}};
  } else if constexpr (E == kEncodingSpan4) {
    const uint8_t* span = panel + first / kSpanBlocks * kSpan4Bytes;
    for (int64_t b = 0; b < count; b++)
      make_nibble_block(room + b / 2 * kStepBytes, b, span + b * kSpan4Block, span + count * kSpan4Block + b * kPanelRows);
    if (count % 2 != 0) clear_last_block(room + count / 2 * kStepBytes);
    const uint8_t* units = span + span4_units_at(count);
    return {room, {load_unit<Codes::kNibble>(units, 0), load_unit<Codes::kNibble>(units, 1)}};
  } else {
    constexpr EncodingSpec spec = spec_of(E);
    const uint8_t* blocks = panel + first * block_bytes(spec);
    SpanMultipliers multipliers[2];
    for (int half = 0; half < 2; half++)
      read_multipliers<spec.codes>(multipliers[half], blocks + code_bytes(spec.codes) + half * 32, block_bytes(spec), count);
    for (int64_t b = 0; b < count; b++, blocks += block_bytes(spec))
      for (int half = 0; half < 2; half++)
        make_bytes<spec.codes>(room + b / 2 * kStepBytes + half * kTileBytes + b % 2 * (kTileBytes / 2), blocks + half * 64,
                               multipliers[half].of[b]);
    if (count % 2 != 0) clear_last_block(room + count / 2 * kStepBytes);
    return {room, {multipliers[0].unit, multipliers[1].unit}};
  }
}

// `steps` steps of 16 rows of x (step_bytes apart) by the outputs of a panel, and what is to be folded meanwhile. soon: the x that comes
// next, asked for into L1.
PG_INLINE void multiply_span(const uint8_t* x, int64_t step_bytes, const SpanPanel& panel, int64_t steps, int32_t (*products)[kTileSums],
                             const Fold& before, const uint8_t* soon) {
  constexpr int kRowsEach = kTileRows / kSpanSteps / 2;
  tile_zero<kSum0>();
  tile_zero<kSum1>();
  for (int64_t step = 0; step < steps; step++, x += step_bytes, soon += step_bytes) {
    for (int64_t line = 0; line < kTileRows; line++) __builtin_prefetch(soon + line * kTileRowBytes, 0, 3);
    tile_load<kQuants>(x, kTileRowBytes);
    tile_load<kBytes>(panel.bytes + step * kStepBytes, kTileRowBytes);
    tile_dot_int8<kSum0, kQuants, kBytes>();
    tile_zero<kBytes>();
    fold_rows<kRowsEach>(before, 2 * step * kRowsEach);
    tile_load<kBytes>(panel.bytes + step * kStepBytes + kTileBytes, kTileRowBytes);
    tile_dot_int8<kSum1, kQuants, kBytes>();
    tile_zero<kQuants>();
    tile_zero<kBytes>();
    fold_rows<kRowsEach>(before, (2 * step + 1) * kRowsEach);
  }
  for (int64_t row = 2 * steps * kRowsEach; row < kTileRows; row++) fold_rows<1>(before, row);
  tile_store<kSum0>(products[0], kTileRowBytes);
  tile_store<kSum1>(products[1], kTileRowBytes);
}

// Up to kTilePanels panels by the tiles of a band.
template <int E>
void run_panels(const Gemm& g, Room& room, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end) {
  constexpr int64_t kSpanBytes =
      E == kEncodingSpan8 ? kSpan8Bytes : E == kEncodingSpan4 ? kSpan4Bytes : kSpanBlocks * block_bytes(spec_of(E));  // in memory
  const int64_t blocks = blocks_of(g.cols), tiles = tile_end - tile_begin;
  const int64_t share = (kSpanBytes / tiles + 63) / 64 * 64;  // of the weights that come next, for each tile to ask for
  for (int64_t panel = panel_begin; panel < panel_end; panel++)
    memset(room.sums[panel - panel_begin], 0, (size_t)tiles * sizeof room.sums[0][0]);
  Fold before = {};
  int turn = 0;
  for (int64_t first = 0; first < blocks; first += kSpanBlocks) {
    const int64_t count = blocks - first < kSpanBlocks ? blocks - first : kSpanBlocks, span = first / kSpanBlocks;
    for (int64_t panel = panel_begin; panel < panel_end; panel++) {
      const uint8_t* at = g.panels + panel * g.panel_bytes;
      const SpanPanel weights = span_of<E>(at, first, count, room.bytes);
      const uint8_t* next = (panel + 1 < panel_end ? at + g.panel_bytes : g.panels + panel_begin * g.panel_bytes + kSpanBytes) + span * kSpanBytes;
      for (int64_t t = 0; t < tiles; t++, turn ^= 1) {
        const SpanRows x = span_rows(g.tile_of(tile_begin + t), g.tiles.height(tile_begin + t), g.cols);
        const int64_t step_bytes = x.height * kTileRowBytes;
        for (int64_t line = 0; line < share; line += 64) __builtin_prefetch(next + t * share + line, 0, 2);
        const uint8_t* from = x.quants + span * kSpanSteps * step_bytes;
        multiply_span(from, step_bytes, weights, (count + 1) / 2, room.products[turn], before, from + g.x_tile_bytes);
        before = {room.sums[panel - panel_begin][t][0], room.products[turn], x.scales + span * x.height, {weights.units[0], weights.units[1]}};
      }
    }
  }
  fold_rows<kTileRows>(before, 0);
  for (int64_t panel = panel_begin; panel < panel_end; panel++)
    for (int64_t t = tile_begin; t < tile_end; t++)
      finish(g, room.sums[panel - panel_begin][t - tile_begin][0], g.tiles.first(t), g.tiles.height(t), panel * kPanelRows, kPanelRows);
}

template <int E>
void many_rows_gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t* scratch) {
  if (g.tiles.count <= kSomeTiles) return some_rows_gemm<E>(g, panel_begin, panel_end, tile_begin, tile_end);
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
const GemmFn gemm_span8_many_rows = many_rows_gemm<kEncodingSpan8>;
const GemmFn gemm_span4_many_rows = many_rows_gemm<kEncodingSpan4>;

int64_t span_scratch_bytes() { return sizeof(Room); }

}  // namespace PG_NS
}  // namespace pg
