// The run of attention: checks the step's integers against the pool, then hands (item, kv head) pairs to the workers, then the
// merges of split items. Costly items first, so that the workers end together.
#include "attention.h"

#include <algorithm>

#include "context.h"

namespace pg {
namespace {

// The plan workspace: seven counts, then the arrays back to back (src/device/cpu/staged-plan.ts writes it).
PlanView read_plan(const int32_t* plan) {
  PlanView view;
  view.window = plan[0];
  view.group_size = plan[1];
  view.q_tile = plan[2];
  view.kv_chunk = plan[3];
  view.num_items = plan[4];
  view.num_partials = plan[5];
  view.num_merges = plan[6];
  const int32_t* at = plan + kPlanHeader;
  const auto take = [&at](int32_t count) {
    const int32_t* array = at;
    at += count;
    return array;
  };
  view.item_row = take(view.num_items);
  view.item_q_start = take(view.num_items);
  view.item_kv_start = take(view.num_items);
  view.item_kv_end = take(view.num_items);
  view.item_partial = take(view.num_items);
  view.item_valid = take(view.num_items);
  view.merge_row = take(view.num_merges);
  view.merge_q_start = take(view.num_merges);
  view.merge_partial = take(view.num_merges);
  view.merge_count = take(view.num_merges);
  return view;
}

// What is wrong with the step's integers, or null. Cheap beside the run; it keeps a wrong page or row from reading wild memory.
const char* check(const AttentionArgs& a) {
  const BatchView& b = a.batch;
  const PlanView& p = a.plan;
  const KvPool& pool = *a.pool;
  if (a.layer < 0 || a.layer >= pool.num_layers) return "the layer is outside the pool";
  if (a.num_heads < 1 || a.num_heads != p.group_size * pool.num_kv_heads) return "heads and groups do not fit the pool";
  if (p.q_tile < 1 || p.kv_chunk < 1 || p.num_items < 0 || p.num_partials < 0 || p.num_merges < 0) return "the plan is broken";
  if (b.num_rows < 0 || b.qo_indptr[0] != 0 || b.kv_indptr[0] != 0) return "the batch is broken";
  for (int32_t r = 0; r < b.num_rows; r++)
    if (b.qo_indptr[r + 1] < b.qo_indptr[r] || b.kv_indptr[r + 1] < b.kv_indptr[r]) return "the batch is broken";
  if (b.qo_indptr[b.num_rows] > b.num_tokens) return "the batch has more tokens than it says";
  const int32_t num_indices = b.kv_indptr[b.num_rows];
  for (int32_t i = 0; i < num_indices; i++)
    if (b.kv_indices[i] < 0 || b.kv_indices[i] >= pool.num_pages) return "a page is outside the pool";
  for (int32_t i = 0; i < p.num_items; i++) {
    if (p.item_valid[i] == 0) continue;
    const int32_t row = p.item_row[i];
    if (row < 0 || row >= b.num_rows || p.item_partial[i] >= p.num_partials) return "a work item is outside the batch";
    const int64_t packed = int64_t{b.qo_indptr[row + 1] - b.qo_indptr[row]} * p.group_size;
    const int64_t keys = int64_t{b.kv_indptr[row + 1] - b.kv_indptr[row]} * pool.page_size;
    if (p.item_q_start[i] < 0 || p.item_q_start[i] >= packed) return "a work item is outside its row";
    if (p.item_kv_start[i] < 0 || p.item_kv_end[i] > keys) return "a work item reads keys that its row does not have";
  }
  for (int32_t i = 0; i < p.num_merges; i++) {
    if (p.merge_count[i] == 0) continue;
    const int32_t row = p.merge_row[i];
    if (row < 0 || row >= b.num_rows || p.merge_q_start[i] < 0) return "a merge is outside the batch";
    if (p.merge_partial[i] < 0 || int64_t{p.merge_partial[i]} + p.merge_count[i] > p.num_partials)
      return "a merge reads partials that no item writes";
  }
  return nullptr;
}

}  // namespace
}  // namespace pg

using namespace pg;

extern "C" int32_t pg_attention(void* handle, float* out, int64_t out_stride, const float* q, int64_t q_stride, const void* pool,
                                int32_t layer, int32_t num_heads, float scale, float softcap, const float* sinks,
                                int32_t num_tokens, int32_t num_rows, const int32_t* positions, const int32_t* qo_indptr,
                                const int32_t* kv_indptr, const int32_t* kv_indices, const int32_t* plan) {
  Context* context = as_context(handle);
  AttentionArgs args{out,     out_stride, q,     q_stride, as_pool(pool), layer, num_heads, scale,
                     softcap, sinks,      {},    {},       nullptr,       nullptr};
  args.batch = {num_rows, num_tokens, positions, qo_indptr, kv_indptr, kv_indices};
  args.plan = read_plan(plan);
  if (const char* wrong = check(args)) return fail(context, PG_E_ARGUMENT, "attention: %s", wrong);

  const AttentionKernels& kernels = *context->kernels->attention;
  const int32_t heads = args.pool->num_kv_heads;
  const int64_t per_worker = kernels.scratch_bytes(args.plan.q_tile, args.pool->key_dim, args.pool->value_dim);
  const int64_t partial_rows = int64_t{args.plan.num_partials} * heads * args.plan.q_tile;
  if (!context->attention_scratch.reserve(per_worker * context->pool.size()) ||
      !context->attention_partials.reserve(partial_rows * (args.pool->value_dim + 2) * int64_t{sizeof(float)}))
    return fail(context, PG_E_MEMORY, "attention: no memory for tiles of %d rows", args.plan.q_tile);
  uint8_t* scratch = context->attention_scratch.data();
  args.partial_o = reinterpret_cast<float*>(context->attention_partials.data());
  args.partial_md = args.partial_o + partial_rows * args.pool->value_dim;

  // Later tiles of a prompt see more keys: begin with them. Workers take runs of units, so that each knows what it needs next.
  const auto unit_at = [&](int64_t i) {
    return AttentionUnit{args.plan.num_items - 1 - static_cast<int32_t>(i / heads), static_cast<int32_t>(i % heads)};
  };
  const int64_t units = int64_t{args.plan.num_items} * heads;
  const int64_t per_run = std::clamp<int64_t>(units / (8 * context->pool.size()), 1, 8);
  parallel_for(context->pool, (units + per_run - 1) / per_run, [&](int64_t run, int32_t worker) {
    const int64_t end = std::min(units, (run + 1) * per_run);
    for (int64_t i = run * per_run; i < end; i++) {
      const AttentionUnit unit = unit_at(i);
      if (args.plan.item_valid[unit.item] == 0) continue;
      const AttentionUnit next = i + 1 < end ? unit_at(i + 1) : unit;
      const bool is_known = i + 1 < end && args.plan.item_valid[next.item] != 0;
      kernels.run_item(args, scratch + per_worker * worker, unit, is_known ? &next : nullptr);
    }
  });
  parallel_for(context->pool, int64_t{args.plan.num_merges} * heads, [&](int64_t unit, int32_t) {
    const int32_t merge = static_cast<int32_t>(unit / heads);
    if (args.plan.merge_count[merge] != 0) kernels.run_merge(args, merge, static_cast<int32_t>(unit % heads));
  });
  return PG_OK;
}
