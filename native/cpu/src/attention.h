// What the attention kernels of every instruction set are given: columns of the staged step, one layer of the pool, the plan.
#pragma once
#include <cstdint>

#include "kv-pool.h"

namespace pg {

// The columns of a step that attention reads.
struct BatchView {
  const int32_t* positions;    // [T]
  const int32_t* visible_end;  // [T] the first key a token may not see
  const int32_t* qo_indptr;    // [R+1]
  const int32_t* kv_indptr;    // [R+1] in pages
  const int32_t* kv_indices;   // [kv_indptr[R]]
};

// A staged plan (src/core/attention-plan.ts says what each array means).
struct PlanView {
  int32_t group;
  int32_t window;           // 0: none
  int32_t attention_chunk;  // 0: none
  int32_t most_ahead;       // most keys from its own on that a token sees
  int32_t group_size;
  int32_t q_tile;
  int32_t kv_chunk;
  int32_t num_items;
  int32_t num_partials;
  int32_t num_merges;
  const int32_t* item_row;       // [num_items]
  const int32_t* item_q_start;   // [num_items]
  const int32_t* item_kv_start;  // [num_items]
  const int32_t* item_kv_end;    // [num_items]
  const int32_t* item_partial;   // [num_items] -1: direct
  const int32_t* item_valid;     // [num_items] 0: padding
  const int32_t* merge_row;      // [num_merges]
  const int32_t* merge_q_start;  // [num_merges]
  const int32_t* merge_partial;  // [num_merges]
  const int32_t* merge_count;    // [num_merges]

  // The first key that the token at `position` sees.
  PG_MEMBER int32_t visible_start(int32_t position) const {
    if (window > 0) return position < window ? 0 : position - window + 1;
    return attention_chunk > 0 ? position - position % attention_chunk : 0;
  }

  // The first key that it does not see any more; `end` is what the batch says.
  PG_MEMBER int32_t visible_end(int32_t position, int32_t end) const {
    return end - position > most_ahead ? position + most_ahead : end;
  }
};

struct AttentionArgs {
  float* out;  // [T, H*Dv]
  int64_t out_stride;
  const float* q;  // [T, H*D]
  int64_t q_stride;
  const KvPool* pool;
  int32_t layer;
  int32_t num_heads;  // H
  float scale;
  float softcap;       // 0: off
  const float* sinks;  // [H] or null
  BatchView batch;
  PlanView plan;
  float* partial_o;   // [num_partials, K, q_tile, Dv]
  float* partial_md;  // [num_partials, K, q_tile, 2]: max (base 2), denominator
};

// What a worker runs at a time: one work item for one kv head.
struct AttentionUnit {
  int32_t item;
  int32_t head;
};

struct AttentionKernels {
  // Bytes of scratch one worker needs for tiles of q_tile rows.
  int64_t (*scratch_bytes)(int32_t q_tile, int32_t key_dim, int32_t value_dim);
  // next: what the same worker runs after it, or null; its first keys are prefetched.
  void (*run_item)(const AttentionArgs& args, void* scratch, const AttentionUnit& unit, const AttentionUnit* next);
  // One merge entry for one kv head.
  void (*run_merge)(const AttentionArgs& args, int32_t merge, int32_t head);
};

}  // namespace pg
