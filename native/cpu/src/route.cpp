#include "route.h"

#include <cmath>

namespace pg {
namespace {

void softmax(double* values, int32_t count) {
  double max = values[0];
  for (int32_t i = 1; i < count; i++) max = values[i] > max ? values[i] : max;
  double sum = 0;
  for (int32_t i = 0; i < count; i++) sum += values[i] = std::exp(values[i] - max);
  for (int32_t i = 0; i < count; i++) values[i] /= sum;
}

// What a value counts for in a choice: NaN, of which no comparison holds, and -infinity as less than any other, but more than an expert
// whose group is left out.
constexpr double kLeast = -1e300;
double comparable(double value) { return value > kLeast ? value : kLeast; }

// The index of the largest value that was not taken before (NaN marks those); ties to the lower one. There is always one: top_k is at most
// the number of experts, and of the values only this marks any.
int32_t take_best(double* values, int32_t count) {
  int32_t best = 0;
  for (int32_t i = 1; i < count; i++)
    if (values[i] > values[best] || (values[best] != values[best] && values[i] == values[i])) best = i;
  values[best] = NAN;
  return best;
}

// A group is as good as its best, or the sum of its two best; the experts of the groups left out cannot be chosen.
void keep_best_groups(double* choice, const Router& router) {
  const int32_t size = router.num_experts / router.num_groups;
  const auto score_of = [&](int32_t group) {
    double first = -INFINITY, second = -INFINITY;
    for (int32_t i = group * size; i < (group + 1) * size; i++) {
      if (choice[i] > first) {
        second = first;
        first = choice[i];
      } else if (choice[i] > second) {
        second = choice[i];
      }
    }
    return size > 1 && router.group_best > 1 ? first + second : first;
  };
  // A group stays when fewer than topk_group others beat it; equal scores rank by number.
  bool kept[kMaxGroups];
  double scores[kMaxGroups];
  for (int32_t g = 0; g < router.num_groups; g++) scores[g] = score_of(g);
  for (int32_t g = 0; g < router.num_groups; g++) {
    int32_t better = 0;
    for (int32_t other = 0; other < router.num_groups; other++)
      if (scores[other] > scores[g] || (scores[other] == scores[g] && other < g)) better++;
    kept[g] = better < router.topk_group;
  }
  for (int32_t i = 0; i < router.num_experts; i++)
    if (!kept[i / size]) choice[i] = -INFINITY;
}

}  // namespace

void route(int32_t* ids, float* weights, const float* logits, const Router& router, double* work) {
  const int32_t num_experts = router.num_experts;
  double* scores = work;
  double* choice = work + num_experts;
  for (int32_t e = 0; e < num_experts; e++)
    scores[e] = router.score == RouterScore::sigmoid ? 1.0 / (1.0 + std::exp(-static_cast<double>(logits[e]))) : logits[e];
  if (router.score == RouterScore::softmax) softmax(scores, num_experts);
  for (int32_t e = 0; e < num_experts; e++) choice[e] = comparable(router.bias == nullptr ? scores[e] : scores[e] + router.bias[e]);
  if (router.num_groups > 1) keep_best_groups(choice, router);
  for (int32_t k = 0; k < router.top_k; k++) ids[k] = take_best(choice, num_experts);
  // The choice is made; its memory now holds the chosen scores.
  for (int32_t k = 0; k < router.top_k; k++) choice[k] = scores[ids[k]];
  if (router.score == RouterScore::softmax_topk) softmax(choice, router.top_k);
  double sum = 1.0;
  if (router.normalize != 0) {
    sum = 1e-20;  // all sigmoid scores may vanish
    for (int32_t k = 0; k < router.top_k; k++) sum += choice[k];
  }
  for (int32_t k = 0; k < router.top_k; k++) {
    const double own = router.expert_scale == nullptr ? 1.0 : static_cast<double>(router.expert_scale[ids[k]]);
    weights[k] = static_cast<float>(choice[k] / sum * (router.scale * own));
  }
}

}  // namespace pg
