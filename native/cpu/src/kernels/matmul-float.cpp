// Matmul with f32, f16 or bf16 weights.
//
// Maths    out[i, j] = scale * (sum_k x[i, k] * w[j, k] + bias[j])
// Order    every output has one f32 accumulator and k ascends, one fused multiply-add each: the same in every tile shape, so a
//          row's result does not depend on the rows beside it. Parallelism comes from independent outputs only.
// Tiling   a tile is MR rows of x by kFloatVectors vectors of outputs, held in registers over the whole of k. Per k it loads
//          the weight vectors once (converted in registers) and MR broadcast values of x. Few rows of x (decode) leave
//          registers free: then twice the panels are taken side by side to cover the latency of the additions, and of a single
//          row four of them (AVX-512, WebAssembly): more of memory is on its way.
// Traffic  weights stream once per row tile, from L1/L2 but for the first tile of a worker's first panel: the next four prefetch
//          the next panel meanwhile. Packed x ([k][MR], contiguous) streams from L1/L2 once per panel group.
#include <algorithm>

#include "finish.h"
#include "float-weights.h"
#if PG_WASM
#include "float-row-wasm.h"
#endif

namespace pg {
namespace PG_NS {
namespace {

// What a tile prefetches into L2 as it goes over the columns: `bytes` bytes from `from` on, evenly. The first tile of a panel asks for
// the panel itself, kAhead bytes before their use, or, where there are few rows, for the first lines of pages (ask_ahead). The next
// kSharers find the panel in cache and share the next one among them, so that memory is read all the time; where there are more tiles,
// waiting for the first matters little, and the others ask for nothing. Null: nothing.
struct Ahead {
  const uint8_t* from;
  int64_t bytes;
};
constexpr int64_t kAhead = 8192;
constexpr int64_t kSharers = 4;
constexpr int kAskCols = 8;  // columns from one ask_ahead to the next
constexpr bool asks_for_pages(int64_t rows) { return PG_WASM || rows <= 2; }
template <class W>
constexpr bool asks_for_lines(int rows) { return !asks_for_pages(rows) && (W::kBytes < 4 || rows >= 6); }

PG_INLINE Ahead ahead_of(const Gemm& g, int64_t panel, int64_t nth, int64_t tiles) {
  const uint8_t* base = g.panels + panel * g.panel_bytes;
  if (nth == 0) return {base + kAhead, g.panel_bytes};
  if (PG_WASM) return {nullptr, 0};  // whoever asks waits: it costs more than it would save here
  const int64_t sharers = std::min(tiles - 1, kSharers);
  if (nth > sharers || (panel + 1) * kPanel >= g.rows) return {nullptr, 0};
  const int64_t share = g.panel_bytes / sharers;
  return {base + g.panel_bytes + (nth - 1) * share, share};
}

// sum[i][v] += x[i] * w[v].
template <int MR, int NV>
PG_INLINE void add_products(vf (&sum)[MR][NV], const float* x, const vf (&w)[NV]) {
#if PG_NEON
  // A vector holds four rows' values and the instruction picks one: a quarter of the loads. What is read past the last row is
  // the next column's, or the room that a shorter tile leaves.
  float32x4_t four[(MR + 3) / 4];
#pragma GCC unroll 4
  for (int i = 0; i < (MR + 3) / 4; i++) four[i] = vld1q_f32(x + 4 * i);
#pragma GCC unroll 8
  for (int v = 0; v < NV; v++) {
#pragma GCC unroll 32
    for (int i = 0; i < MR; i++) {
      if (i % 4 == 0) sum[i][v] = (vf)vfmaq_laneq_f32(neon(sum[i][v]), neon(w[v]), four[i / 4], 0);
      if (i % 4 == 1) sum[i][v] = (vf)vfmaq_laneq_f32(neon(sum[i][v]), neon(w[v]), four[i / 4], 1);
      if (i % 4 == 2) sum[i][v] = (vf)vfmaq_laneq_f32(neon(sum[i][v]), neon(w[v]), four[i / 4], 2);
      if (i % 4 == 3) sum[i][v] = (vf)vfmaq_laneq_f32(neon(sum[i][v]), neon(w[v]), four[i / 4], 3);
    }
  }
#else
#pragma GCC unroll 32
  for (int i = 0; i < MR; i++) {
    const vf xi = v_set(x[i]);
#pragma GCC unroll 8
    for (int v = 0; v < NV; v++) sum[i][v] = v_madd(xi, w[v], sum[i][v]);
  }
#endif
}

// NV vectors of outputs from vector `first` of the panel on; a vector past its panel belongs to the next one.
template <class W, int MR, int NV>
void tile(const Gemm& g, int64_t panel, int first, int64_t row, const float* x, Ahead ahead) {
  constexpr int kPanelVectors = kPanel / VL;
  const uint8_t* base = g.panels + panel * g.panel_bytes;
  // Every loop over the accumulators is unrolled, or the compiler keeps them in memory.
  vf sum[MR][NV];
#pragma GCC unroll 32
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
    for (int v = 0; v < NV; v++) sum[i][v] = v_set(0.0f);
  const int64_t cols = g.cols;
  constexpr int kLines = W::kStep * W::kBytes * kPanel / 64;
  const uint8_t* end = weights_end(g);
  const uint8_t* ask = ahead.from;
  const int64_t between = ahead.bytes * W::kStep / (cols * kLines);
  int64_t k = 0;
  for (; k + W::kStep <= cols; k += W::kStep) {
    constexpr int kPanels = (NV + kPanelVectors - 1) / kPanelVectors;
    if (asks_for_pages(MR) && ahead.from != nullptr && k % kAskCols == 0) {
      for (int p = 0; p < kPanels; p++)
        ask_ahead(base + p * g.panel_bytes + k * (kPanel * W::kBytes), kAskCols * kPanel * W::kBytes, end);
    }
    if (asks_for_lines<W>(MR) && ahead.from != nullptr) {
      for (int p = 0; p < kPanels; p++)
        for (int line = 0; line < kLines; line++) __builtin_prefetch(ask + p * g.panel_bytes + line * between, 0, 2);
      ask += kLines * between;
    }
#pragma GCC unroll 2
    for (int odd = 0; odd < W::kStep; odd++) {
      vf w[NV];
#pragma GCC unroll 8
      for (int v = 0; v < NV; v++)
        w[v] = W::load(base + (v / kPanelVectors) * g.panel_bytes, k, first + v % kPanelVectors, odd);
      add_products<MR, NV>(sum, x, w);
      x += MR;
    }
  }
  if (k < cols) {  // the last even column of an odd number of them
#pragma GCC unroll 8
    for (int v = 0; v < NV; v++) {
      const vf w = W::load(base + (v / kPanelVectors) * g.panel_bytes, k, first + v % kPanelVectors, 0);
#pragma GCC unroll 32
      for (int i = 0; i < MR; i++) sum[i][v] = v_madd(v_set(x[i]), w, sum[i][v]);
    }
  }
  alignas(64) float sums[MR][NV * VL];
#pragma GCC unroll 32
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
    for (int v = 0; v < NV; v++) v_store(&sums[i][v * VL], sum[i][v]);
  finish(g, sums[0], row, MR, panel * kPanel + first * VL, NV * VL);
}

// Calls the tile of the height at hand, of those from kLeast to MR.
template <class W, int NV, int MR, int kLeast = 1>
PG_INLINE void dispatch(const Gemm& g, int64_t height, int64_t panel, int first, int64_t row, const float* x, Ahead ahead) {
  if constexpr (MR >= kLeast) {
    if (height == MR) return tile<W, MR, NV>(g, panel, first, row, x, ahead);
    dispatch<W, NV, MR - 1, kLeast>(g, height, panel, first, row, x, ahead);
  }
}

// Heights that leave registers for more vectors, and the panels those span.
#if PG_NEON
constexpr int kSkinnyRows = 3;
constexpr int kSkinnyVectors = 8;
#elif PG_WASM
constexpr int kSkinnyRows = 0;  // a single row has a kernel of its own
constexpr int kSkinnyVectors = 8;
#else
constexpr int kSkinnyRows = kFloatTileRows >= 4 ? (kFloatTileRows - 2) / 2 : 1;
constexpr int kSkinnyVectors = 2 * kFloatVectors;
#endif
constexpr int kSkinnyPanels = (kSkinnyVectors * VL + kPanel - 1) / kPanel;
#if PG_ISA == 3
constexpr int kRowPanels = 4;  // of a single row: as many streams for the processor's prefetcher
#endif

template <class W>
void gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t*) {
#if PG_WASM
  if (g.tiles.n == 1) return one_row<W>(g, panel_begin, panel_end);
#endif
  if (asks_for_pages(g.tiles.n)) ask_first(g, panel_begin);
  for (int64_t panel = panel_begin; panel < panel_end;) {
#if PG_ISA == 3
    if (g.tiles.n == 1 && panel + kRowPanels <= panel_end) {
      tile<W, 1, kRowPanels * kPanel / VL>(g, panel, 0, 0, (const float*)g.tile_of(0), ahead_of(g, panel, 0, 1));
      panel += kRowPanels;
      continue;
    }
#endif
    const bool skinny = g.tiles.n <= kSkinnyRows && panel + kSkinnyPanels <= panel_end;
    const int step = skinny ? kSkinnyVectors : kFloatVectors;
    for (int first = 0; first < kPanel / VL; first += step) {
      for (int64_t t = tile_begin; t < tile_end; t++) {
        const int64_t row = g.tiles.first(t);
        const float* x = (const float*)g.tile_of(t);
        const Ahead ahead = ahead_of(g, panel, first / step + t - tile_begin, tile_end - tile_begin);
        if (skinny)
          dispatch<W, kSkinnyVectors, kSkinnyRows>(g, g.tiles.height(t), panel, first, row, x, ahead);
        else
          dispatch<W, kFloatVectors, kFloatTileRows>(g, g.tiles.height(t), panel, first, row, x, ahead);
      }
    }
    panel += skinny ? kSkinnyPanels : 1;
  }
}

#if PG_ISA == 3
// Tiles of one vector and up to kTallTileRows rows, for processors that do one multiply-add of 512 bits a cycle (isa.cpp). Those can
// load a number of x for each of them, so a weight vector that was converted serves twice the rows; elsewhere the loads would decide.
template <class W>
void gemm_tall(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t*) {
  constexpr int kVectors = kPanel / VL;
  const int64_t tiles = tile_end - tile_begin;
  for (int64_t panel = panel_begin; panel < panel_end; panel++)
    for (int64_t t = tile_begin; t < tile_end; t++)
      for (int first = 0; first < kVectors; first++)
        dispatch<W, 1, kTallTileRows, kTallTileRows / 2>(g, g.tiles.height(t), panel, first, g.tiles.first(t), (const float*)g.tile_of(t),
                                                         ahead_of(g, panel, (t - tile_begin) * kVectors + first, kVectors * tiles));
}
#endif

#if PG_WASM
// For many rows: weights become f32 in scratch once per panel rather than once per row tile.
template <class W>
void gemm_widened(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t* scratch) {
  Gemm wide = g;
  wide.panels = scratch;
  wide.panel_bytes = 0;  // whichever panel it is, it lies at the beginning
  const uint8_t* end = weights_end(g);
  ask_first(g, panel_begin);
  for (int64_t panel = panel_begin; panel < panel_end; panel++) {
    const uint8_t* narrow = g.panels + panel * g.panel_bytes;
    for (int64_t k = 0; k < g.cols; k++) {
      if (k % kAskCols == 0) ask_ahead(narrow + k * (kPanel * W::kBytes), kAskCols * kPanel * W::kBytes, end);
      for (int v = 0; v < kPanel / VL; v++)
        v_store((float*)scratch + k * kPanel + v * VL, W::load(narrow, k - k % W::kStep, v, (int)(k % W::kStep)));
    }
    gemm<F32Weights>(wide, panel, panel + 1, tile_begin, tile_end, nullptr);
  }
}
#endif

}  // namespace

#if PG_ISA == 3
const GemmFn gemm_f16_tall = gemm_tall<F16Weights>;
const GemmFn gemm_bf16_tall = gemm_tall<Bf16Weights>;
#endif
#if PG_WASM
const GemmFn gemm_f16_many = gemm_widened<F16Weights>;
const GemmFn gemm_bf16_many = gemm_widened<Bf16Weights>;
int64_t widened_bytes(int64_t cols) { return cols * kPanel * 4; }
#endif
const GemmFn gemm_f32 = gemm<F32Weights>;
const GemmFn gemm_f16 = gemm<F16Weights>;
const GemmFn gemm_bf16 = gemm<Bf16Weights>;

}  // namespace PG_NS
}  // namespace pg
