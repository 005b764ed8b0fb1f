#include "step.h"

#include <algorithm>
#include <new>

#include "context.h"

namespace pg {
namespace {

// Beyond any model.
constexpr int32_t kMostGroups = 64;
constexpr int32_t kMostPlans = 256;

// Takes arrays off the block one after the other; a count that does not fit the rest empties it.
class Reader {
 public:
  Reader(const int32_t* at, int64_t left) : at_(at), left_(left) {}
  bool ok() const { return ok_; }
  const int32_t* take(int64_t count) {
    if (count < 0 || count > left_) ok_ = false;
    if (!ok_) return nullptr;
    const int32_t* array = at_;
    at_ += count;
    left_ -= count;
    return array;
  }
  int32_t next() {
    const int32_t* value = take(1);
    return value == nullptr ? 0 : *value;
  }

 private:
  const int32_t* at_;
  int64_t left_;
  bool ok_ = true;
};

bool is_indptr(const int32_t* indptr, int32_t rows, int32_t total) {
  if (indptr[0] != 0 || indptr[rows] != total) return false;
  for (int32_t r = 0; r < rows; r++)
    if (indptr[r + 1] < indptr[r]) return false;
  return true;
}

const char* read_group(StepGroup& group, Reader& reader, const Step& step) {
  const int32_t num_indices = reader.next();
  group.slots = reader.take(step.num_tokens);
  group.kv_indptr = reader.take(step.num_rows + 1);
  group.kv_indices = reader.take(num_indices);
  if (!reader.ok()) return "the block is too short";
  if (!is_indptr(group.kv_indptr, step.num_rows, num_indices)) return "a page table is broken";
  int32_t last_slot = 0;
  int32_t last_page = 0;
  for (int32_t t = 0; t < step.num_tokens; t++) {
    if (group.slots[t] < 0) return "a slot is negative";
    last_slot = std::max(last_slot, group.slots[t]);
  }
  for (int32_t i = 0; i < num_indices; i++) {
    if (group.kv_indices[i] < 0) return "a page is negative";
    last_page = std::max(last_page, group.kv_indices[i]);
  }
  const int32_t end = std::max(last_page, last_slot / step.page_size);
  if (end == INT32_MAX) return "a page is outside any pool";
  group.end_page = end + 1;
  return nullptr;
}

const char* read_plan(PlanView& p, Reader& reader, const Step& step) {
  p.group = reader.next();
  p.window = reader.next();
  p.attention_chunk = reader.next();
  p.most_ahead = reader.next();
  p.group_size = reader.next();
  p.q_tile = reader.next();
  p.kv_chunk = reader.next();
  p.num_items = reader.next();
  p.num_partials = reader.next();
  p.num_merges = reader.next();
  p.item_row = reader.take(p.num_items);
  p.item_q_start = reader.take(p.num_items);
  p.item_kv_start = reader.take(p.num_items);
  p.item_kv_end = reader.take(p.num_items);
  p.item_partial = reader.take(p.num_items);
  p.item_valid = reader.take(p.num_items);
  p.merge_row = reader.take(p.num_merges);
  p.merge_q_start = reader.take(p.num_merges);
  p.merge_partial = reader.take(p.num_merges);
  p.merge_count = reader.take(p.num_merges);
  if (!reader.ok()) return "the block is too short";
  if (p.group < 0 || p.group >= static_cast<int32_t>(step.groups.size())) return "a plan is of a group that the step lacks";
  if (p.group_size < 1 || p.q_tile < 1 || p.kv_chunk < 1 || p.num_partials < 0 || p.window < 0 || p.attention_chunk < 0 ||
      p.most_ahead < 1)
    return "a plan is broken";
  const StepGroup& group = step.groups[static_cast<size_t>(p.group)];
  for (int32_t i = 0; i < p.num_items; i++) {
    if (p.item_valid[i] == 0) continue;
    const int32_t row = p.item_row[i];
    if (row < 0 || row >= step.num_rows || p.item_partial[i] >= p.num_partials) return "a work item is outside the batch";
    const int64_t packed = int64_t{step.qo_indptr[row + 1] - step.qo_indptr[row]} * p.group_size;
    const int64_t keys = int64_t{group.kv_indptr[row + 1] - group.kv_indptr[row]} * step.page_size;
    if (p.item_q_start[i] < 0 || p.item_q_start[i] >= packed) return "a work item is outside its row";
    if (p.item_kv_start[i] < 0 || p.item_kv_end[i] > keys) return "a work item reads keys that its row does not have";
  }
  for (int32_t i = 0; i < p.num_merges; i++) {
    if (p.merge_count[i] == 0) continue;
    const int32_t row = p.merge_row[i];
    if (row < 0 || row >= step.num_rows || p.merge_q_start[i] < 0) return "a merge is outside the batch";
    if (p.merge_partial[i] < 0 || int64_t{p.merge_partial[i]} + p.merge_count[i] > p.num_partials)
      return "a merge reads partials that no item writes";
  }
  return nullptr;
}

const char* read_all(Step& s, int64_t count) {
  Reader reader(reinterpret_cast<const int32_t*>(s.ints.data()), count);
  s.num_tokens = reader.next();
  s.num_rows = reader.next();
  s.num_logit_rows = reader.next();
  s.page_size = reader.next();
  const int32_t num_groups = reader.next();
  const int32_t num_plans = reader.next();
  s.input_of = reader.take(s.num_tokens);
  s.positions = reader.take(s.num_tokens);
  s.visible_end = reader.take(s.num_tokens);
  s.type_of = reader.take(s.num_tokens);
  s.qo_indptr = reader.take(int64_t{s.num_rows} + 1);
  s.state_of = reader.take(s.num_rows);
  s.state_lens = reader.take(s.num_rows);
  s.logit_rows = reader.take(s.num_logit_rows);
  if (!reader.ok()) return "the block is too short";
  if (s.page_size < 1 || num_groups < 0 || num_groups > kMostGroups || num_plans < 0 || num_plans > kMostPlans)
    return "its counts are broken";
  if (s.num_rows > 0 && !is_indptr(s.qo_indptr, s.num_rows, s.num_tokens)) return "its rows are broken";
  for (int32_t t = 0; t < s.num_tokens; t++)
    if (s.positions[t] < 0) return "a position is negative";
  // Kernels cut tiles by the first and the last token of a run.
  for (int32_t r = 0; r < s.num_rows; r++)
    for (int32_t t = s.qo_indptr[r] + 1; t < s.qo_indptr[r + 1]; t++)
      if (s.visible_end[t] < s.visible_end[t - 1] || s.positions[t] < s.positions[t - 1])
        return "a token sees less than the one before it";
  for (int32_t i = 0; i < s.num_logit_rows; i++)
    if (s.logit_rows[i] < 0 || s.logit_rows[i] >= s.num_tokens) return "a logit row is outside the batch";
  s.groups.resize(static_cast<size_t>(num_groups));
  for (StepGroup& group : s.groups)
    if (const char* wrong = read_group(group, reader, s)) return wrong;
  s.plans.resize(static_cast<size_t>(num_plans));
  for (PlanView& plan : s.plans)
    if (const char* wrong = read_plan(plan, reader, s)) return wrong;
  return nullptr;
}

}  // namespace

void Step::clear() {
  num_tokens = num_rows = num_logit_rows = 0;
  groups.clear();
  plans.clear();
}

const char* Step::read(int64_t count) {
  clear();
  groups.reserve(kMostGroups);  // once: it is kept
  plans.reserve(kMostPlans);
  const char* wrong = read_all(*this, count);
  if (wrong != nullptr) clear();
  return wrong;
}

const StepGroup* find_group(Context* context, const Step& step, int32_t index, const KvPool& pool, const char* op) {
  if (index < 0 || index >= static_cast<int32_t>(step.groups.size())) {
    fail(context, PG_E_ARGUMENT, "%s: group %d of a step with %d", op, index, static_cast<int32_t>(step.groups.size()));
    return nullptr;
  }
  const StepGroup& group = step.groups[static_cast<size_t>(index)];
  if (step.page_size == pool.page_size && group.end_page <= pool.num_pages) return &group;
  fail(context, PG_E_ARGUMENT, "%s: page %d of %d slots, the pool has %d of %d", op, group.end_page - 1, step.page_size,
       pool.num_pages, pool.page_size);
  return nullptr;
}

}  // namespace pg

using namespace pg;

extern "C" {

int32_t pg_step_create(void* handle, uint64_t* out_step) {
  Context* context = as_context(handle);
  if (out_step == nullptr) return fail(context, PG_E_ARGUMENT, "step: nowhere to put it");
  Step* step = new (std::nothrow) Step;
  if (step == nullptr) return fail(context, PG_E_MEMORY, "step: no memory");
  *out_step = reinterpret_cast<uint64_t>(step);
  return PG_OK;
}

int32_t pg_step_free(void* handle) {
  delete static_cast<Step*>(handle);
  return PG_OK;
}

int32_t pg_step_reserve(void* handle, void* step, int64_t ints, uint64_t* out_address) {
  Context* context = as_context(handle);
  if (step == nullptr || ints < 1 || ints > INT64_MAX / 4 || out_address == nullptr)
    return fail(context, PG_E_ARGUMENT, "step: no block of %lld numbers", static_cast<long long>(ints));
  Step& s = *static_cast<Step*>(step);
  s.clear();  // nothing may point into the old block
  if (!s.ints.reserve(ints * int64_t{sizeof(int32_t)}))
    return fail(context, PG_E_MEMORY, "step: no memory for %lld numbers", static_cast<long long>(ints));
  *out_address = reinterpret_cast<uint64_t>(s.ints.data());
  return PG_OK;
}

int32_t pg_step_stage(void* handle, void* step, int64_t ints) {
  Context* context = as_context(handle);
  if (step == nullptr) return fail(context, PG_E_ARGUMENT, "step: there is none");
  Step& s = *static_cast<Step*>(step);
  if (ints < 0 || ints * int64_t{sizeof(int32_t)} > s.ints.bytes())
    return fail(context, PG_E_ARGUMENT, "step: %lld numbers were not reserved", static_cast<long long>(ints));
  return guarded(context, "step", [&] {
    const char* wrong = s.read(ints);
    return wrong == nullptr ? PG_OK : fail(context, PG_E_ARGUMENT, "step: %s", wrong);
  });
}

}  // extern "C"
