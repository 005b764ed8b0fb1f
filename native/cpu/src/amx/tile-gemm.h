// Matmul on tiles, for any number of rows, over the weights of tile-weights.h.
//
// Maths    out[i, j] = scale * (sum_k bf16(x[i, k]) * w[j, k] + bias[j]),  w a bf16, sums in f32
// Order    one sum over k ascending in steps of 32, each as tiles.h says: a row's result does not depend on the rows beside it.
// Tiling   32 rows of x by a panel are 2 x 2 tiles: four products for four loads. Up to 16 rows: two products for three loads, of as many
//          rows as there are. One row tile alone: weights are made kLag steps before they are multiplied, since what vectors store is not
//          forwarded to tiles. Several: kChunkSteps steps of a panel are made once and stay in L1 while the row tiles of a band run
//          over them from L2; their sums wait in memory meanwhile, exactly.
// Traffic  weights come from memory once per band, as the file's codes; per step of 32 rows 2 KiB of weights from L1 and 2 of x from L2
//          for 32,768 multiply-adds.
#pragma once
#include "../kernels/finish.h"
#include "tile-weights.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int64_t kChunkSteps = 8;
constexpr int64_t kBandTiles = 8;  // of 32 rows: they stay in L2, with their sums, for several panels
constexpr int64_t kLag = 2;
constexpr int64_t kTileAhead = 16384;
constexpr int64_t kSums = kRowTileRows * kPanelRows;  // of a row tile by a panel

// A worker's: the tiles of a chunk, and the sums that wait.
struct alignas(64) Room {
  uint8_t made[kChunkSteps][kPanelStepBytes];
  float sums[kTilePanels * kBandTiles][kSums];
};
static_assert(kLag < kChunkSteps, "steps that are made are not yet multiplied");

// tmm0, 1: the first 16 rows of x by the halves of the panel; tmm2, 3: the second; tmm4, 5: x; tmm6, 7: weights.
inline TileConfig config_for(int64_t rows) {
  TileConfig config;
  for (int tile = 0; tile < 6; tile++) config.set(tile, rows < kTileRows ? (int)rows : kTileRows, 64);
  for (int tile = 6; tile < 8; tile++) config.set(tile, kTileRows, 64);
  return config;
}

PG_INLINE void zero_sums() {
  tile_zero<0>();
  tile_zero<1>();
  tile_zero<2>();
  tile_zero<3>();
}

// sums [32 rows][32 outputs].
template <bool kPair>
PG_INLINE void load_sums(const float* sums) {
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

template <class W, bool kPair>
PG_INLINE void add_step(const uint8_t* w, const uint8_t* x) {
  tile_load<6>(w, W::kRowBytes);
  tile_load<4>(x, 64);
  tile_dot_bf16<0, 4, 6>();
  tile_load<7>(w + W::kHalfBytes, W::kRowBytes);
  tile_dot_bf16<1, 4, 7>();
  if (!kPair) return;
  tile_load<5>(x + kTileBytes, 64);
  tile_dot_bf16<2, 5, 6>();
  tile_dot_bf16<3, 5, 7>();
}

// The tiles of a step: where they lie in the panel, or in `room`, made or padded. ahead: the panel comes from memory.
template <class W>
PG_INLINE const uint8_t* step_tiles(const Gemm& g, int64_t panel, int64_t step, uint8_t* room, bool ahead) {
  const uint8_t* record = g.panels + panel * g.panel_bytes + step / W::kRecordSteps * W::kRecordBytes;
  const uint8_t* at = record + W::kRecordBytes - W::kRecordSteps * W::kStepBytes + step % W::kRecordSteps * W::kStepBytes;
  if (ahead)
    for (int64_t line = 0; line < W::kStepBytes; line += 64) __builtin_prefetch(at + kTileAhead + line, 0, 2);
  if constexpr (W::kMade) {
    W::make(room, at, record);
    return room;
  }
  const int64_t left = g.panel_bytes - step * W::kStepBytes;
  if (left >= W::kStepBytes) return at;
  memset(room, 0, (size_t)W::kStepBytes);
  memcpy(room, at, (size_t)left);
  return room;
}

// One row tile by one panel, all columns at once.
template <class W, bool kPair>
PG_INLINE void run_alone(const Gemm& g, Room& room, int64_t panel, const uint8_t* x) {
  constexpr int64_t x_bytes = (kPair ? 2 : 1) * kTileBytes, lag = W::kMade ? kLag : 0;
  const int64_t steps = steps_of(g.cols);
  zero_sums();
  const uint8_t* tiles[kChunkSteps];
  for (int64_t step = 0; step < steps + lag; step++) {
    if (step < steps) tiles[step % kChunkSteps] = step_tiles<W>(g, panel, step, room.made[step % kChunkSteps], true);
    if (step < lag) continue;
    add_step<W, kPair>(tiles[(step - lag) % kChunkSteps], x);
    x += x_bytes;
  }
  store_sums<kPair>(room.sums[0]);
}

// Tiles of steps from `first` on, by a row tile whose sums have waited since the steps before.
template <class W, bool kPair>
PG_INLINE void run_chunk(const uint8_t* const* tiles, int64_t count, const uint8_t* x, int64_t first, float* sums) {
  constexpr int64_t x_bytes = (kPair ? 2 : 1) * kTileBytes;
  if (first == 0) zero_sums();
  else load_sums<kPair>(sums);
  for (int64_t i = 0; i < count; i++) add_step<W, kPair>(tiles[i], x + (first + i) * x_bytes);
  store_sums<kPair>(sums);
}

// The row tiles of a band by a few panels, a chunk of columns at a time.
template <class W>
void run_band(const Gemm& g, Room& room, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, bool ahead) {
  const int64_t steps = steps_of(g.cols);
  for (int64_t first = 0; first < steps; first += kChunkSteps) {
    const int64_t count = steps - first < kChunkSteps ? steps - first : kChunkSteps;
    int64_t waiting = 0;
    for (int64_t panel = panel_begin; panel < panel_end; panel++) {
      const uint8_t* tiles[kChunkSteps];
      for (int64_t i = 0; i < count; i++) tiles[i] = step_tiles<W>(g, panel, first + i, room.made[i], ahead);
      for (int64_t t = tile_begin; t < tile_end; t++) {
        float* sums = room.sums[waiting++];
        if (g.tiles.height(t) > kTileRows) run_chunk<W, true>(tiles, count, g.tile_of(t), first, sums);
        else run_chunk<W, false>(tiles, count, g.tile_of(t), first, sums);
        if (first + count == steps) finish(g, sums, g.tiles.first(t), g.tiles.height(t), panel * kPanelRows, kPanelRows);
      }
    }
  }
}

template <class W>
void tile_gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t* scratch) {
  Room& room = *(Room*)scratch;
  const TileScope scope(config_for(g.tiles.n));
  if (tile_end - tile_begin == 1) {
    const int64_t height = g.tiles.height(tile_begin);
    for (int64_t panel = panel_begin; panel < panel_end; panel++) {
      if (height > kTileRows) run_alone<W, true>(g, room, panel, g.tile_of(tile_begin));
      else run_alone<W, false>(g, room, panel, g.tile_of(tile_begin));
      finish(g, room.sums[0], g.tiles.first(tile_begin), height, panel * kPanelRows, kPanelRows);
    }
    return;
  }
  for (int64_t panel = panel_begin; panel < panel_end; panel += kTilePanels) {
    const int64_t last_panel = panel + kTilePanels < panel_end ? panel + kTilePanels : panel_end;
    for (int64_t first = tile_begin; first < tile_end; first += kBandTiles) {
      const int64_t last = first + kBandTiles < tile_end ? first + kBandTiles : tile_end;
      run_band<W>(g, room, panel, last_panel, first, last, first == tile_begin);
    }
  }
}

}  // namespace
}  // namespace PG_NS
}  // namespace pg
