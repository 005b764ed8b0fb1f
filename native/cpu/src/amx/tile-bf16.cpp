// Matmul with bf16 weights on tiles, for any number of rows; they are held as bf16 or as bf12 (bf12.h).
//
// Maths    out[i, j] = scale * (sum_k bf16(x[i, k]) * w[j, k] + bias[j]), sums in f32
// Order    one sum over k ascending in steps of 32, each as tiles.h says: a row's result does not depend on the rows beside it.
// Tiling   Panels of bf16 weights, [cols/2][32][2], are two tiles side by side: nothing is re-ordered. 16 rows of x by a panel are two
//          products into two sums, the halves of the panel through one register. What can be loaded ahead is the processor's tiles
//          less the registers in use, so four of them do more than eight, and operands are zeroed when they are done with: that
//          frees theirs. kChunkSteps steps of a panel stay in L1 while the row
//          tiles of a band run over them, and x in L2 while kTilePanels panels do; sums wait in memory meanwhile, exactly.
// Traffic  weights come from memory once per band of row tiles; per step 2 KiB of weights from L1 and 1 of x from L2, for 16,384
//          multiply-adds. Between its products every row tile sees to its share of the chunk that comes next: of bf16 it asks for the lines,
//          of bf12 it makes the bf16.
#include "../kernels/finish.h"
#include "bf16-chunks.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int64_t kSums = kTileRows * kPanelRows;  // of a row tile by a panel
constexpr int64_t kWaiting = kTilePanels * kBandTiles * kSums * (int64_t)sizeof(float);

// Registers: two sums, x, weights.
enum : int { kSum0, kSum1, kX, kW };

TileConfig config_for(int rows) {
  TileConfig config;
  for (int tile = kSum0; tile <= kX; tile++) config.set(tile, rows, 64);
  config.set(kW, kTileRows, 64);
  return config;
}

// ask(0) .. ask(kAsks - 1) come between the loads.
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

// A chunk by one row tile. The last step of a panel of bf16 may be short: zeros stand for the columns beyond.
template <class Chunks>
PG_INLINE void run_tile(const Gemm& g, const Chunk& chunk, int64_t tile, float* sums, Chunks& chunks) {
  const int64_t x_bytes = x_step_bytes(g.tiles.height(chunk.tile_begin + tile));
  const uint8_t *w = chunks.steps(), *x = g.tile_of(chunk.tile_begin + tile) + chunk.first * x_bytes;
  if (chunk.first == 0) {
    tile_zero<kSum0>();
    tile_zero<kSum1>();
  } else {
    tile_load<kSum0>(sums, 128);
    tile_load<kSum1>(sums + 16, 128);
  }
  const int64_t whole_steps = g.cols / kStepCols - chunk.first, whole = whole_steps < chunk.count ? whole_steps : chunk.count;
  int64_t step = 0;
  for (; step < whole; step++, w += kStepBytes, x += x_bytes) {
    chunks.prepare(tile, step);
    add_step(w, x, [&](int i) { chunks.part(i); });
  }
  if (step < chunk.count) {
    alignas(64) uint8_t last[kStepBytes] = {};
    memcpy(last, w, (size_t)(g.panel_bytes % kStepBytes));
    chunks.prepare(tile, step);
    add_step(last, x, [&](int i) { chunks.part(i); });
  }
  tile_store<kSum0>(sums, 128);
  tile_store<kSum1>(sums + 16, 128);
}

// One row tile by panels of bf12, one after the other: a step is made while the one before it is multiplied, and sums stay in registers.
void gemm_alone(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile, uint8_t* scratch) {
  float* sums = (float*)scratch;
  uint8_t* bytes[2] = {scratch + kWaiting, scratch + kWaiting + kStepBytes};
  const uint8_t* panel = g.panels + panel_begin * g.panel_bytes;
  const int64_t steps = steps_of(g.cols), x_bytes = x_step_bytes(g.tiles.height(tile));
  __m512i uppers = uppers_of(panel);
  for (int64_t i = 0; i < kBf12Groups; i++) expand_group(bytes[0] + i * kBf16Group, panel + kBf12Header + i * kBf12Group, uppers);
  int turn = 0;
  for (int64_t p = panel_begin; p < panel_end; p++, panel += g.panel_bytes) {
    OtherUppers others(panel + bf12_others_at(g.cols));
    const uint8_t *next = panel + kBf12Header + kBf12Step, *x = g.tile_of(tile);
    tile_zero<kSum0>();
    tile_zero<kSum1>();
    for (int64_t step = 0; step < steps; step++, next += kBf12Step, x += x_bytes, turn ^= 1) {
      if (step + 1 == steps && p + 1 < panel_end) {
        uppers = uppers_of(panel + g.panel_bytes);
        next = panel + g.panel_bytes + kBf12Header;
      } else if (step + 1 == steps) {
        next -= kBf12Step;  // nothing comes: the same again, which nobody reads
      }
      others.put(bytes[turn], step * kStepNumbers, (step + 1) * kStepNumbers);
      uint8_t* out = bytes[turn ^ 1];
      add_step(bytes[turn], x, [&](int part) {
        constexpr int64_t kEach = kBf12Groups / kAsks;
#pragma GCC unroll 2
        for (int64_t i = part * kEach; i < (part + 1) * kEach; i++) expand_and_ask(out + i * kBf16Group, next + i * kBf12Group, uppers);
      });
    }
    tile_store<kSum0>(sums, 128);
    tile_store<kSum1>(sums + 16, 128);
    finish(g, sums, g.tiles.first(tile), g.tiles.height(tile), p * kPanelRows, kPanelRows);
  }
}

// Sums wait in scratch, [panels][tiles][kSums].
template <class Chunks>
void gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t* scratch) {
  const TileScope scope(config_for(g.tiles.n < kTileRows ? (int)g.tiles.n : kTileRows));
  float* waiting = (float*)scratch;
  const int64_t tiles = tile_end - tile_begin;
  if (Chunks::has_alone && tiles == 1) return gemm_alone(g, panel_begin, panel_end, tile_begin, scratch);
  // One row tile stays where it is: its weights are best read as they lie.
  const Order order = {steps_of(g.cols), panel_end, tile_begin, tile_end, tiles > 1 ? kTilePanels : 1, Chunks::steps_for(tiles)};
  Chunk chunk = order.at(panel_begin, tile_begin, 0, panel_begin), next = order.after(chunk);
  Chunks chunks(g, scratch + kWaiting, chunk, next);
  for (;;) {
    for (int64_t t = 0; t < chunk.tiles(); t++) {
      float* sums = waiting + ((chunk.panel - chunk.side_begin) * chunk.tiles() + t) * kSums;
      run_tile(g, chunk, t, sums, chunks);
      const int64_t tile = chunk.tile_begin + t;
      if (chunk.first + chunk.count == order.steps) finish(g, sums, g.tiles.first(tile), g.tiles.height(tile), chunk.panel * kPanelRows, kPanelRows);
    }
    if (next.is_none()) return;
    chunk = next;
    next = order.after(chunk);
    chunks.turn(chunk, next);
  }
}

}  // namespace

const GemmFn gemm_bf16_tiles = gemm<PlainChunks>;
const GemmFn gemm_bf12_tiles = gemm<Bf12Chunks>;

int64_t bf16_scratch_bytes() { return kWaiting + Bf12Chunks::kBytes; }

}  // namespace PG_NS
}  // namespace pg
