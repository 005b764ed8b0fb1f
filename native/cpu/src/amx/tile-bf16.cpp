// Matmul with bf16 weights on tiles, for any number of rows.
//
// Maths    out[i, j] = scale * (sum_k bf16(x[i, k]) * w[j, k] + bias[j]), sums in f32
// Order    one sum over k ascending in steps of 32, each as tiles.h says: a row's result does not depend on the rows beside it.
// Tiling   Panels of bf16 weights, [cols/2][32][2], are two tiles side by side: nothing is re-ordered. 32 rows of x are two tiles: four
//          products for four loads. Up to 16 rows: two products for three loads, of as many rows as there are. Several row tiles:
//          kChunkSteps steps of kTilePanels panels stay in L2 while row tiles run over them one after the other; sums of wider matrices
//          wait in memory meanwhile, exactly.
// Traffic  weights come from memory once per band of row tiles; per step 2 KiB of weights and 2 of x, from L2, for 32,768 multiply-adds.
#include "../kernels/finish.h"
#include "tile-matmul.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int64_t kStepBytes = 2 * kStepTileBytes;  // of a panel: 32 columns by 32 outputs
constexpr int64_t kChunkSteps = 64;
constexpr int64_t kAhead = 16384;
constexpr int64_t kBandTiles = 16;
constexpr int64_t kSums = kBf16Rows * kPanelRows;  // of a row tile by a panel

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
  if (!kPair) return;
  tile_load<5>(x + kStepTileBytes, 64);
  tile_dot_bf16<2, 5, 6>();
  tile_dot_bf16<3, 5, 7>();
}

// Steps [first, first + count) of one row tile by one panel. The last step of a panel may be short: zeros stand for the columns
// beyond. ahead: the weights come from memory.
template <bool kPair>
PG_INLINE void run_steps(const Gemm& g, int64_t panel, const uint8_t* x, int64_t first, int64_t count, float* sums, bool ahead) {
  constexpr int64_t x_bytes = (kPair ? 2 : 1) * kStepTileBytes;
  const uint8_t* w = g.panels + panel * g.panel_bytes + first * kStepBytes;
  load_sums<kPair>(first == 0 ? nullptr : sums);
  x += first * x_bytes;
  int64_t whole = g.panel_bytes / kStepBytes - first;
  if (whole > count) whole = count;
  for (int64_t step = 0; step < whole; step++, w += kStepBytes, x += x_bytes) {
    if (ahead)
      for (int64_t line = 0; line < kStepBytes; line += 64) __builtin_prefetch(w + kAhead + line, 0, 2);
    add_step<kPair>(w, x);
  }
  if (whole < count) {
    alignas(64) uint8_t last[kStepBytes] = {};
    memcpy(last, w, (size_t)(g.panel_bytes % kStepBytes));
    add_step<kPair>(last, x);
  }
  store_sums<kPair>(sums);
}

// The row tiles of a band by up to kTilePanels panels, a chunk of columns at a time. waiting: [tiles][panels][kSums].
void run_band(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, float* waiting) {
  const int64_t steps = steps_of(g.cols);
  for (int64_t first = 0; first < steps; first += kChunkSteps) {
    const int64_t count = steps - first < kChunkSteps ? steps - first : kChunkSteps;
    float* sums = waiting;
    for (int64_t t = tile_begin; t < tile_end; t++)
      for (int64_t panel = panel_begin; panel < panel_end; panel++, sums += kSums) {
        const bool ahead = t == tile_begin;
        if (g.tiles.height(t) > kTileRows) run_steps<true>(g, panel, g.tile_of(t), first, count, sums, ahead);
        else run_steps<false>(g, panel, g.tile_of(t), first, count, sums, ahead);
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
