// Attention of one work item (a tile of packed query rows over a chunk of keys) for one kv head, and the merge of split items.
//
//   out[i] = sum_j softmax_j(scale * q_i . k_j [softcap]) v_j     over keys j of the row's pages with
//   visible_start(pos_i) <= j < visible_end(pos_i),  a sink adds one more term to the denominator.
//
// Tiling: chunks of kv_chunk keys (absolute multiples), each summed from an empty state and folded into the running one, as
// src/core/attention-plan.ts prescribes; in a chunk, tiles of 64 keys at absolute positions. Packed rows (token, head in group)
// share each tile, so a page is read once for all heads of a group. Few rows (decode): scores and outputs come straight from the
// page, nothing is copied. Many rows (prefill): keys are transposed to [D, 64] f32 in scratch, values converted to f32, and register
// tiles run over both. Softmax is online in base 2.
// Traffic per tile: 64 (D + Dv) elements of the pool once; everything else stays in L1/L2 scratch.
// Flops per row and tile: 2 * 64 * (D + Dv) plus 64 exp2.
//
// The scalar twin is attention of src/device/reference; attention-tile.h says why results do not depend on the tiling.
#include "attention-item.h"
#include "attention-scores.h"

namespace pg {
namespace PG_NS {
namespace {

// From this many rows on, values are converted to f32 once per tile rather than once per kRows rows.
constexpr int kCopyValuesFrom = 2 * kRows + 1;

// Probabilities meet values. Keys that some of the rows see and others do not are added row by row, so that what a row may
// not see never enters its sum, not even times zero.
template <typename B>
void add_values(TileScratch& s, int32_t row, const float* scores, int rows, int32_t tile, int steps, const B& values) {
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
      multiply_block(1, 0, steps, out + r * padded, padded, scores + r * kTileKeys, kTileKeys, values, from, to);
  }
  if (!overlap) return;
  multiply_block(rows, 0, steps, out, padded, scores, kTileKeys, values, common_first, common_last);
  for (int r = 0; r < rows; r++) {
    const int to = i_min(kTileKeys, s.last[row + r] - tile);
    if (common_last < to)
      multiply_block(1, 0, steps, out + r * padded, padded, scores + r * kTileKeys, kTileKeys, values, common_last, to);
  }
}

// A tile by vector instructions, straight from the page or from copies in f32.
template <typename Row>
struct VectorTile {
  static constexpr bool scaled = Row::scaled;
  TileScratch& s;
  const KvPool& pool;
  const float softcap;
  VectorTile(TileScratch& scratch, const KvPool& pages, float cap, int32_t, uint8_t*) : s(scratch), pool(pages), softcap(cap) {}

  void run(const TileRows& rows_of_tile, const TileRows& next, int32_t tile, int32_t from, int32_t to, int32_t row_begin,
           int32_t row_end) {
    const SoftmaxStep softmax{softcap, Row::scaled ? rows_of_tile.key_scales : nullptr,
                              Row::scaled ? rows_of_tile.value_scales : nullptr};
    const int32_t dim = pool.key_dim;
    const int64_t q_stride = round_up(dim, VL);
    const int steps = (int)(round_up(pool.value_dim, VL) / VL);
    const int64_t padded = int64_t{steps} * VL;
    // Transposing pays when enough queries share it: a query costs some 40 shuffles per VL keys without, the tile 90 per VL dims.
    const bool packed = (row_end - row_begin) * 8 > dim;
    if (packed) pack_keys<Row>(s.keys, rows_of_tile.keys, dim, from - tile, to - tile);
    const bool copied = Row::bytes < 4 && row_end - row_begin >= kCopyValuesFrom;
    if (copied)
      for (int j = from - tile; j < to - tile; j++)
        for (int v = 0; v < steps; v++) v_store(s.values + j * padded + v * VL, Row::load(rows_of_tile.values[j], v * VL));

    for (int32_t row = row_begin; row < row_end; row += kGroupRows) {
      const int rows = i_min(kGroupRows, row_end - row);
      // Both bounds grow with the row, so the group needs the keys from its first row's first to its last row's last.
      const int first = i_max(0, s.first[row] - tile);
      const int last = i_min(kTileKeys, s.last[row + rows - 1] - tile);
      const float* q = s.q + row * q_stride;
      if (packed)
        score_packed_block(rows, first / VL, (last + VL - 1) / VL, s.scores, q, q_stride, s.keys, dim);
      else
        score_rows_block<Row>(rows, s.scores, q, q_stride, rows_of_tile.keys, next.keys, dim, first, last);
      for (int r = 0; r < rows; r++)
        softmax.run(s.scores + r * kTileKeys, i_max(0, s.first[row + r] - tile), i_min(kTileKeys, s.last[row + r] - tile),
                    s.maxima[row + r], s.sums + int64_t{row + r} * VL, s.out + (row + r) * padded, steps);
      for (int r = 0; r < rows; r += kRows) {
        const int block = i_min(kRows, rows - r);
        if (copied)
          add_values(s, row + r, s.scores + r * kTileKeys, block, tile, steps, PackedB{s.values, padded});
        else
          add_values(s, row + r, s.scores + r * kTileKeys, block, tile, steps, PagedB<Row>{rows_of_tile.values, next.values});
      }
    }
  }
};

void run_item(const AttentionArgs& a, void* scratch, const AttentionUnit& unit, const AttentionUnit* next) {
  switch (a.pool->dtype) {
    case KvDtype::f32: return run_item_of<VectorTile<RowF32>>(a, scratch, unit, next);
    case KvDtype::f16: return run_item_of<VectorTile<RowF16>>(a, scratch, unit, next);
    case KvDtype::bf16: return run_item_of<VectorTile<RowBf16>>(a, scratch, unit, next);
    case KvDtype::i8: return run_item_of<VectorTile<RowI8>>(a, scratch, unit, next);
    case KvDtype::fp8: return run_item_of<VectorTile<RowFp8>>(a, scratch, unit, next);
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
