// Matmul with bf16 weights on tiles, for any number of rows.
//
// Maths    out[i, j] = scale * (sum_k bf16(x[i, k]) * w[j, k] + bias[j]), sums in f32
// Order    one sum over k ascending in steps of 32, each as tiles.h says: a row's result does not depend on the rows beside it.
// Tiling   Panels of bf16 weights, [cols/2][32][2], are two tiles side by side: nothing is re-ordered. 16 rows of x by a panel are two
//          products into two sums, the halves of the panel through one register. What can be loaded ahead is the processor's tiles
//          less the registers in use, so four of them do more than eight, and operands are zeroed when they are done with: that
//          frees theirs. kChunkSteps steps of a panel stay in L1 while the row
//          tiles of a band run over them, and x in L2 while kTilePanels panels do; sums wait in memory meanwhile, exactly.
// Traffic  weights come from memory once per band of row tiles; per step 2 KiB of weights from L1 and 1 of x from L2, for 16,384
//          multiply-adds. Every row tile asks for its share of the weights that come next.
#include "../kernels/finish.h"
#include "tile-matmul.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int64_t kStepBytes = 2 * kStepTileBytes;  // of a panel: 32 columns by 32 outputs
constexpr int64_t kChunkSteps = 8;
constexpr int64_t kBandTiles = 32;
constexpr int64_t kSums = kTileRows * kPanelRows;  // of a row tile by a panel

// Registers: two sums, x, weights.
enum : int { kSum0, kSum1, kX, kW };

TileConfig config_for(int rows) {
  TileConfig config;
  for (int tile = kSum0; tile <= kX; tile++) config.set(tile, rows, 64);
  config.set(kW, kTileRows, 64);
  return config;
}

// ask(0) .. ask(kAsks - 1) come between the loads.
constexpr int kAsks = 4;
template <class Ask>
PG_INLINE void add_step(const uint8_t* w, const uint8_t* x, const Ask& ask) {
  ask(0);
  tile_load<kX>(x, 64);
  ask(1);
  tile_load<kW>(w, 128);
  tile_dot_bf16<kSum0, kX, kW>();
  tile_zero<kW>();
  ask(2);
  tile_load<kW>(w + 64, 128);
  tile_dot_bf16<kSum1, kX, kW>();
  ask(3);
  tile_zero<kX>();
  tile_zero<kW>();
}
constexpr auto kAskNothing = [](int) {};

// Weights to be asked for, into L2: some lines at every step. is_alone: of a single row tile, which waits for memory all the time; then
// all of a step, and those of the next step again, into L1, a few between any two loads (up to 5 % less time than all at once).
struct Ahead {
  const uint8_t* at;
  int64_t lines;
  bool is_alone;
};

// Steps [first, first + count) of one row tile by one panel. The last step of a panel may be short: zeros stand for the columns beyond.
PG_INLINE void run_steps(const Gemm& g, int64_t panel, const uint8_t* x, int64_t first, int64_t count, float* sums, Ahead ahead) {
  const uint8_t* w = g.panels + panel * g.panel_bytes + first * kStepBytes;
  if (first == 0) {
    tile_zero<kSum0>();
    tile_zero<kSum1>();
  } else {
    tile_load<kSum0>(sums, 128);
    tile_load<kSum1>(sums + 16, 128);
  }
  x += first * kStepTileBytes;
  int64_t whole = g.panel_bytes / kStepBytes - first;
  if (whole > count) whole = count;
  for (int64_t step = 0; step < whole; step++, w += kStepBytes, x += kStepTileBytes) {
    if (ahead.is_alone) {
      add_step(w, x, [&](int part) {
#pragma GCC unroll 8
        for (int64_t line = 0; line < kStepBytes / kAsks; line += 64) {
          const int64_t at = part * (kStepBytes / kAsks) + line;
          __builtin_prefetch(ahead.at + at, 0, 2);
          __builtin_prefetch(w + kStepBytes + at, 0, 3);
        }
      });
      ahead.at += kStepBytes;
    } else {
      for (int64_t line = 0; line < ahead.lines; line++, ahead.at += 64) __builtin_prefetch(ahead.at, 0, 2);
      add_step(w, x, kAskNothing);
    }
  }
  if (whole < count) {
    alignas(64) uint8_t last[kStepBytes] = {};
    memcpy(last, w, (size_t)(g.panel_bytes % kStepBytes));
    add_step(last, x, kAskNothing);
  }
  tile_store<kSum0>(sums, 128);
  tile_store<kSum1>(sums + 16, 128);
}

// The row tiles of a band by some panels, a chunk of columns at a time. waiting: [panels][tiles][kSums].
void run_band(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, float* waiting) {
  const int64_t steps = steps_of(g.cols), tiles = tile_end - tile_begin;
  const int64_t lines = (kStepBytes / 64 + tiles - 1) / tiles;  // that a row tile asks for at a step
  for (int64_t first = 0; first < steps; first += kChunkSteps) {
    const int64_t count = steps - first < kChunkSteps ? steps - first : kChunkSteps;
    const bool is_last = first + count == steps;
    for (int64_t panel = panel_begin; panel < panel_end; panel++) {
      const int64_t next_panel = panel + 1 < panel_end || is_last ? panel + 1 : panel_begin;
      const int64_t next_first = panel + 1 < panel_end ? first : is_last ? 0 : first + count;
      const uint8_t* next = g.panels + next_panel * g.panel_bytes + next_first * kStepBytes;
      for (int64_t t = 0; t < tiles; t++) {
        float* sums = waiting + ((panel - panel_begin) * tiles + t) * kSums;
        run_steps(g, panel, g.tile_of(tile_begin + t), first, count, sums, {next + t * count * lines * 64, lines, tiles == 1});
        if (is_last) finish(g, sums, g.tiles.first(tile_begin + t), g.tiles.height(tile_begin + t), panel * kPanelRows, kPanelRows);
      }
    }
  }
}

void gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t* scratch) {
  const TileScope scope(config_for(g.tiles.n < kTileRows ? (int)g.tiles.n : kTileRows));
  // One row tile stays where it is: its weights are best read as they lie.
  const int64_t side = tile_end - tile_begin > 1 ? kTilePanels : 1;
  for (int64_t panel = panel_begin; panel < panel_end; panel += side) {
    const int64_t last_panel = panel + side < panel_end ? panel + side : panel_end;
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
