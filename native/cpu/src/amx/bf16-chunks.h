// Weights of bf16 as tiles load them: chunks of a panel, one after the other, and what is done for the next while one is multiplied.
#pragma once
#include "bf12.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int64_t kStepBytes = 2 * kStepTileBytes;  // of a panel: 32 columns by 32 outputs
constexpr int64_t kChunkSteps = 8;
constexpr int64_t kBandTiles = 32;
constexpr int kAsks = 4;  // parts of what is done at a step

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
  static int64_t steps_for(int64_t tiles) { return tiles <= 4 ? kChunkSteps / 2 : kChunkSteps; }
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

}  // namespace
}  // namespace PG_NS
}  // namespace pg
