// The staged step: the batch's columns and its attention plans in one block of int32 that the host writes and pg_step_stage
// checks, once per step. Ops trust it after that and compare with a pool or a table what only they can know.
//
//   [num_tokens, num_rows, num_logit_rows, page_size, num_groups, num_plans]
//   input_of[T] positions[T] visible_end[T] type_of[T] qo_indptr[R+1] state_of[R] state_lens[R] logit_rows[num_logit_rows]
//   each group:  [num_indices] slots[T] kv_indptr[R+1] kv_indices[num_indices]
//   each plan:   [group, window, attention_chunk, most_ahead, group_size, q_tile, kv_chunk, num_items, num_partials, num_merges]
//                item_row item_q_start item_kv_start item_kv_end item_partial item_valid   [num_items] each
//                merge_row merge_q_start merge_partial merge_count                         [num_merges] each
//
// What the columns mean: src/core/batch.ts, src/core/attention-plan.ts. src/device/cpu/staged-batch.ts writes the block.
#pragma once
#include <cstdint>
#include <vector>

#include "attention.h"
#include "scratch.h"

namespace pg {

// One cache group: where the new tokens go, and the page table.
struct StepGroup {
  const int32_t* slots;       // [T]
  const int32_t* kv_indptr;   // [R+1] in pages
  const int32_t* kv_indices;  // [kv_indptr[R]]
  int32_t end_page;           // no slot or page table entry is at or beyond it
};

struct Step {
  int32_t num_tokens = 0;      // T
  int32_t num_rows = 0;        // R
  int32_t num_logit_rows = 0;
  int32_t page_size = 0;
  const int32_t* input_of = nullptr;     // [T]
  const int32_t* positions = nullptr;    // [T]
  const int32_t* visible_end = nullptr;  // [T]
  const int32_t* type_of = nullptr;      // [T]
  const int32_t* qo_indptr = nullptr;    // [R+1]
  const int32_t* state_of = nullptr;     // [R]
  const int32_t* state_lens = nullptr;   // [R]
  const int32_t* logit_rows = nullptr;   // [num_logit_rows]
  std::vector<StepGroup> groups;
  std::vector<PlanView> plans;
  Scratch ints;

  // What is wrong with the first `count` int32 of the block, or null; fills everything above. A step with a fault is empty.
  const char* read(int64_t count);
  void clear();
};

struct Context;
// The step's group for use with a pool: null, and the failure of `op` recorded, when they do not fit together.
const StepGroup* find_group(Context* context, const Step& step, int32_t index, const KvPool& pool, const char* op);

inline const Step* as_step(const void* handle) { return static_cast<const Step*>(handle); }

}  // namespace pg
