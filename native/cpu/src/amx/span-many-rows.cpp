// Matmul of span-matmul.h on int8 tiles, for many rows.
//
// Tiling   a span of a panel is made bytes in L1 once for the row tiles of a band, whose x stays in L2 while kTilePanels panels run. 16 rows of x by the 32 outputs of a panel are two products a step into two sums, the halves of the panel through one
//          register: four are in use, and operands are zeroed (tile-bf16.cpp says why). The sums of a span are stored, and folded into
//          f32 between the products of the next: what a tile stores is not forwarded to loads, which must find it in L1. Of span4 outputs
//          are the rows of a tile (span-turned-rows.cpp), and all sums are [outputs][rows]. Where x has two planes, 16 rows are 32 lines, two
//          tiles: four products a step into four sums, for as many loads.
// Traffic  weights come from memory once per band of row tiles; per step 2 KiB of bytes from L1 and 1 of x from L2 or L1, for 32,768
//          multiply-adds. Every row tile asks for its share of the weights that come next.
#include "span-fold.h"
#include "span-nibbles.h"
#include "tile-matmul.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int64_t kBandTiles = 32;

template <int E>
constexpr bool kIsTurned = E == kEncodingSpan4;

// Some 32 outputs over a span: [steps][kStepBytes].
struct SpanPanel {
  const uint8_t* bytes;
  vf units[2];
};

// A worker's: a span of a panel as bytes, its minimums and those of the panel before, the sums of it by two row tiles, and the sums of a band.
struct alignas(64) Room {
  uint8_t bytes[kSpanSteps * kStepBytes];
  SpanMinimums minimums[2][2];        // [one, and the one before][halves]
  int32_t products[2][4][kTileSums];  // [one, and the one before][16 lines each][halves]
  float units[2][kPanelRows];         // where outputs are rows: of a panel, and of the one before
  float sums[kTilePanels][kBandTiles][kTileRows][kPanelRows];
};

enum : int { kSum0, kSum1, kQuants, kBytes, kSum2, kSum3, kQuants2 };

TileConfig whole_tiles(int planes) {
  TileConfig config;
  for (int tile = kSum0; tile <= (planes == 1 ? kBytes : kQuants2); tile++) config.set(tile, kTileRows, kTileRowBytes);
  return config;
}

// Blocks [first, first + count) of a panel, a span. Codes are made bytes in `room`, with zeros to the end of a step.
template <int E>
SpanPanel span_of(const uint8_t* panel, int64_t first, int64_t count, uint8_t* room, SpanMinimums* minimums) {
  (void)minimums;
  if constexpr (E == kEncodingSpan8) {
    const uint8_t* bytes = panel + first / kSpanBlocks * kSpan8Bytes;
    const uint8_t* units = bytes + (count + 1) / 2 * kStepBytes;
    return {bytes, {load_unit<kEncodingQ8>(units, 0), load_unit<kEncodingQ8>(units, 1)}};
  } else if constexpr (E == kEncodingSpan4) {
    const uint8_t* span = panel + first / kSpanBlocks * kSpan4Bytes;
    for (int64_t quad = 0; quad < quads_of(count); quad++)
      for (int half = 0; half < 2; half++)
        make_quad(room + 2 * quad * kStepBytes + half * kTileBytes, kStepBytes, quad_of(span, count, quad), half * kTileRows);
    const uint8_t* units = span + span4_units_at(count);
    return {room, {load_unit<kEncodingQ4>(units, 0), load_unit<kEncodingQ4>(units, 1)}};
  } else {
    const uint8_t* span = panel + first / kSpanBlocks * span_bytes<E>();
    SpanMultipliers<E> multipliers[2];
    for (int half = 0; half < 2; half++) read_multipliers(multipliers[half], span, half, count);
    for (int64_t b = 0; b < count; b++)
      for (int half = 0; half < 2; half++)
        make_bytes(room + b / 2 * kStepBytes + half * kTileBytes + b % 2 * (kTileBytes / 2), block_at<E>(span, b) + half * 64, multipliers[half], b);
    if (count % 2 != 0) clear_last_block(room + count / 2 * kStepBytes);
    if constexpr (kHasMinimums<E>)
      for (int half = 0; half < 2; half++) read_minimums<E>(minimums[half], span, half, count);
    return {room, {multipliers[0].unit, multipliers[1].unit}};
  }
}

// The product of x and bytes in registers.
template <int E, int SUM, int X>
PG_INLINE void multiply() {
  if constexpr (kIsTurned<E>) tile_dot_int8<SUM, kBytes, X>();
  else if constexpr (byte_rule(E).is_unsigned) tile_dot_low_bytes<SUM, X, kBytes>();
  else tile_dot_int8<SUM, X, kBytes>();
}

template <int E, int PLANES>
struct FoldOf {
  using Type = Fold<kHasMinimums<E>, PLANES>;
};
template <>
struct FoldOf<kEncodingSpan4, 1> {
  using Type = TurnedFold<kTileRows>;
};

// An eighth of what is to be folded.
constexpr int kFolds = 2 * (int)kSpanSteps;
template <bool MINIMUMS, int PLANES>
PG_INLINE void fold_part(const Fold<MINIMUMS, PLANES>& f, int64_t part) { fold_rows<kTileRows / kFolds>(f, part * (kTileRows / kFolds)); }
PG_INLINE void fold_part(const TurnedFold<kTileRows>& f, int64_t part) { fold_outputs<kPanelRows / kFolds>(f, part * (kPanelRows / kFolds)); }

// `steps` steps of 16 rows of x (step_bytes apart, what a tile has as rows row_bytes) by the outputs of a panel, and what is to be folded
// meanwhile. soon: the x that comes next, asked for into L1.
template <int E, int PLANES, class F>
PG_INLINE void multiply_span(const uint8_t* x, int64_t step_bytes, int64_t row_bytes, const SpanPanel& panel, int64_t steps,
                             int32_t (*products)[kTileSums], const F& before, const uint8_t* soon) {
  tile_zero<kSum0>();
  tile_zero<kSum1>();
  if constexpr (PLANES == 2) {
    tile_zero<kSum2>();
    tile_zero<kSum3>();
  }
  for (int64_t step = 0; step < steps; step++, x += step_bytes, soon += step_bytes) {
    for (int64_t line = 0; line < kTileRows * PLANES; line++) __builtin_prefetch(soon + line * kTileRowBytes, 0, 3);
    tile_load<kQuants>(x, row_bytes);
    tile_load<kBytes>(panel.bytes + step * kStepBytes, kTileRowBytes);
    multiply<E, kSum0, kQuants>();
    if constexpr (PLANES == 2) {
      tile_load<kQuants2>(x + kTileBytes, row_bytes);
      multiply<E, kSum2, kQuants2>();
    }
    tile_zero<kBytes>();
    fold_part(before, 2 * step);
    tile_load<kBytes>(panel.bytes + step * kStepBytes + kTileBytes, kTileRowBytes);
    multiply<E, kSum1, kQuants>();
    tile_zero<kQuants>();
    if constexpr (PLANES == 2) {
      multiply<E, kSum3, kQuants2>();
      tile_zero<kQuants2>();
    }
    tile_zero<kBytes>();
    fold_part(before, 2 * step + 1);
  }
  for (int64_t part = 2 * steps; part < kFolds; part++) fold_part(before, part);
  tile_store<kSum0>(products[0], kTileRowBytes);
  tile_store<kSum1>(products[1], kTileRowBytes);
  if constexpr (PLANES == 2) {
    tile_store<kSum2>(products[2], kTileRowBytes);
    tile_store<kSum3>(products[3], kTileRowBytes);
  }
}

// Up to kTilePanels panels by the tiles of a band.
template <int E, int PLANES>
void run_panels(const Gemm& g, Room& room, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end) {
  constexpr int64_t kSpanBytes =
      E == kEncodingSpan8 ? kSpan8Bytes : E == kEncodingSpan4 ? kSpan4Bytes : span_bytes<E>();  // in memory
  const int64_t blocks = blocks_of(g.cols), tiles = tile_end - tile_begin;
  const int64_t share = (kSpanBytes / tiles + 63) / 64 * 64;  // of the weights that come next, for each tile to ask for
  for (int64_t panel = panel_begin; panel < panel_end; panel++)
    memset(room.sums[panel - panel_begin], 0, (size_t)tiles * sizeof room.sums[0][0]);
  typename FoldOf<E, PLANES>::Type before = {};
  int turn = 0, panel_turn = 0;
  for (int64_t first = 0; first < blocks; first += kSpanBlocks) {
    const int64_t count = blocks - first < kSpanBlocks ? blocks - first : kSpanBlocks, span = first / kSpanBlocks;
    for (int64_t panel = panel_begin; panel < panel_end; panel++, panel_turn ^= 1) {
      const uint8_t* at = g.panels + panel * g.panel_bytes;
      const SpanPanel weights = span_of<E>(at, first, count, room.bytes, room.minimums[panel_turn]);
      if (kIsTurned<E>)
        for (int half = 0; half < 2; half++) v_store(room.units[panel_turn] + half * 16, weights.units[half]);
      const uint8_t* next = (panel + 1 < panel_end ? at + g.panel_bytes : g.panels + panel_begin * g.panel_bytes + kSpanBytes) + span * kSpanBytes;
      for (int64_t t = 0; t < tiles; t++, turn ^= 1) {
        for (int64_t line = 0; line < share; line += 64) __builtin_prefetch(next + t * share + line, 0, 2);
        const uint8_t* tile = g.tile_of(tile_begin + t);
        const int64_t height = g.tiles.height(tile_begin + t);
        float* sums = room.sums[panel - panel_begin][t][0];
        if constexpr (kIsTurned<E>) {
          const TurnedRows x = turned_rows(tile, height, g.cols);
          const uint8_t* from = x.quants + span * kSpanSteps * x.step_bytes();
          multiply_span<E, 1>(from, x.step_bytes(), x.group_bytes(), weights, 2 * quads_of(count), room.products[turn], before,
                              from + g.x_tile_bytes);
          before = {sums, room.products[turn][0], room.units[panel_turn], row_scales<kTileRows>(x.scales + span * x.width)};
        } else {
          const SpanRows<PLANES> x = span_rows<PLANES>(tile, height, g.cols);
          const uint8_t* from = x.quants + span * kSpanSteps * x.step_bytes();
          multiply_span<E, PLANES>(from, x.step_bytes(), kTileRowBytes, weights, (count + 1) / 2, room.products[turn], before, from + g.x_tile_bytes);
          before = {sums, room.products[turn], x.scales + span * x.height, {weights.units[0], weights.units[1]}, room.minimums[panel_turn],
                    x.sums + span * kSpanBlocks, spans_of(g.cols) * kSpanBlocks};
        }
      }
    }
  }
  for (int64_t part = 0; part < kFolds; part++) fold_part(before, part);
  for (int64_t panel = panel_begin; panel < panel_end; panel++)
    for (int64_t t = tile_begin; t < tile_end; t++) {
      const float* sums = room.sums[panel - panel_begin][t - tile_begin][0];
      if constexpr (kIsTurned<E>) finish_turned<kTileRows>(g, sums, t, panel);
      else finish(g, sums, g.tiles.first(t), g.tiles.height(t), panel * kPanelRows, kPanelRows);
    }
}

template <int E, int PLANES = 1>
void many_rows_gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t* scratch) {
  if (g.tiles.count <= kSomeTiles) return some_rows_gemm<E, PLANES>(g, panel_begin, panel_end, tile_begin, tile_end);
  const TileScope scope(whole_tiles(PLANES));
  for (int64_t panel = panel_begin; panel < panel_end; panel += kTilePanels) {
    const int64_t last_panel = panel + kTilePanels < panel_end ? panel + kTilePanels : panel_end;
    for (int64_t first = tile_begin; first < tile_end; first += kBandTiles) {
      const int64_t last = first + kBandTiles < tile_end ? first + kBandTiles : tile_end;
      run_panels<E, PLANES>(g, *(Room*)scratch, panel, last_panel, first, last);
    }
  }
}

}  // namespace

const EncodingGemms span_many_rows = [] {
  EncodingGemms gemms = {};
  gemms.of[kEncodingSpan8] = many_rows_gemm<kEncodingSpan8, 2>;
  gemms.of[kEncodingSpan4] = many_rows_gemm<kEncodingSpan4>;
  gemms.of[kEncodingQ8] = many_rows_gemm<kEncodingQ8, 2>;
  gemms.of[kEncodingQ4] = many_rows_gemm<kEncodingQ4>;
  gemms.of[kEncodingQ4M] = many_rows_gemm<kEncodingQ4M>;
  gemms.of[kEncodingQ5] = many_rows_gemm<kEncodingQ5>;
  gemms.of[kEncodingQ5M] = many_rows_gemm<kEncodingQ5M>;
  gemms.of[kEncodingQ4K] = many_rows_gemm<kEncodingQ4K>;
  gemms.of[kEncodingQ5K] = many_rows_gemm<kEncodingQ5K>;
  gemms.of[kEncodingQ6K] = many_rows_gemm<kEncodingQ6K>;
  gemms.of[kEncodingN4] = many_rows_gemm<kEncodingN4>;
  gemms.of[kEncodingN4K] = many_rows_gemm<kEncodingN4K>;
  gemms.of[kEncodingMx4] = many_rows_gemm<kEncodingMx4>;
  return gemms;
}();

const EncodingGemms q8_many_rows_fast = [] {
  EncodingGemms gemms = {};
  gemms.of[kEncodingQ8] = many_rows_gemm<kEncodingQ8>;
  gemms.of[kEncodingSpan8] = many_rows_gemm<kEncodingSpan8>;
  return gemms;
}();

int64_t span_scratch_bytes() { return sizeof(Room); }

}  // namespace PG_NS
}  // namespace pg
