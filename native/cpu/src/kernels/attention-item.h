// Attention of one work item for one kv head: its queries, its chunks of keys tile by tile, and what becomes of the state. How a tile
// meets its queries is a Tile's business:
//   static constexpr bool scaled       pages have scales
//   Tile(s, pool, softcap, count, rest)  for an item of `count` rows; rest: the worker's memory behind TileScratch
//   run(rows_of_tile, next, tile, from, to, row_begin, row_end)
//     keys [from, to) of the tile at `tile`, which some of the rows [row_begin, row_end) see; next: the tile that follows
#pragma once
#include "attention-scratch.h"
#include "attention-softmax.h"

namespace pg {
namespace PG_NS {
namespace {

HeadPages pages_of(const AttentionArgs& a, const AttentionUnit& unit) {
  const int32_t row = a.plan.item_row[unit.item];
  return {*a.pool, a.layer, unit.head, a.batch.kv_indices + a.batch.kv_indptr[row]};
}

// The first key that any row of a unit sees.
int32_t first_key(const AttentionArgs& a, const AttentionUnit& unit) {
  const int32_t group = a.num_heads / a.pool->num_kv_heads;
  const int32_t token = a.batch.qo_indptr[a.plan.item_row[unit.item]] + a.plan.item_q_start[unit.item] / group;
  return i_max(a.plan.visible_start(a.batch.positions[token]), a.plan.item_kv_start[unit.item]);
}

// Rows of the item as scaled queries with their visible ranges; returns how many.
int32_t load_queries(TileScratch& s, const AttentionArgs& a, int32_t item, int32_t head) {
  const int32_t row = a.plan.item_row[item];
  const int32_t token0 = a.batch.qo_indptr[row];
  const int32_t group = a.num_heads / a.pool->num_kv_heads;
  const int32_t packed = (a.batch.qo_indptr[row + 1] - token0) * group;
  const int32_t start = a.plan.item_q_start[item];
  const int32_t count = i_min(a.plan.q_tile, packed - start);
  const int32_t dim = a.pool->key_dim;
  const int64_t q_stride = round_up(dim, VL);
  // With a cap, scores come out as score / cap; without, in base 2.
  const vf factor = v_set(a.softcap != 0.0f ? a.scale / a.softcap : a.scale * kLog2e);
  for (int32_t i = 0; i < count; i++) {
    const int32_t token = token0 + (start + i) / group;
    const int32_t in_group = (start + i) % group;
    const float* q = a.q + token * a.q_stride + (int64_t{head} * group + in_group) * dim;
    float* to = s.q + i * q_stride;
    each_step(dim, [&](int64_t d, int lanes) { v_store(to + d, v_load_some(q + d, lanes) * factor); });
    s.visible_start[i] = a.plan.visible_start(a.batch.positions[token]);
    s.visible_end[i] = a.plan.visible_end(a.batch.positions[token], a.batch.visible_end[token]);
    s.total_sums[i] = 0.0f;
    s.total_maxima[i] = kMinusInfinity;
  }
  memset(s.total_out, 0, sizeof(float) * count * round_up(a.pool->value_dim, VL));
  return count;
}

// Empty states, and what each row sees of the keys [from, to). Both bounds grow with the row.
void begin_chunk(TileScratch& s, int32_t count, int64_t padded, int32_t from, int32_t to) {
  for (int32_t i = 0; i < count; i++) {
    s.first[i] = i_max(s.visible_start[i], from);
    s.last[i] = i_min(s.visible_end[i], to);
    s.maxima[i] = kMinusInfinity;
  }
  memset(s.out, 0, sizeof(float) * count * padded);
  memset(s.sums, 0, sizeof(float) * count * VL);
}

// All tiles of the chunk that begin_chunk laid out.
template <typename Tile>
void run_chunk(Tile& tile_kernel, TileScratch& s, const HeadPages& pages, int32_t count, const Ahead& ahead) {
  const int32_t begin = s.first[0];
  const int32_t end = s.last[count - 1];
  if (begin >= end) return;
  int32_t row_begin = 0;  // rows before it have all their keys behind the tile
  int32_t tile = begin / kTileKeys * kTileKeys;
  pages.point(s.rows[0], tile, begin, i_min(tile + kTileKeys, end));
  for (int turn = 0; tile < end; tile += kTileKeys, turn ^= 1) {
    const int32_t from = i_max(tile, begin);
    const int32_t to = i_min(tile + kTileKeys, end);
    TileRows& rows = s.rows[turn];
    TileRows& next = s.rows[turn ^ 1];
    const bool is_last = to == end;
    if (!is_last)
      pages.point(next, to, to, i_min(to + kTileKeys, end));
    else if (ahead.pages != nullptr)
      ahead.pages->point_first(next, ahead.from, ahead.end);
    const TileRows& following = is_last && ahead.pages == nullptr ? rows : next;
    if (Tile::scaled) pages.gather_scales(rows, tile, from, to);
    while (row_begin < count && s.last[row_begin] <= i_max(tile, s.first[row_begin])) row_begin++;
    int32_t row_end = count;  // rows from it on have their window ahead of the tile
    while (row_end > row_begin && s.first[row_end - 1] >= tile + kTileKeys) row_end--;
    if (row_begin < row_end) tile_kernel.run(rows, following, tile, from, to, row_begin, row_end);
  }
}

template <typename Tile>
void run_item_of(const AttentionArgs& a, void* block, const AttentionUnit& unit, const AttentionUnit* next) {
  const int32_t item = unit.item;
  const int32_t head = unit.head;
  const KvPool& pool = *a.pool;
  const int32_t value_dim = pool.value_dim;
  const int64_t padded = round_up(value_dim, VL);
  TileScratch s;
  const int64_t carved = carve(&s, (uint8_t*)block, a.plan.q_tile, pool.key_dim, value_dim);
  const int32_t count = load_queries(s, a, item, head);
  Tile tile_kernel(s, pool, a.softcap, count, (uint8_t*)block + carved);
  const int32_t row = a.plan.item_row[item];
  const HeadPages pages = pages_of(a, unit);
  const HeadPages next_pages = pages_of(a, next == nullptr ? unit : *next);

  const int32_t kv_end = a.plan.item_kv_end[item];
  for (int64_t chunk = a.plan.item_kv_start[item]; chunk < kv_end; chunk += a.plan.kv_chunk) {
    const int32_t chunk_end = chunk + a.plan.kv_chunk < kv_end ? (int32_t)chunk + a.plan.kv_chunk : kv_end;
    begin_chunk(s, count, padded, (int32_t)chunk, chunk_end);
    Ahead ahead{nullptr, 0, 0};
    if (chunk_end < kv_end)
      ahead = {&pages, chunk_end, kv_end};
    else if (next != nullptr && first_key(a, *next) < a.plan.item_kv_end[next->item])
      ahead = {&next_pages, first_key(a, *next), a.plan.item_kv_end[next->item]};
    run_chunk(tile_kernel, s, pages, count, ahead);
    for (int32_t i = 0; i < count; i++)
      fold(s.total_out + i * padded, s.total_maxima[i], s.total_sums[i], s.out + i * padded, s.maxima[i],
           v_hsum(v_load(s.sums + int64_t{i} * VL)), value_dim);
  }

  const int32_t group = a.num_heads / pool.num_kv_heads;
  const int32_t partial = a.plan.item_partial[item];
  for (int32_t i = 0; i < count; i++) {
    const float* o = s.total_out + i * padded;
    if (partial >= 0) {
      const int64_t at = (int64_t{partial} * pool.num_kv_heads + head) * a.plan.q_tile + i;
      memcpy(a.partial_o + at * value_dim, o, sizeof(float) * value_dim);
      a.partial_md[2 * at] = s.total_maxima[i];
      a.partial_md[2 * at + 1] = s.total_sums[i];
    } else {
      const int32_t packed = a.plan.item_q_start[item] + i;
      const int64_t query_head = int64_t{head} * group + packed % group;
      float* out = a.out + (a.batch.qo_indptr[row] + packed / group) * a.out_stride + query_head * value_dim;
      finish_row(out, value_dim, o, s.total_maxima[i], s.total_sums[i], a.sinks == nullptr ? nullptr : a.sinks + query_head);
    }
  }
}

}  // namespace
}  // namespace PG_NS
}  // namespace pg
