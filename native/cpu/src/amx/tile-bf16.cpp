// Matmul with bf16 weights on tiles, for any number of rows.
//
// Maths    out[i, j] = scale * (sum_k high[i, k] * w[j, k] + sum_k low[i, k] * w[j, k] + bias[j]),  x = high + low
// Order    both sums run over k ascending in steps of 32, each step summed as tiles.h says; then high + low. A row's result does
//          not depend on the rows beside it, nor on whether its low part shared a tile with its high part.
// Tiling   Panels of bf16 weights, [cols/2][32][2], are two tiles side by side: nothing is re-ordered. 16 rows of x are two tiles
//          (high, low): four products for four loads. Up to 8 rows: one tile of x, two products. Several row tiles: kChunkSteps
//          steps of a panel stay in L1 while the row tiles of a band run over them from L2; sums wait in memory meanwhile, exactly.
// Traffic  weights come from memory once; per step 2 KiB of weights and 2 of x for 32,768 multiply-adds.
#include "../kernels/finish.h"
#include "tile-matmul.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int64_t kStepBytes = 2 * kStepTileBytes;  // of a panel: 32 columns by 32 outputs
constexpr int64_t kChunkSteps = 16;
constexpr int64_t kAhead = 16384;
constexpr int64_t kBandTiles = 16;                     // row tiles that stay in L2, with their sums, for several panels
constexpr int64_t kSums = 2 * kTileRows * kPanelRows;  // of a pair of tiles by a panel

// tmm0, 1: the first tile of x by the halves of the panel; tmm2, 3: the second; tmm4, 5: x; tmm6, 7: weights.
TileConfig all_whole() {
  TileConfig config;
  for (int tile = 0; tile < 8; tile++) config.set(tile, 16, 64);
  return config;
}

// sums [32][32]: rows of the first tile, rows of the second. Null: zeros.
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
  tile_load<2>(sums + 512, 128);
  tile_load<3>(sums + 528, 128);
}

template <bool kPair>
PG_INLINE void store_sums(float* sums) {
  tile_store<0>(sums, 128);
  tile_store<1>(sums + 16, 128);
  if (!kPair) return;
  tile_store<2>(sums + 512, 128);
  tile_store<3>(sums + 528, 128);
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
PG_INLINE void add_steps(const Gemm& g, int64_t panel, const uint8_t* x, int64_t first, int64_t count, bool ahead) {
  constexpr int64_t x_bytes = kPair ? 2 * kStepTileBytes : kStepTileBytes;
  const uint8_t* w = g.panels + panel * g.panel_bytes + first * kStepBytes;
  x += first * x_bytes;
  int64_t whole = g.panel_bytes / kStepBytes - first;
  if (whole > count) whole = count;
  for (int64_t step = 0; step < whole; step++, w += kStepBytes, x += x_bytes) {
    if (ahead)
      for (int64_t line = 0; line < kStepBytes; line += 64) __builtin_prefetch(w + kAhead + line, 0, 2);
    else
      for (int64_t line = 0; line < x_bytes; line += 64) __builtin_prefetch(x + 2 * x_bytes + line, 0, 3);
    add_step<kPair>(w, x);
  }
  if (whole == count) return;
  alignas(64) uint8_t last[kStepBytes] = {};
  memcpy(last, w, (size_t)(g.panel_bytes % kStepBytes));
  add_step<kPair>(last, x);
}

PG_INLINE bool is_pair(const Gemm& g, int64_t t) { return g.tiles.height(t) > kTileRows / 2; }

// High parts plus low ones.
void finish_sums(const Gemm& g, float* sums, int64_t t, int64_t panel) {
  const int64_t height = g.tiles.height(t);
  const float* low = sums + (is_pair(g, t) ? kTileRows : kTileRows / 2) * kPanelRows;
  for (int64_t at = 0; at < height * kPanelRows; at += VL) v_store(sums + at, v_add(v_load(sums + at), v_load(low + at)));
  finish(g, sums, g.tiles.first(t), height, panel * kPanelRows, kPanelRows);
}

template <bool kPair>
void run_alone(const Gemm& g, int64_t panel, int64_t t) {
  alignas(64) float sums[kSums];
  load_sums<kPair>(nullptr);
  add_steps<kPair>(g, panel, g.tile_of(t), 0, steps_of(g.cols), true);
  store_sums<kPair>(sums);
  finish_sums(g, sums, t, panel);
}

// All row tiles of a band by up to kTilePanels panels, a chunk of columns at a time. waiting: [panels][tiles][kSums].
void run_band(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, float* waiting) {
  const int64_t steps = steps_of(g.cols);
  for (int64_t first = 0; first < steps; first += kChunkSteps) {
    const int64_t count = steps - first < kChunkSteps ? steps - first : kChunkSteps;
    float* sums = waiting;
    for (int64_t panel = panel_begin; panel < panel_end; panel++)
      for (int64_t t = tile_begin; t < tile_end; t++, sums += kSums) {
        const float* before = first == 0 ? nullptr : sums;
        if (is_pair(g, t)) {
          load_sums<true>(before);
          add_steps<true>(g, panel, g.tile_of(t), first, count, t == tile_begin);
          store_sums<true>(sums);
        } else {
          load_sums<false>(before);
          add_steps<false>(g, panel, g.tile_of(t), first, count, t == tile_begin);
          store_sums<false>(sums);
        }
        if (first + count == steps) finish_sums(g, sums, t, panel);
      }
  }
}

void gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t* scratch) {
  const TileScope scope(all_whole());
  const bool alone = tile_end - tile_begin == 1;
  for (int64_t panel = panel_begin; alone && panel < panel_end; panel++)
    is_pair(g, tile_begin) ? run_alone<true>(g, panel, tile_begin) : run_alone<false>(g, panel, tile_begin);
  for (int64_t panel = panel_begin; !alone && panel < panel_end; panel += kTilePanels) {
    const int64_t last_panel = panel + kTilePanels < panel_end ? panel + kTilePanels : panel_end;
    for (int64_t first = tile_begin; first < tile_end; first += kBandTiles) {
      const int64_t last = first + kBandTiles < tile_end ? first + kBandTiles : tile_end;
      run_band(g, panel, last_panel, first, last, (float*)scratch);
    }
  }
}

}  // namespace

const GemmFn gemm_bf16_tiles = gemm;

int64_t tile_scratch_bytes(int64_t) { return kTilePanels * kBandTiles * kSums * (int64_t)sizeof(float); }

}  // namespace PG_NS
}  // namespace pg
