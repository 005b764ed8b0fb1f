// The run of attention: hands (item, kv head) pairs to the workers, then the merges of split items. Costly items first, so that
// the workers end together.
#include "attention.h"

#include <algorithm>

#include "context.h"
#include "step.h"

namespace pg {
namespace {

// What is wrong with the call, or null. The step itself was checked when it was staged.
const char* check(const AttentionArgs& a) {
  if (a.layer < 0 || a.layer >= a.pool->num_layers) return "the layer is outside the pool";
  if (a.num_heads < 1 || a.num_heads != a.plan.group_size * a.pool->num_kv_heads) return "heads and groups do not fit the pool";
  return nullptr;
}

}  // namespace
}  // namespace pg

using namespace pg;

extern "C" int32_t pg_attention(void* handle, float* out, int64_t out_stride, const float* q, int64_t q_stride, const void* step,
                                int32_t group, int32_t plan, const void* pool, int32_t layer, int32_t num_heads, float scale,
                                float softcap, const float* sinks) {
  Context* context = as_context(handle);
  const Step& s = *as_step(step);
  const StepGroup* table = find_group(context, s, group, *as_pool(pool), "attention");
  if (table == nullptr) return PG_E_ARGUMENT;
  if (plan < 0 || plan >= static_cast<int32_t>(s.plans.size()) || s.plans[static_cast<size_t>(plan)].group != group)
    return fail(context, PG_E_ARGUMENT, "attention: the step has no plan %d of group %d", plan, group);
  AttentionArgs args{out,     out_stride, q,  q_stride, as_pool(pool), layer, num_heads, scale,
                     softcap, sinks,      {}, {},       nullptr,       nullptr};
  args.batch = {s.positions, s.visible_end, s.qo_indptr, table->kv_indptr, table->kv_indices};
  args.plan = s.plans[static_cast<size_t>(plan)];
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
  const int64_t runs = (units + per_run - 1) / per_run;
  // Runs are dealt out like cards, the costly ones first: what a worker owns (pool.h) costs about the same for all.
  const int64_t workers = context->pool.size(), each = (runs + workers - 1) / workers;
  parallel_for(context->pool, each * workers, [&](int64_t chunk, int32_t worker) {
    const int64_t run = chunk % each * workers + chunk / each;
    const int64_t end = std::min(units, (run + 1) * per_run);
    // After its last unit comes the first of the worker's next run, unless somebody helps with that.
    const int64_t following = chunk % each + 1 < each ? std::min(units, (run + workers) * per_run) : units;
    for (int64_t i = run * per_run; i < end; i++) {
      const AttentionUnit unit = unit_at(i);
      if (args.plan.item_valid[unit.item] == 0) continue;
      const int64_t after = i + 1 < end ? i + 1 : following;
      const AttentionUnit next = after < units ? unit_at(after) : unit;
      const bool is_known = after < units && args.plan.item_valid[next.item] != 0;
      kernels.run_item(args, scratch + per_worker * worker, unit, is_known ? &next : nullptr);
    }
  });
  parallel_for(context->pool, int64_t{args.plan.num_merges} * heads, [&](int64_t unit, int32_t) {
    const int32_t merge = static_cast<int32_t>(unit / heads);
    if (args.plan.merge_count[merge] != 0) kernels.run_merge(args, merge, static_cast<int32_t>(unit % heads));
  });
  return PG_OK;
}
