// Matmul with bf16 weights on tiles, for any number of rows.
//
// Maths    out[i, j] = scale * (sum_k (high[i, k] + low[i, k]) * w[j, k] + bias[j]),  x = high + low
// Order    one sum over k ascending in steps of 32: the products of a step with the high parts, then those with the low ones, each as
//          tiles.h says. A row's result does not depend on the rows beside it.
// Tiling   Panels of bf16 weights, [cols/2][32][2], are two tiles side by side: nothing is re-ordered. 32 rows of x are four tiles
//          (halves, high and low): eight products for six loads. Up to 16 rows: four products for four loads, of as many rows as there
//          are. Several row tiles: kChunkSteps steps of a panel stay in L1 while the row tiles of a band run over them from L2; sums
//          wait in memory meanwhile, exactly.
// Traffic  weights come from memory once; per step 2 KiB of weights and 4 of x for 65,536 multiply-adds.
#include "../kernels/finish.h"
#include "tile-matmul.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int64_t kStepBytes = 2 * kStepTileBytes;  // of a panel: 32 columns by 32 outputs
constexpr int64_t kChunkSteps = 8;
constexpr int64_t kAhead = 16384;
constexpr int64_t kBandTiles = 8;                      // row tiles that stay in L2, with their sums, for several panels
constexpr int64_t kSums = kSplitRows * kPanelRows;     // of a row tile by a panel

// tmm0, 1: the first 16 rows of x by the halves of the panel; tmm2, 3: the second; tmm4, 5: x; tmm6, 7: weights.
TileConfig config_for(int rows) {
  TileConfig config;
  for (int tile = 0; tile < 6; tile++) config.set(tile, rows, 64);
  for (int tile = 6; tile < 8; tile++) config.set(tile, 16, 64);
  return config;
}

// sums [32][32]. Null: zeros.
template <bool kPair>
PG_INLINE void load_sums(const float* sums) {
  if (sums == nullptr) {
    tile_zero<0>();
    tile_zero<1>();
    tile_zero<2>();
    tile_zero<3>();
    return;
  }
  tile_load<0>(sums, 128);
  tile_load<1>(sums + 16, 128);
  if (!kPair) return;
  tile_load<2>(sums + kSums / 2, 128);
  tile_load<3>(sums + kSums / 2 + 16, 128);
}

template <bool kPair>
PG_INLINE void store_sums(float* sums) {
  tile_store<0>(sums, 128);
  tile_store<1>(sums + 16, 128);
  if (!kPair) return;
  tile_store<2>(sums + kSums / 2, 128);
  tile_store<3>(sums + kSums / 2 + 16, 128);
}

template <bool kPair>
PG_INLINE void add_step(const uint8_t* w, const uint8_t* x) {
  tile_load<6>(w, 128);
  tile_load<4>(x, 64);
  tile_dot_bf16<0, 4, 6>();
  tile_load<7>(w + 64, 128);
  tile_dot_bf16<1, 4, 7>();
  if (kPair) {
    tile_load<5>(x + 2 * kStepTileBytes, 64);
    tile_dot_bf16<2, 5, 6>();
    tile_dot_bf16<3, 5, 7>();
  }
  tile_load<4>(x + kStepTileBytes, 64);
  tile_dot_bf16<0, 4, 6>();
  tile_dot_bf16<1, 4, 7>();
  if (!kPair) return;
  tile_load<5>(x + 3 * kStepTileBytes, 64);
  tile_dot_bf16<2, 5, 6>();
  tile_dot_bf16<3, 5, 7>();
}

// Steps [first, first + count) of one row tile by one panel. The last step of a panel may be short: zeros stand for the columns
// beyond. ahead: the weights come from memory.
template <bool kPair>
PG_INLINE void add_steps(const Gemm& g, int64_t panel, const uint8_t* x, int64_t first, int64_t count, bool ahead) {
  constexpr int64_t x_bytes = (kPair ? 4 : 2) * kStepTileBytes;
  const uint8_t* w = g.panels + panel * g.panel_bytes + first * kStepBytes;
  x += first * x_bytes;
  int64_t whole = g.panel_bytes / kStepBytes - first;
  if (whole > count) whole = count;
  for (int64_t step = 0; step < whole; step++, w += kStepBytes, x += x_bytes) {
    if (ahead)
      for (int64_t line = 0; line < kStepBytes; line += 64) __builtin_prefetch(w + kAhead + line, 0, 2);
    add_step<kPair>(w, x);
  }
  if (whole == count) return;
  alignas(64) uint8_t last[kStepBytes] = {};
  memcpy(last, w, (size_t)(g.panel_bytes % kStepBytes));
  add_step<kPair>(last, x);
}

template <bool kPair>
PG_INLINE void run_steps(const Gemm& g, int64_t panel, int64_t t, int64_t first, int64_t count, float* sums, bool ahead) {
  load_sums<kPair>(first == 0 ? nullptr : sums);
  add_steps<kPair>(g, panel, g.tile_of(t), first, count, ahead);
  store_sums<kPair>(sums);
}

// All row tiles of a band by up to kTilePanels panels, a chunk of columns at a time; one row tile alone: all columns at once.
// waiting: [panels][tiles][kSums].
void run_band(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, float* waiting) {
  const int64_t steps = steps_of(g.cols), chunk = tile_end - tile_begin == 1 ? steps : kChunkSteps;
  for (int64_t first = 0; first < steps; first += chunk) {
    const int64_t count = steps - first < chunk ? steps - first : chunk;
    float* sums = waiting;
    for (int64_t panel = panel_begin; panel < panel_end; panel++)
      for (int64_t t = tile_begin; t < tile_end; t++, sums += kSums) {
        const bool ahead = t == tile_begin;
        if (g.tiles.height(t) > kTileRows) run_steps<true>(g, panel, t, first, count, sums, ahead);
        else run_steps<false>(g, panel, t, first, count, sums, ahead);
        if (first + count == steps) finish(g, sums, g.tiles.first(t), g.tiles.height(t), panel * kPanelRows, kPanelRows);
      }
  }
}

void gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t* scratch) {
  const TileScope scope(config_for(g.tiles.n < kTileRows ? (int)g.tiles.n : kTileRows));
  for (int64_t panel = panel_begin; panel < panel_end; panel += kTilePanels) {
    const int64_t last_panel = panel + kTilePanels < panel_end ? panel + kTilePanels : panel_end;
    for (int64_t first = tile_begin; first < tile_end; first += kBandTiles) {
      const int64_t last = first + kBandTiles < tile_end ? first + kBandTiles : tile_end;
      run_band(g, panel, last_panel, first, last, (float*)scratch);
    }
  }
}

}  // namespace

const GemmFn gemm_bf16_tiles = gemm;

int64_t bf16_scratch_bytes() { return kTilePanels * kBandTiles * kSums * (int64_t)sizeof(float); }

}  // namespace PG_NS
}  // namespace pg
