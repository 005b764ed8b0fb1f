// Matmul of span-matmul.h on int8 tiles, for one or two row tiles: rows enough to pay for tiles, too few to pay for the weights' bytes.
//
// Tiling   16 or 32 rows of x by the 32 outputs of a panel. Making bytes is most of the work, and processors look some 250 instructions
//          ahead where two threads share a core, so the two are interleaved by hand: while vectors make a step of 64 columns, tiles multiply
//          the step before, whose bytes have reached L1 meanwhile (tiles do not read what waits to be stored). The sums of a span are
//          stored, and folded into f32 during the next. Up to 8 rows of span8 have a loop of their own, at the end.
// Traffic  codes and factors stream once, at 8.5 or 4.5 bits a weight, asked for kLongBefore bytes ahead into L2 and kSoonBefore into L1.
#include "span-ahead.h"
#include "span-fold.h"
#include "span-registers.h"

namespace pg {
namespace PG_NS {
namespace {

TileConfig config_for(int rows) {
  TileConfig config;
  for (int tile = kSums; tile < kBytes; tile++) config.set(tile, rows, kTileRowBytes);
  config.set(kBytes, kTileRows, kTileRowBytes);
  return config;
}

// A panel, step by step.
template <int E>
struct Panel {
  const uint8_t* panel;
  const int64_t blocks;
  SpanMultipliers<E> multipliers[2];  // of the span that the last step was of
  SpanMinimums minimums[kHasMinimums<E> ? 3 : 1][2];  // of that span, the one that is multiplied and the one that is folded
  alignas(64) uint8_t bytes[2][kStepBytes];

  Panel(const uint8_t* at, int64_t num_blocks) : panel(at), blocks(num_blocks) {}
  vf unit(int half) const { return multipliers[half].unit; }
  const SpanMinimums* minimums_of(int64_t span) const { return kHasMinimums<E> ? minimums[span % 3] : nullptr; }

  // Makes a step bytes, with zeros to its end.
  [[gnu::always_inline]] const uint8_t* step(int64_t step) {
    constexpr EncodingSpec spec = spec_of(E);
    const int64_t first = step % kSpanSteps * 2, of_span = step / kSpanSteps;
    const uint8_t* span = panel + of_span * span_bytes<E>();
    if (first == 0)
      for (int half = 0; half < 2; half++) {
        const int64_t count = blocks - step * 2 < kSpanBlocks ? blocks - step * 2 : kSpanBlocks;
        read_multipliers(multipliers[half], span, half, count);
        if constexpr (kHasMinimums<E>) read_minimums<E>(minimums[of_span % 3][half], span, half, count);
      }
    uint8_t* out = bytes[step % 2];
    for (int64_t b = 0; b < 2; b++) {
      if (step * 2 + b == blocks) {
        clear_last_block(out);
        break;
      }
      const uint8_t* codes = block_at<E>(span, first + b);
      ask_ahead_of(codes, block_bytes(spec));
      for (int half = 0; half < 2; half++)
        make_bytes(out + half * kTileBytes + b * (kTileBytes / 2), codes + half * 64, multipliers[half], first + b);
    }
    return out;
  }
};

template <>
struct Panel<kEncodingSpan8> {
  const uint8_t* panel;
  const int64_t blocks;
  vf units[2];

  Panel(const uint8_t* at, int64_t num_blocks) : panel(at), blocks(num_blocks) {}
  vf unit(int half) const { return units[half]; }
  const SpanMinimums* minimums_of(int64_t) const { return nullptr; }

  [[gnu::always_inline]] const uint8_t* step(int64_t step) {
    const uint8_t* span = panel + step / kSpanSteps * kSpan8Bytes;
    if (step % kSpanSteps == 0) {
      const int64_t left = (blocks + 1) / 2 - step;
      const uint8_t* at = span + (left < kSpanSteps ? left : kSpanSteps) * kStepBytes;
      for (int half = 0; half < 2; half++) units[half] = load_unit<kEncodingQ8>(at, half);
    }
    const uint8_t* bytes = span + step % kSpanSteps * kStepBytes;
    ask_ahead_of(bytes, kStepBytes);
    return bytes;
  }
};

template <int E, int SUM, int X>
PG_INLINE void multiply() {
  if constexpr (byte_rule(E).is_unsigned) tile_dot_low_bytes<SUM, X, kBytes>();
  else tile_dot_int8<SUM, X, kBytes>();
}

// T row tiles, tile_bytes apart, by a step.
template <int E, int T>
PG_INLINE void multiply_step(const uint8_t* x, int64_t tile_bytes, const uint8_t* bytes) {
  tile_load<kX>(x, kTileRowBytes);
  tile_load<kBytes>(bytes, kTileRowBytes);
  multiply<E, kSums, kX>();
  if constexpr (T == 2) {
    tile_load<kX + 1>(x + tile_bytes, kTileRowBytes);
    multiply<E, kSums + 2, kX + 1>();
  }
  tile_zero<kBytes>();
  tile_load<kBytes>(bytes + kTileBytes, kTileRowBytes);
  multiply<E, kSums + 1, kX>();
  tile_zero<kX>();
  if constexpr (T == 2) {
    multiply<E, kSums + 3, kX + 1>();
    tile_zero<kX + 1>();
  }
  tile_zero<kBytes>();
}

using Products = int32_t[2][kTileSums];  // [halves]

template <int T>
PG_INLINE void store_sums(Products* to) {
  tile_store<kSums>(to[0][0], kTileRowBytes);
  tile_store<kSums + 1>(to[0][1], kTileRowBytes);
  if constexpr (T == 2) {
    tile_store<kSums + 2>(to[1][0], kTileRowBytes);
    tile_store<kSums + 3>(to[1][1], kTileRowBytes);
  }
}

// One panel by T row tiles; with two planes of x by one, which has T times 16 lines.
template <int E, int T, int PLANES>
void run_panel(const Gemm& g, int64_t panel, int64_t tile) {
  const int64_t steps = int_steps_of(g.cols);
  constexpr int kTiles = T == 2 && PLANES == 1 ? 2 : 1;
  constexpr int kRows = kTileRows * T / (PLANES * kTiles);  // of a row tile, at most
  constexpr int kRowsEach = kRows / kSpanSteps;             // folded at a step
  const auto rows = [&](int64_t t) { return span_rows<PLANES>(g.tile_of(t), g.tiles.height(t), g.cols); };
  const SpanRows<PLANES> x[2] = {rows(tile), rows(tile + kTiles - 1)};
  Panel<E> weights(g.panels + panel * g.panel_bytes, blocks_of(g.cols));
  const uint8_t* bytes[2] = {};  // of the step that comes, and of the one before
  alignas(64) Products products[T];
  alignas(64) float sums[kTiles][kTileRows][kPanelRows] = {};
  vf units[2];  // of the span that is multiplied
  Fold<kHasMinimums<E>, PLANES> before[kTiles] = {};
  zero_sums<T>();
  for (int64_t step = 0; step <= steps; step++) {
    const int64_t done = step - 1, place = done % kSpanSteps;  // the step that is multiplied
    if (step < steps) bytes[step % 2] = weights.step(step);
    if (step == 0) {
      for (int half = 0; half < 2; half++) units[half] = weights.unit(half);
      continue;
    }
    // x of the second tile is as high as the first but for the last rows: its steps lie elsewhere.
    const int64_t apart = kTiles == 2 ? x[1].quants - x[0].quants + done * (x[1].step_bytes() - x[0].step_bytes()) : kTileBytes;
    multiply_step<E, T>(x[0].quants + done * x[0].step_bytes(), apart, bytes[done % 2]);
    for (int t = 0; t < kTiles; t++)
      if (place * kRowsEach < x[t].height) fold_rows<kRowsEach>(before[t], place * kRowsEach);
    if (place + 1 < kSpanSteps && step < steps) continue;
    for (int t = 0; t < kTiles; t++)
      for (int64_t row = (place + 1) * kRowsEach; row < kRows; row++) fold_rows<1>(before[t], row);
    store_sums<T>(products);
    zero_sums<T>();
    const int64_t span = done / kSpanSteps;
    for (int t = 0; t < kTiles; t++)
      before[t] = {sums[t][0], products[t], x[t].scales + span * x[t].height, {units[0], units[1]}, weights.minimums_of(span),
                   x[t].sums + span * kSpanBlocks, spans_of(g.cols) * kSpanBlocks};
    for (int half = 0; half < 2; half++) units[half] = weights.unit(half);
  }
  for (int t = 0; t < kTiles; t++) {
    fold_rows<kRows>(before[t], 0);
    finish(g, sums[t][0], g.tiles.first(tile + t), g.tiles.height(tile + t), panel * kPanelRows, kPanelRows);
  }
}

// Up to 8 rows by a panel of span8. No bytes are made, so vector registers have room for all sums, and nothing is stored but the products of
// a span. Sums in memory cost far more than their few instructions: matmuls took 5 % longer (16 threads on 8 cores), and 12 with lines asked
// for half as long before.
constexpr int kRegisterRows = 8;

template <int FIRST, int PLANES>
PG_INLINE void fold_four(vf (&sums)[kRegisterRows][2], const Products& products, const float* scales, const vf (&units)[2]) {
#pragma GCC unroll 4
  for (int i = FIRST; i < FIRST + 4; i++)
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
      const vf whole = _mm512_cvtepi32_ps(products_of<PLANES>(products, i, half));
      sums[i][half] = v_madd(whole, v_mul(units[half], v_set(scales[i])), sums[i][half]);
    }
}

template <int PLANES>
void run_in_registers(const Gemm& g, int64_t panel, int64_t tile) {
  const int64_t steps = int_steps_of(g.cols);
  const SpanRows x = span_rows<PLANES>(g.tile_of(tile), g.tiles.height(tile), g.cols);
  const uint8_t *span = g.panels + panel * g.panel_bytes, *quants = x.quants;
  const float* scales = x.scales - x.height;  // of the span before
  vf sums[kRegisterRows][2] = {}, units[2] = {};
  alignas(64) Products products = {};
  zero_sums<1>();
  for (int64_t left = steps; left > 0; left -= kSpanSteps, span += kSpan8Bytes, scales += x.height) {
    const int64_t count = left < kSpanSteps ? left : kSpanSteps;
    const auto multiply = [&](int place) {
      if (place >= count) return;
      const uint8_t* bytes = span + place * kStepBytes;
      ask_ahead_of(bytes + kStepBytes, kStepBytes);
      multiply_step<kEncodingSpan8, 1>(quants, 0, bytes);
      quants += x.step_bytes();
    };
    multiply(0);
    if (left < steps) fold_four<0, PLANES>(sums, products, scales, units);
    multiply(1);
    if (left < steps) fold_four<4, PLANES>(sums, products, scales, units);
    multiply(2);
    multiply(3);
    for (int half = 0; half < 2; half++) units[half] = load_unit<kEncodingQ8>(span + count * kStepBytes, half);
    store_sums<1>(&products);
    zero_sums<1>();
  }
  fold_four<0, PLANES>(sums, products, scales, units);
  fold_four<4, PLANES>(sums, products, scales, units);
  alignas(64) float out[kTileRows][kPanelRows];
#pragma GCC unroll 8
  for (int i = 0; i < kRegisterRows; i++)
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) v_store(out[i] + half * 16, sums[i][half]);
  finish(g, out[0], g.tiles.first(tile), g.tiles.height(tile), panel * kPanelRows, kPanelRows);
}

}  // namespace

template <int E, int PLANES>
void some_rows_gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end) {
  const int64_t lines = g.tiles.n * PLANES;
  const TileScope scope(config_for(lines < kTileRows ? (int)lines : kTileRows));
  const bool in_registers = E == kEncodingSpan8;
  for (int64_t panel = panel_begin; panel < panel_end; panel++)
    for (int64_t tile = tile_begin; tile < tile_end; tile += PLANES == 1 ? kSomeTiles : 1) {
      const int64_t height = g.tiles.height(tile);
      if (PLANES == 1 ? tile + 1 < tile_end : height * PLANES > kTileRows) run_panel<E, 2, PLANES>(g, panel, tile);
      else if (in_registers && height <= kRegisterRows) run_in_registers<PLANES>(g, panel, tile);
      else run_panel<E, 1, PLANES>(g, panel, tile);
    }
}
#define PG_SOME_ROWS(E, PLANES) template void some_rows_gemm<E, PLANES>(const Gemm&, int64_t, int64_t, int64_t, int64_t);
PG_SOME_ROWS(kEncodingSpan8, 1)
PG_SOME_ROWS(kEncodingSpan8, 2)
PG_SOME_ROWS(kEncodingQ8, 1)
PG_SOME_ROWS(kEncodingQ8, 2)
PG_SOME_ROWS(kEncodingQ4, 1)
PG_SOME_ROWS(kEncodingQ4M, 1)
PG_SOME_ROWS(kEncodingQ5, 1)
PG_SOME_ROWS(kEncodingQ5M, 1)
PG_SOME_ROWS(kEncodingQ4K, 1)
PG_SOME_ROWS(kEncodingQ5K, 1)
PG_SOME_ROWS(kEncodingQ6K, 1)
PG_SOME_ROWS(kEncodingN4, 1)
PG_SOME_ROWS(kEncodingN4K, 1)
PG_SOME_ROWS(kEncodingMx4, 1)
#undef PG_SOME_ROWS

}  // namespace PG_NS
}  // namespace pg
