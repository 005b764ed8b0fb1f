// Attention of one work item (a tile of packed query rows over a chunk of keys) for one kv head, and the merge of split items.
//
//   out[i] = sum_j softmax_j(scale * q_i . k_j [softcap]) v_j     over keys j of the row's pages with
//   pos_i - window < j <= pos_i,  a sink adds one more term to the denominator.
//
// Tiling: chunks of kv_chunk keys (absolute multiples), each summed from an empty state and folded into the running one, as
// src/core/attention-plan.ts prescribes; in a chunk, tiles of 64 keys at absolute positions; packed rows (token, head in group) share each tile, so a page is read once
// for all heads of a group. Per tile: keys are transposed to [D, 64] f32 in scratch (a decode row pays for that with
// one pass over memory it had to read anyway), scores for kRows rows at a time come from registers, softmax is online in base 2,
// and probabilities meet the values straight from the page, or from an f32 copy of them when many rows share it.
// Traffic per tile: 64 (D + Dv) elements of the pool once; everything else stays in L1/L2 scratch.
// Flops per row and tile: 2 * 64 * (D + Dv) plus 64 exp2.
//
// The scalar twin is attention of src/device/reference; attention-tile.h says why results do not depend on the tiling.
#include "../attention.h"
#include "attention-tile.h"

namespace pg {
namespace PG_NS {
namespace {

// From this many rows on, values are converted to f32 once per tile rather than once per kRows rows.
constexpr int kCopyValuesFrom = 2 * kRows + 1;

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// One worker's scratch, carved from one block.
struct TileScratch {
  float* keys;          // [D, kTileKeys] transposed
  float* values;        // [kTileKeys, DvPad] f32
  float* q;             // [q_tile, D] scaled
  float* out;           // [q_tile, DvPad] of the chunk, unnormalised
  float* sums;          // [q_tile, VL] its denominators by lane
  float* maxima;        // [q_tile] its running maxima
  float* total_out;     // [q_tile, DvPad] the fold of the chunks so far
  float* total_sums;    // [q_tile]
  float* total_maxima;  // [q_tile]
  float* scores;        // [kRows, kTileKeys]
  float* key_scales;    // [kTileKeys]
  float* value_scales;  // [kTileKeys]
  int32_t* positions;   // [q_tile]
  int32_t* first;       // [q_tile] first visible key of the chunk
  int32_t* last;        // [q_tile] one past the last visible key of the chunk
  const uint8_t** key_rows;    // [kTileKeys]
  const uint8_t** value_rows;  // [kTileKeys]
};

int64_t carve(TileScratch* s, uint8_t* block, int32_t q_tile, int32_t key_dim, int32_t value_dim) {
  int64_t used = 0;
  const auto take = [&](auto*& pointer, int64_t count) {
    pointer = (__typeof__(+pointer))(block + used);
    used += round_up(count * (int64_t)sizeof(*pointer), 64);
  };
  const int64_t padded = round_up(value_dim, VL);
  take(s->keys, int64_t{key_dim} * kTileKeys);
  take(s->values, kTileKeys * padded);
  take(s->q, int64_t{q_tile} * key_dim);
  take(s->out, q_tile * padded);
  take(s->sums, int64_t{q_tile} * VL);
  take(s->maxima, q_tile);
  take(s->total_out, q_tile * padded);
  take(s->total_sums, q_tile);
  take(s->total_maxima, q_tile);
  take(s->scores, kRows * kTileKeys);
  take(s->key_scales, kTileKeys);
  take(s->value_scales, kTileKeys);
  take(s->positions, q_tile);
  take(s->first, q_tile);
  take(s->last, q_tile);
  take(s->key_rows, kTileKeys);
  take(s->value_rows, kTileKeys);
  return used;
}

int64_t scratch_bytes(int32_t q_tile, int32_t key_dim, int32_t value_dim) {
  TileScratch unused;
  return carve(&unused, nullptr, q_tile, key_dim, value_dim);
}

// The pages of one row as one head of one layer sees them.
struct HeadPages {
  const KvPool& pool;
  int32_t layer;
  int32_t head;
  const int32_t* pages;  // of the row

  // Pointers to the rows of keys [from, to) of the tile at `tile`; slots of the tile outside repeat the first of them, so that
  // whole vectors can be packed without touching memory that holds no key.
  void point(TileScratch& s, int32_t tile, int32_t from, int32_t to) const {
    const int32_t size = pool.page_size;
    const int64_t key_bytes = int64_t{pool.key_dim} * pool.element_bytes;
    const int64_t value_bytes = int64_t{pool.value_dim} * pool.element_bytes;
    for (int32_t at = from; at < to;) {
      const int32_t page = pages[at / size];
      const int32_t slot = at % size;
      const int32_t count = i_min(size - slot, to - at);
      const uint8_t* key = pool.keys(page, layer, head) + slot * key_bytes;
      const uint8_t* value = pool.values(page, layer, head) + slot * value_bytes;
      const int32_t j = at - tile;
      for (int32_t i = 0; i < count; i++) {
        s.key_rows[j + i] = key + i * key_bytes;
        s.value_rows[j + i] = value + i * value_bytes;
      }
      if (pool.dtype == KvDtype::i8) {
        memcpy(s.key_scales + j, pool.scales(page, layer, 0, head) + slot, sizeof(float) * count);
        memcpy(s.value_scales + j, pool.scales(page, layer, 1, head) + slot, sizeof(float) * count);
      }
      at += count;
    }
    for (int32_t j = 0; j < kTileKeys; j++)
      if (j < from - tile || j >= to - tile) {
        s.key_rows[j] = s.key_rows[from - tile];
        s.value_rows[j] = s.value_rows[from - tile];
        s.key_scales[j] = s.key_scales[from - tile];
        s.value_scales[j] = s.value_scales[from - tile];
      }
  }

  // Asks for the tile that comes next, page by page: runs are too short for the hardware to foresee the jump.
  void prefetch(int32_t from, int32_t to) const {
    const int32_t size = pool.page_size;
    for (int32_t at = from; at < to;) {
      const int32_t page = pages[at / size];
      const int32_t slot = at % size;
      const int32_t count = i_min(size - slot, to - at);
      prefetch_run(pool.keys(page, layer, head), slot, count, pool.key_dim * pool.element_bytes);
      prefetch_run(pool.values(page, layer, head), slot, count, pool.value_dim * pool.element_bytes);
      at += count;
    }
  }
  static void prefetch_run(const uint8_t* base, int32_t slot, int32_t count, int32_t row_bytes) {
    const uint8_t* end = base + int64_t{slot + count} * row_bytes;
    for (const uint8_t* p = base + int64_t{slot} * row_bytes; p < end; p += 64) __builtin_prefetch(p, 0, 3);
  }
};

// Turns an unnormalised state into the output row: the sink joins the denominator, a row that saw no key gives zeros.
void finish_row(float* out, int32_t dim, const float* o, float m, float d, const float* sink) {
  float factor = 0.0f;
  if (d > 0.0f) {
    factor = 1.0f / d;
    if (sink != nullptr) {
      const float s = *sink * kLog2e;
      const float top = s > m ? s : m;
      const float shrink = v_lane0(v_exp2(v_set(m - top)));
      factor = shrink / (d * shrink + v_lane0(v_exp2(v_set(s - top))));
    }
  } else if (d != d) {
    factor = d;  // NaN in, NaN out
  }
  each_step(dim, [&](int64_t i, int lanes) { v_store_some(out + i, v_load_some(o + i, lanes) * v_set(factor), lanes); });
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
  // With a cap, scores come out as score / cap; without, in base 2.
  const vf factor = v_set(a.softcap != 0.0f ? a.scale / a.softcap : a.scale * kLog2e);
  for (int32_t i = 0; i < count; i++) {
    const int32_t token = token0 + (start + i) / group;
    const int32_t in_group = (start + i) % group;
    const float* q = a.q + token * a.q_stride + (int64_t{head} * group + in_group) * dim;
    float* to = s.q + int64_t{i} * dim;
    each_step(dim, [&](int64_t d, int lanes) { v_store_some(to + d, v_load_some(q + d, lanes) * factor, lanes); });
    s.positions[i] = a.batch.positions[token];
    s.total_sums[i] = 0.0f;
    s.total_maxima[i] = kMinusInfinity;
  }
  memset(s.total_out, 0, sizeof(float) * count * round_up(a.pool->value_dim, VL));
  return count;
}

// Empty states, and what each row sees of the keys [from, to). Both bounds grow with the row.
void begin_chunk(TileScratch& s, int32_t count, int64_t padded, int32_t window, int32_t from, int32_t to) {
  for (int32_t i = 0; i < count; i++) {
    const int32_t earliest = window > 0 ? s.positions[i] - window + 1 : 0;
    s.first[i] = i_max(earliest, from);
    s.last[i] = i_min(s.positions[i] + 1, to);
    s.maxima[i] = kMinusInfinity;
  }
  memset(s.out, 0, sizeof(float) * count * padded);
  memset(s.sums, 0, sizeof(float) * count * VL);
}

// (o, m, d) += (next_o, next_m, next_d), the later keys on the right. Folding an empty state changes nothing, not even the
// sign of a zero, so a row gets the same bits however many chunks its tile spans.
void fold(float* o, float& m, float& d, const float* next_o, float next_m, float next_d, int32_t dim) {
  if (next_d == 0.0f) return;
  if (d == 0.0f) {
    memcpy(o, next_o, sizeof(float) * dim);
    m = next_m;
    d = next_d;
    return;
  }
  const float top = next_m > m ? next_m : m;
  const vf keep = v_exp2(v_set(m - top));
  const vf join = v_exp2(v_set(next_m - top));
  each_step(dim, [&](int64_t i, int lanes) {
    v_store_some(o + i, v_madd(v_load_some(next_o + i, lanes), join, v_load_some(o + i, lanes) * keep), lanes);
  });
  d = s_madd(next_d, v_lane0(join), d * v_lane0(keep));
  m = top;
}

// Probabilities meet values. Keys that some of the rows see and others do not are added row by row, so that what a row may
// not see never enters its sum, not even times zero.
template <typename B>
void add_values(TileScratch& s, int32_t row, int rows, int32_t tile, int steps, const B& values) {
  const int64_t padded = int64_t{steps} * VL;
  float* out = s.out + row * padded;
  int common_first = 0;
  int common_last = kTileKeys;
  for (int r = 0; r < rows; r++) {
    common_first = i_max(common_first, s.first[row + r] - tile);
    common_last = i_min(common_last, s.last[row + r] - tile);
  }
  const bool overlap = common_first < common_last;
  for (int r = 0; r < rows; r++) {
    const int from = i_max(0, s.first[row + r] - tile);
    const int to = overlap ? common_first : i_min(kTileKeys, s.last[row + r] - tile);
    if (from < to)
      multiply_block<false>(1, 0, steps, out + r * padded, padded, s.scores + r * kTileKeys, kTileKeys, values, from, to);
  }
  if (!overlap) return;
  multiply_block<false>(rows, 0, steps, out, padded, s.scores, kTileKeys, values, common_first, common_last);
  for (int r = 0; r < rows; r++) {
    const int to = i_min(kTileKeys, s.last[row + r] - tile);
    if (common_last < to)
      multiply_block<false>(1, 0, steps, out + r * padded, padded, s.scores + r * kTileKeys, kTileKeys, values, common_last, to);
  }
}

template <typename Row>
void run_tile(TileScratch& s, const KvPool& pool, const SoftmaxStep& softmax, int32_t tile, int32_t from, int32_t to,
              int32_t row_begin, int32_t row_end) {
  const int32_t dim = pool.key_dim;
  const int steps = static_cast<int>(round_up(pool.value_dim, VL) / VL);
  const int64_t padded = int64_t{steps} * VL;
  pack_keys<Row>(s.keys, s.key_rows, dim, from - tile, to - tile);
  const bool copied = Row::bytes < 4 && row_end - row_begin >= kCopyValuesFrom;
  if (copied)
    for (int j = from - tile; j < to - tile; j++)
      for (int v = 0; v < steps; v++) v_store(s.values + j * padded + v * VL, Row::load(s.value_rows[j], v * VL));

  for (int32_t row = row_begin; row < row_end; row += kRows) {
    const int rows = i_min(kRows, row_end - row);
    // Both bounds grow with the row, so the block needs the keys from its first row's first to its last row's last.
    const int first = i_max(0, s.first[row] - tile);
    const int last = i_min(kTileKeys, s.last[row + rows - 1] - tile);
    multiply_block<true>(rows, first / VL, (last + VL - 1) / VL, s.scores, kTileKeys, s.q + int64_t{row} * dim, dim,
                         PackedB{s.keys, kTileKeys}, 0, dim);
    for (int r = 0; r < rows; r++)
      softmax.run(s.scores + r * kTileKeys, i_max(0, s.first[row + r] - tile), i_min(kTileKeys, s.last[row + r] - tile),
                  s.maxima[row + r], s.sums + int64_t{row + r} * VL, s.out + (row + r) * padded, steps);
    if (copied)
      add_values(s, row, rows, tile, steps, PackedB{s.values, padded});
    else
      add_values(s, row, rows, tile, steps, PagedB<Row>{s.value_rows});
  }
}

// All tiles of the chunk that begin_chunk laid out. kv_end: keys beyond the chunk that are worth asking for early.
template <typename Row>
void run_chunk(TileScratch& s, const HeadPages& pages, const SoftmaxStep& softmax, int32_t count, int32_t kv_end) {
  int32_t row_begin = 0;  // rows before it have all their keys behind the tile
  const int32_t end = s.last[count - 1];
  for (int32_t tile = s.first[0] / kTileKeys * kTileKeys; tile < end; tile += kTileKeys) {
    while (row_begin < count && s.last[row_begin] <= i_max(tile, s.first[row_begin])) row_begin++;
    int32_t row_end = count;  // rows from it on have their window ahead of the tile
    while (row_end > row_begin && s.first[row_end - 1] >= tile + kTileKeys) row_end--;
    if (row_begin == row_end) continue;
    const int32_t from = i_max(tile, s.first[row_begin]);
    const int32_t to = i_min(tile + kTileKeys, s.last[row_end - 1]);
    pages.point(s, tile, from, to);
    pages.prefetch(to, i_min(to + kTileKeys, kv_end));
    run_tile<Row>(s, pages.pool, softmax, tile, from, to, row_begin, row_end);
  }
}

template <typename Row>
void run_item_of(const AttentionArgs& a, void* block, int32_t item, int32_t head) {
  const KvPool& pool = *a.pool;
  const int32_t value_dim = pool.value_dim;
  const int64_t padded = round_up(value_dim, VL);
  TileScratch s;
  carve(&s, (uint8_t*)block, a.plan.q_tile, pool.key_dim, value_dim);
  const int32_t count = load_queries(s, a, item, head);
  const int32_t row = a.plan.item_row[item];
  const HeadPages pages{pool, a.layer, head, a.batch.kv_indices + a.batch.kv_indptr[row]};
  const SoftmaxStep softmax{a.softcap, Row::scaled ? s.key_scales : nullptr, Row::scaled ? s.value_scales : nullptr};

  const int32_t kv_end = a.plan.item_kv_end[item];
  for (int64_t chunk = a.plan.item_kv_start[item]; chunk < kv_end; chunk += a.plan.kv_chunk) {
    const int32_t chunk_end = chunk + a.plan.kv_chunk < kv_end ? (int32_t)chunk + a.plan.kv_chunk : kv_end;
    begin_chunk(s, count, padded, a.plan.window, (int32_t)chunk, chunk_end);
    run_chunk<Row>(s, pages, softmax, count, kv_end);
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

void run_item(const AttentionArgs& a, void* scratch, int32_t item, int32_t head) {
  switch (a.pool->dtype) {
    case KvDtype::f32: return run_item_of<RowF32>(a, scratch, item, head);
    case KvDtype::f16: return run_item_of<RowF16>(a, scratch, item, head);
    case KvDtype::bf16: return run_item_of<RowBf16>(a, scratch, item, head);
    case KvDtype::i8: return run_item_of<RowI8>(a, scratch, item, head);
  }
}

// Joins the partial states of a tile in ascending KV order.
void run_merge(const AttentionArgs& a, int32_t merge, int32_t head) {
  const KvPool& pool = *a.pool;
  const int32_t row = a.plan.merge_row[merge];
  const int32_t start = a.plan.merge_q_start[merge];
  const int32_t group = a.num_heads / pool.num_kv_heads;
  const int32_t packed = (a.batch.qo_indptr[row + 1] - a.batch.qo_indptr[row]) * group;
  const int32_t value_dim = pool.value_dim;
  for (int32_t i = 0; i < i_min(a.plan.q_tile, packed - start); i++) {
    const int64_t query_head = int64_t{head} * group + (start + i) % group;
    float* out = a.out + (a.batch.qo_indptr[row] + (start + i) / group) * a.out_stride + query_head * value_dim;
    float m = kMinusInfinity;
    float d = 0.0f;
    memset(out, 0, sizeof(float) * value_dim);
    for (int32_t k = 0; k < a.plan.merge_count[merge]; k++) {
      const int64_t at = (int64_t{a.plan.merge_partial[merge] + k} * pool.num_kv_heads + head) * a.plan.q_tile + i;
      fold(out, m, d, a.partial_o + at * value_dim, a.partial_md[2 * at], a.partial_md[2 * at + 1], value_dim);
    }
    finish_row(out, value_dim, out, m, d, a.sinks == nullptr ? nullptr : a.sinks + query_head);
  }
}

}  // namespace

extern const AttentionKernels attention_kernels;
const AttentionKernels attention_kernels = {scratch_bytes, run_item, run_merge};

}  // namespace PG_NS
}  // namespace pg
