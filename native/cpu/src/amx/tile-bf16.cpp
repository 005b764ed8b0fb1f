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
#include "bf12.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int64_t kStepBytes = 2 * kStepTileBytes;  // of a panel: 32 columns by 32 outputs
constexpr int64_t kChunkSteps = 8;
constexpr int64_t kBf12Few = 4;
constexpr int64_t kBandTiles = 32;
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

// Some steps of a panel by the row tiles of a band.
struct Chunk {
  int64_t panel, first, count;
  int64_t tile_begin, tile_end;
  int64_t side_begin, side_end;  // the panels that run side by side
  bool is_none() const { return count == 0; }
  int64_t tiles() const { return tile_end - tile_begin; }
};

// The order of the chunks: panels side by side, then steps, then bands of row tiles, then the panels after those.
struct Order {
  int64_t steps, panel_end, tile_begin, tile_end, side, most;  // most: steps of a chunk
  Chunk at(int64_t side_begin, int64_t tile, int64_t first, int64_t panel) const {
    const auto least = [](int64_t a, int64_t b) { return a < b ? a : b; };
    return {panel, first, least(most, steps - first), tile, least(tile + kBandTiles, tile_end), side_begin, least(side_begin + side, panel_end)};
  }
  Chunk after(const Chunk& c) const {
    if (c.panel + 1 < c.side_end) return at(c.side_begin, c.tile_begin, c.first, c.panel + 1);
    if (c.first + c.count < steps) return at(c.side_begin, c.tile_begin, c.first + c.count, c.side_begin);
    if (c.tile_end < tile_end) return at(c.side_begin, c.tile_end, 0, c.side_begin);
    if (c.side_end < panel_end) return at(c.side_end, tile_begin, 0, c.side_end);
    return {};
  }
};

// How weights become what tiles load. Of a chunk while it is multiplied:
//   steps()               where its steps are
//   prepare(tile, step)   begins what row tile `tile` does at `step` for the chunk that comes next, in kAsks parts
//   part(i)               one of them
//   turn()                the next chunk's turn

// As they lie. Lines are asked for into L2: some at every step. Of a single row tile, which waits for memory all the time, all of a step, and those of the
// next step again, into L1, a few between any two loads (up to 5 % less time than all at once).
class PlainChunks {
 public:
  static constexpr bool has_alone = false;
  static int64_t steps_for(int64_t) { return kChunkSteps; }
  PlainChunks(const Gemm& g, uint8_t*, const Chunk& first, const Chunk& next) : g_(g), at_(place_of(first)) { turn(first, next); }
  const uint8_t* steps() const { return at_; }
  [[gnu::always_inline]] void prepare(int64_t tile, int64_t step) {
    const int64_t slot = tile * count_ + step;
    if (is_alone_) {
      ask_ = next_ + slot * kStepBytes;
      soon_ = at_ + (step + 1) * kStepBytes;
      return;
    }
    for (int64_t line = 0; line < lines_; line++) __builtin_prefetch(next_ + (slot * lines_ + line) * 64, 0, 2);
  }
  [[gnu::always_inline]] void part(int i) const {
    if (!is_alone_) return;
#pragma GCC unroll 8
    for (int64_t line = 0; line < kStepBytes / kAsks; line += 64) {
      __builtin_prefetch(ask_ + i * (kStepBytes / kAsks) + line, 0, 2);
      __builtin_prefetch(soon_ + i * (kStepBytes / kAsks) + line, 0, 3);
    }
  }
  void turn(const Chunk& chunk, const Chunk& next) {
    at_ = place_of(chunk);
    next_ = next.is_none() ? place_of(chunk) + chunk.count * kStepBytes : place_of(next);
    count_ = chunk.count;
    is_alone_ = chunk.tiles() == 1;
    lines_ = (kStepBytes / 64 + chunk.tiles() - 1) / chunk.tiles();
  }

 private:
  const uint8_t* place_of(const Chunk& c) const { return g_.panels + c.panel * g_.panel_bytes + c.first * kStepBytes; }
  const Gemm& g_;
  const uint8_t *at_, *next_, *ask_, *soon_;
  int64_t count_, lines_;
  bool is_alone_;
};

constexpr int64_t kAskLong = 16384, kAskSoon = 2048;

PG_INLINE void expand_and_ask(uint8_t* out, const uint8_t* group, __m512i uppers) {
#pragma GCC unroll 3
  for (int64_t line = 0; line < kBf12Group; line += 64) {
    __builtin_prefetch(group + kAskLong + line, 0, 2);
    __builtin_prefetch(group + kAskSoon + line, 0, 3);
  }
  expand_group(out, group, uppers);
}

// Bf12. The next chunk is made while this one is multiplied: tiles do not read what waits to be stored. Two threads that share a core have
// both chunks of each in its L1, so chunks are no longer than the row tiles' sums ask for.
class Bf12Chunks {
 public:
  static constexpr bool has_alone = true;  // gemm_alone
  static int64_t steps_for(int64_t tiles) { return tiles <= 4 ? kBf12Few : kChunkSteps; }
  static constexpr int64_t kBytes = 2 * kChunkSteps * kStepBytes;
  Bf12Chunks(const Gemm& g, uint8_t* room, const Chunk& first, const Chunk& next) : g_(g), made_(room), making_(room + kBytes / 2) {
    begin(first);
    for (int64_t group = 0; group < groups_; group++) make(group);
    turn(first, next);
  }
  const uint8_t* steps() const { return made_; }
  [[gnu::always_inline]] void prepare(int64_t tile, int64_t step) { group_ = (tile * count_ + step) * share_; }
  [[gnu::always_inline]] void part(int i) {
    for (int64_t group = group_ + share_ * i / kAsks; group < group_ + share_ * (i + 1) / kAsks; group++)
      if (group < groups_) make(group);
  }
  void turn(const Chunk& chunk, const Chunk& next) {
    uint8_t* made = making_;
    making_ = made_;
    made_ = made;
    OtherUppers& others = others_[chunk.panel - chunk.side_begin];
    if (chunk.first == 0) others = OtherUppers(g_.panels + chunk.panel * g_.panel_bytes + bf12_others_at(g_.cols));
    others.put(made_, chunk.first * kStepNumbers, (chunk.first + chunk.count) * kStepNumbers);
    groups_ = 0;
    if (!next.is_none()) begin(next);
    count_ = chunk.count;
    const int64_t slots = chunk.tiles() * chunk.count;
    share_ = (groups_ + slots - 1) / slots;
  }

 private:
  void begin(const Chunk& c) {
    const uint8_t* panel = g_.panels + c.panel * g_.panel_bytes;
    uppers_ = uppers_of(panel);
    from_ = panel + kBf12Header + c.first * kBf12Step;
    groups_ = c.count * kBf12Groups;
  }
  [[gnu::always_inline]] void make(int64_t group) { expand_and_ask(making_ + group * kBf16Group, from_ + group * kBf12Group, uppers_); }
  const Gemm& g_;
  uint8_t *made_, *making_;
  OtherUppers others_[kTilePanels];
  __m512i uppers_;
  const uint8_t* from_;
  int64_t groups_ = 0, count_ = 0, share_ = 0, group_ = 0;
};

// A chunk by one row tile. The last step of a panel of bf16 may be short: zeros stand for the columns beyond.
template <class Chunks>
PG_INLINE void run_tile(const Gemm& g, const Chunk& chunk, int64_t tile, float* sums, Chunks& chunks) {
  const uint8_t *w = chunks.steps(), *x = g.tile_of(chunk.tile_begin + tile) + chunk.first * kStepTileBytes;
  if (chunk.first == 0) {
    tile_zero<kSum0>();
    tile_zero<kSum1>();
  } else {
    tile_load<kSum0>(sums, 128);
    tile_load<kSum1>(sums + 16, 128);
  }
  const int64_t whole_steps = g.cols / kStepCols - chunk.first, whole = whole_steps < chunk.count ? whole_steps : chunk.count;
  int64_t step = 0;
  for (; step < whole; step++, w += kStepBytes, x += kStepTileBytes) {
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
  const int64_t steps = steps_of(g.cols);
  __m512i uppers = uppers_of(panel);
  for (int64_t i = 0; i < kBf12Groups; i++) expand_group(bytes[0] + i * kBf16Group, panel + kBf12Header + i * kBf12Group, uppers);
  int turn = 0;
  for (int64_t p = panel_begin; p < panel_end; p++, panel += g.panel_bytes) {
    OtherUppers others(panel + bf12_others_at(g.cols));
    const uint8_t *next = panel + kBf12Header + kBf12Step, *x = g.tile_of(tile);
    tile_zero<kSum0>();
    tile_zero<kSum1>();
    for (int64_t step = 0; step < steps; step++, next += kBf12Step, x += kStepTileBytes, turn ^= 1) {
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
