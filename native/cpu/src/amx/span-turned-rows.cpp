// What span-some-rows.cpp does, of span4: outputs are the rows of a tile and x is the other operand, since bytes of span4 are made so that
// tiles can read them.
//
// Tiling   16 or 32 rows of x by the 32 outputs of a panel. Vectors make the bytes of 128 columns, half of the outputs at a time, while tiles
//          multiply those of the 128 before, half of the columns at a time. The sums of a span are stored, [outputs][rows], and folded into
//          f32 during the next; they become [rows][outputs] at the end of the panel.
// Traffic  codes and multipliers stream once.
#include "span-ahead.h"
#include "span-fold.h"
#include "span-nibbles.h"
#include "span-registers.h"

namespace pg {
namespace PG_NS {
namespace {

TileConfig config_for(int width) {
  TileConfig config;
  for (int tile = kSums; tile < kBytes; tile++) config.set(tile, kTileRows, width * 4);
  config.set(kBytes, kTileRows, kTileRowBytes);
  return config;
}

// T row tiles by a step: 64 of the columns that are made together.
template <int T>
PG_INLINE void multiply_step(const TurnedRows (&x)[2], int64_t step, const uint8_t* bytes) {
  tile_load<kX>(x[0].quants + step * x[0].step_bytes(), x[0].group_bytes());
  tile_load<kBytes>(bytes, kTileRowBytes);
  tile_dot_int8<kSums, kBytes, kX>();
  if constexpr (T == 2) {
    tile_load<kX + 1>(x[1].quants + step * x[1].step_bytes(), x[1].group_bytes());
    tile_dot_int8<kSums + 2, kBytes, kX + 1>();
  }
  tile_zero<kBytes>();
  tile_load<kBytes>(bytes + kTileBytes, kTileRowBytes);
  tile_dot_int8<kSums + 1, kBytes, kX>();
  tile_zero<kX>();
  if constexpr (T == 2) {
    tile_dot_int8<kSums + 3, kBytes, kX + 1>();
    tile_zero<kX + 1>();
  }
  tile_zero<kBytes>();
}

template <int T, int W>
PG_INLINE void store_sums(int32_t (*to)[kPanelRows * W]) {
  tile_store<kSums>(to[0], W * 4);
  tile_store<kSums + 1>(to[0] + kTileRows * W, W * 4);
  if constexpr (T == 2) {
    tile_store<kSums + 2>(to[1], W * 4);
    tile_store<kSums + 3>(to[1] + kTileRows * W, W * 4);
  }
}

// A panel, half a quad at a time.
struct Panel {
  const uint8_t* panel;
  const int64_t blocks;
  // Of three spans: one is made while the one before is multiplied and the one before that is folded.
  alignas(64) float units[3][kPanelRows];
  alignas(64) uint8_t bytes[2][2 * kStepBytes];  // of two quads

  Panel(const uint8_t* at, int64_t num_blocks) : panel(at), blocks(num_blocks) {}

  // kWhole: all quads have four blocks.
  template <bool kWhole = false>
  [[gnu::always_inline]] void make(int64_t quad, int64_t half) {
    const int64_t at = quad / kSpanQuads, left = blocks - at * kSpanBlocks, count = left < kSpanBlocks ? left : kSpanBlocks;
    const uint8_t* span = panel + at * kSpan4Bytes;
    if (quad % kSpanQuads == 0 && half == 0) {
      for (int i = 0; i < 2; i++) v_store(units[at % 3] + i * 16, load_unit<kEncodingQ4>(span + span4_units_at(count), i));
      ask_ahead_of(span + kSpanBlocks * kSpan4Block, kSpan4Bytes - kSpanBlocks * kSpan4Block);
    }
    const Quad of = quad_of(span, count, quad % kSpanQuads);
    ask_ahead_of(of.codes + half * (kQuadBlocks * kSpan4Block / 2), kQuadBlocks * kSpan4Block / 2);
    uint8_t* to = bytes[quad % 2] + half * kTileBytes;
    if constexpr (kWhole) make_quad_bytes<true>(to, kStepBytes, of, half * kTileRows);
    else make_quad(to, kStepBytes, of, half * kTileRows);
  }
};

// One panel by T row tiles, as wide as W.
template <int T, int W>
void run_panel(const Gemm& g, int64_t panel, int64_t tile) {
  constexpr int kEach = TurnedFold<W>::kVectors / (int)kSpanSteps;  // folded at a step
  const int64_t blocks = blocks_of(g.cols), steps = 2 * quads_of(blocks);
  const TurnedRows x[2] = {turned_rows(g.tile_of(tile), g.tiles.height(tile), g.cols),
                           turned_rows(g.tile_of(tile + T - 1), g.tiles.height(tile + T - 1), g.cols)};
  Panel weights(g.panels + panel * g.panel_bytes, blocks);
  alignas(64) int32_t products[T][kPanelRows * W];
  alignas(64) float sums[T][kPanelRows * W] = {};
  TurnedFold<W> before[T] = {};
  zero_sums<T>();
  for (int64_t step = 0; step < steps + 2; step++) {
    if (step < steps) weights.make(step / 2, step % 2);
    if (step < 2) continue;
    const int64_t done = step - 2, place = done % kSpanSteps, span = done / kSpanSteps;  // the step that is multiplied
    multiply_step<T>(x, done, weights.bytes[done / 2 % 2] + done % 2 * kStepBytes);
    for (int t = 0; t < T; t++) fold_outputs<kEach>(before[t], place * kEach);
    if (place + 1 < kSpanSteps && done + 1 < steps) continue;
    for (int t = 0; t < T; t++)
      for (int64_t rest = place + 1; rest < kSpanSteps; rest++) fold_outputs<kEach>(before[t], rest * kEach);
    store_sums<T, W>(products);
    zero_sums<T>();
    for (int t = 0; t < T; t++) before[t] = {sums[t], products[t], weights.units[span % 3], row_scales<W>(x[t].scales + span * x[t].width)};
  }
  for (int t = 0; t < T; t++) {
    fold_outputs<TurnedFold<W>::kVectors>(before[t], 0);
    finish_turned<W>(g, sums[t], tile + t, panel);
  }
}

// One panel of whole quads by up to 8 rows: the sums of 32 outputs are 16 vectors and stay in registers (span-some-rows.cpp says what that is
// worth; a call for the part of a quad would have them in memory).
constexpr int kRegisters = TurnedFold<8>::kVectors, kRegistersEach = kRegisters / (int)kSpanSteps;
using Sums = vf[kRegisters];

template <int PLACE>
PG_INLINE void fold_vectors(Sums& sums, const int32_t* products, const float* units, vf scales) {
#pragma GCC unroll 4
  for (int v = PLACE * kRegistersEach; v < (PLACE + 1) * kRegistersEach; v++) {
    const vf pair = _mm512_mask_broadcastss_ps(v_set(units[v * 2]), 0xff00, _mm_load_ss(units + v * 2 + 1));
    sums[v] = v_madd(_mm512_cvtepi32_ps(_mm512_load_si512(products + v * 16)), v_mul(pair, scales), sums[v]);
  }
}

void run_in_registers(const Gemm& g, int64_t panel, int64_t tile) {
  const int64_t blocks = blocks_of(g.cols), steps = 2 * quads_of(blocks);
  const TurnedRows x[2] = {turned_rows(g.tile_of(tile), g.tiles.height(tile), g.cols), {}};
  Panel weights(g.panels + panel * g.panel_bytes, blocks);
  Sums sums = {};
  alignas(64) int32_t products[1][kPanelRows * 8];
  const float* units = nullptr;  // of the span that is to be folded, like its scales
  vf scales = {};
  zero_sums<1>();
  weights.make<true>(0, 0);
  weights.make<true>(0, 1);
  for (int64_t first = 0; first < steps; first += kSpanSteps) {
    const auto step = [&](int64_t done, int half) {
      if (done >= steps) return;
      if (done + 2 < steps) weights.make<true>(done / 2 + 1, half);
      multiply_step<1>(x, done, weights.bytes[done / 2 % 2] + half * kStepBytes);
    };
    step(first, 0);
    if (first > 0) fold_vectors<0>(sums, products[0], units, scales);
    step(first + 1, 1);
    if (first > 0) fold_vectors<1>(sums, products[0], units, scales);
    step(first + 2, 0);
    if (first > 0) fold_vectors<2>(sums, products[0], units, scales);
    step(first + 3, 1);
    if (first > 0) fold_vectors<3>(sums, products[0], units, scales);
    store_sums<1, 8>(products);
    zero_sums<1>();
    const int64_t span = first / kSpanSteps;
    units = weights.units[span % 3];
    scales = row_scales<8>(x[0].scales + span * x[0].width);
  }
  fold_vectors<0>(sums, products[0], units, scales);
  fold_vectors<1>(sums, products[0], units, scales);
  fold_vectors<2>(sums, products[0], units, scales);
  fold_vectors<3>(sums, products[0], units, scales);
  alignas(64) float out[kPanelRows * 8];
#pragma GCC unroll 16
  for (int v = 0; v < kRegisters; v++) v_store(out + v * 16, sums[v]);
  finish_turned<8>(g, out, tile, panel);
}

}  // namespace

template <>
void some_rows_gemm<kEncodingSpan4, 1>(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end) {
  const bool is_one = tile_end - tile_begin == 1, is_narrow = is_one && turned_rows(g.x, g.tiles.height(tile_begin), g.cols).width == 8;
  const auto run_one = !is_narrow ? run_panel<1, kTileRows> : g.cols % kQuadCols == 0 ? run_in_registers : run_panel<1, 8>;
  const auto run = is_one ? run_one : run_panel<2, kTileRows>;
  const TileScope scope(config_for(is_narrow ? 8 : kTileRows));
  for (int64_t panel = panel_begin; panel < panel_end; panel++) run(g, panel, tile_begin);
}

}  // namespace PG_NS
}  // namespace pg
