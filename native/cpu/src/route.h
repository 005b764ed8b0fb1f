// Router logits of one token -> experts, best first, and their weights. Twin: route() of src/device/reference/moe.ts.
#pragma once
#include <cstdint>

namespace pg {

// Order of RouterSpec.score in src/device/cpu/codes.ts.
enum class RouterScore : int32_t { softmax = 0, softmax_topk = 1, sigmoid = 2 };

constexpr int32_t kMaxGroups = 64;

struct Router {
  int32_t num_experts;  // E
  int32_t top_k;
  RouterScore score;
  int32_t normalize;
  float scale;
  const float* bias;  // [E], for the choice alone; or null
  const float* expert_scale;  // [E], multiplies the weights; or null
  int32_t num_groups;
  int32_t topk_group;
  int32_t group_best;  // a group is as good as the sum of this many of its best: 1 or 2
};

// ids, weights: [top_k]; work: [2 * E] doubles. The ids are different from each other whatever the logits are, which is what bounds the rows
// of an expert; in the choice NaN counts as -infinity, and ties go to the lower expert id.
void route(int32_t* ids, float* weights, const float* logits, const Router& router, double* work);

}  // namespace pg
