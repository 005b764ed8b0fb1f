// The memory of one worker of attention, and how keys are found: rows of a tile through the page table.
#pragma once
#include "../attention.h"
#include "attention-values.h"

namespace pg {
namespace PG_NS {

// Rows whose scores are made before their values are added: a tile's keys, then its values, stay in L1 meanwhile.
constexpr int kGroupRows = 4 * kRows;

PG_INLINE int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// The keys of one tile where they lie.
struct TileRows {
  const uint8_t* keys[kTileKeys];
  const uint8_t* values[kTileKeys];
  float key_scales[kTileKeys];  // i8 and fp8
  float value_scales[kTileKeys];
};

// One worker's scratch, carved from one block.
struct TileScratch {
  float* keys;          // [D, kTileKeys] transposed
  float* values;        // [kTileKeys, DvPad] f32
  float* q;             // [q_tile, DPad] scaled, zero from D on
  float* out;           // [q_tile, DvPad] of the chunk, unnormalised
  float* sums;          // [q_tile, VL] its denominators by lane
  float* maxima;        // [q_tile] its running maxima
  float* total_out;     // [q_tile, DvPad] the fold of the chunks so far
  float* total_sums;    // [q_tile]
  float* total_maxima;  // [q_tile]
  float* scores;        // [kGroupRows, kTileKeys]
  int32_t* visible_start;  // [q_tile] what each row sees of its sequence
  int32_t* visible_end;    // [q_tile]
  int32_t* first;       // [q_tile] first visible key of the chunk
  int32_t* last;        // [q_tile] one past the last visible key of the chunk
  TileRows* rows;       // [2] this tile's and the next one's, by turns
};

// Lays the scratch out in the block and returns its size; without a block, the size alone.
inline int64_t carve(TileScratch* s, uint8_t* block, int32_t q_tile, int32_t key_dim, int32_t value_dim) {
  int64_t used = 0;
  const auto take = [&](auto*& pointer, int64_t count) {
    if (block != nullptr) pointer = (__typeof__(+pointer))(block + used);
    used += round_up(count * (int64_t)sizeof(*pointer), 64);
  };
  const int64_t padded = round_up(value_dim, VL);
  take(s->keys, int64_t{key_dim} * kTileKeys);
  take(s->values, kTileKeys * padded);
  take(s->q, q_tile * round_up(key_dim, VL));
  take(s->out, q_tile * padded);
  take(s->sums, int64_t{q_tile} * VL);
  take(s->maxima, q_tile);
  take(s->total_out, q_tile * padded);
  take(s->total_sums, q_tile);
  take(s->total_maxima, q_tile);
  take(s->scores, kGroupRows * kTileKeys);
  take(s->visible_start, q_tile);
  take(s->visible_end, q_tile);
  take(s->first, q_tile);
  take(s->last, q_tile);
  take(s->rows, 2);
  return used;
}

inline int64_t scratch_bytes(int32_t q_tile, int32_t key_dim, int32_t value_dim) {
  TileScratch unused;
  return carve(&unused, nullptr, q_tile, key_dim, value_dim);
}

// The pages of one row as one head of one layer sees them.
struct HeadPages {
  const KvPool& pool;
  int32_t layer;
  int32_t head;
  const int32_t* pages;  // of the row

  // Pointers to the rows of keys [from, to) of the tile at `tile`; slots outside repeat the first of them, so that whole
  // vectors can be read without touching memory that holds no key.
  void point(TileRows& rows, int32_t tile, int32_t from, int32_t to) const {
    const int64_t key_bytes = int64_t{pool.key_dim} * pool.element_bytes;
    const int64_t value_bytes = pool.value_stride() * pool.element_bytes;
    each_run(from, to, [&](int32_t at, int32_t page, int32_t slot, int32_t count) {
      const uint8_t* key = pool.keys(page, layer, head) + slot * key_bytes;
      const uint8_t* value = pool.values(page, layer, head) + slot * value_bytes;
      const int32_t j = at - tile;
      for (int32_t i = 0; i < count; i++) {
        rows.keys[j + i] = key + i * key_bytes;
        rows.values[j + i] = value + i * value_bytes;
      }
      if (pool.has_scales()) {
        __builtin_prefetch(pool.scales(page, layer, 0, head) + slot);
        __builtin_prefetch(pool.scales(page, layer, 1, head) + slot);
      }
    });
    const auto repeat = [&](int32_t begin, int32_t end) {
      for (int32_t j = begin; j < end; j++) {
        rows.keys[j] = rows.keys[from - tile];
        rows.values[j] = rows.values[from - tile];
      }
    };
    repeat(0, from - tile);
    repeat(to - tile, kTileKeys);
  }

  // The same for the tile that holds key `from`, of a run that ends at `end`.
  void point_first(TileRows& rows, int32_t from, int32_t end) const {
    const int32_t tile = from / kTileKeys * kTileKeys;
    point(rows, tile, from, i_min(tile + kTileKeys, end));
  }

  // Gathers the scales of keys [from, to); zeros outside.
  void gather_scales(TileRows& rows, int32_t tile, int32_t from, int32_t to) const {
    memset(rows.key_scales, 0, sizeof rows.key_scales);
    memset(rows.value_scales, 0, sizeof rows.value_scales);
    each_run(from, to, [&](int32_t at, int32_t page, int32_t slot, int32_t count) {
      memcpy(rows.key_scales + (at - tile), pool.scales(page, layer, 0, head) + slot, sizeof(float) * count);
      memcpy(rows.value_scales + (at - tile), pool.scales(page, layer, 1, head) + slot, sizeof(float) * count);
    });
  }

  // body(position, page, slot, count) for each run of keys in one page.
  template <typename Body>
  PG_MEMBER void each_run(int32_t from, int32_t to, const Body& body) const {
    const int32_t size = pool.page_size;
    for (int32_t at = from; at < to;) {
      const int32_t slot = at % size;
      const int32_t count = i_min(size - slot, to - at);
      body(at, pages[at / size], slot, count);
      at += count;
    }
  }
};

// The keys of the tile after the last one, prefetched while that one runs. No pages: nothing is known of it.
struct Ahead {
  const HeadPages* pages;
  int32_t from;
  int32_t end;
};

}  // namespace PG_NS
}  // namespace pg
