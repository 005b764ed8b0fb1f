// The choice of one token per row of logits, without the vocabulary crossing to JavaScript. The rule is that of
// src/core/choose-token.ts, its twin; weights are f64 there and here, and may differ in the last bit.
#include "sample.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "context.h"

namespace pg {
namespace {

struct Rule {
  double temperature;
  int32_t top_k;  // 0: off
  double top_p;
  double min_p;
};

struct Row {
  const SampleKernels& kernels;
  const float* logits;
  int64_t count;
  float max;
  Rule rule;
  double* sums;     // [blocks]
  int32_t* ids;     // [count]
  double* weights;  // [count]

  int64_t num_blocks() const { return (count + kSampleBlock - 1) / kSampleBlock; }

  double sum_all() const {
    kernels.sum_weights(sums, logits, count, max, rule.temperature);
    double total = 0;
    for (int64_t b = 0; b < num_blocks(); b++) total += sums[b];
    return total;
  }

  double weight_of(int32_t id) const {
    const double w = std::exp((static_cast<double>(logits[id]) - max) / rule.temperature);
    return w == w ? w : 0.0;
  }

  // Candidates are all tokens in id order: find the block, then the token in it.
  int32_t draw_unfiltered(double uniform) const {
    const double target = uniform * sum_all();
    double before = 0;
    int64_t last = 0;
    for (int64_t b = 0; b < num_blocks(); b++) {
      const bool is_here = before + sums[b] > target;
      if (sums[b] > 0) last = b;
      if (is_here) {
        const int32_t id = draw_in_block(b, before, target);
        if (id >= 0) return id;
      }
      before += sums[b];
    }
    const int32_t id = draw_in_block(last, 0, INFINITY);  // rounding left the sum at the target: the last that weighs
    return id;
  }

  // The first token of the block whose running sum exceeds the target; -1 when none does, or with an infinite target the last
  // token that weighs anything.
  int32_t draw_in_block(int64_t block, double before, double target) const {
    double w[kSampleBlock];
    const int64_t from = block * kSampleBlock;
    const int64_t size = std::min(kSampleBlock, count - from);
    kernels.weigh(w, logits + from, size, max, rule.temperature);
    int32_t last = -1;
    for (int64_t i = 0; i < size; i++) {
      if (w[i] == 0) continue;
      before += w[i];
      last = static_cast<int32_t>(from + i);
      if (before > target) return last;
    }
    return target == INFINITY ? last : -1;
  }

  int32_t draw_filtered(double uniform) const {
    const double whole = rule.top_k == 0 && rule.top_p < 1 ? sum_all() : 0;
    int64_t found = gather(whole);
    const auto is_before = [this](int32_t a, int32_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); };
    const auto is_after = [&](int32_t a, int32_t b) { return is_before(b, a); };
    const int64_t most = rule.top_k > 0 ? std::min<int64_t>(rule.top_k, found) : found;
    if (most < found) std::nth_element(ids, ids + most, ids + found, is_before);
    // A heap gives the candidates best first and stops where the filters do. Popped ones pile up behind it, in reverse.
    std::make_heap(ids, ids + most, is_after);
    double total = whole;
    if (rule.top_k > 0) {
      total = 0;
      for (int64_t i = 0; i < most; i++) total += weight_of(ids[i]);
    }
    const double share = rule.top_p < 1 ? rule.top_p * total : INFINITY;
    int64_t kept = 0;
    double sum = 0;
    while (kept < most && (kept == 0 || sum < share)) {
      std::pop_heap(ids, ids + (most - kept), is_after);
      const double w = weight_of(ids[most - 1 - kept]);
      if (kept > 0 && w < rule.min_p * weights[0]) break;
      weights[kept++] = w;
      sum += w;
    }
    const double target = uniform * sum;
    double running = 0;
    for (int64_t i = 0; i < kept; i++) {
      running += weights[i];
      if (running > target) return ids[most - 1 - i];
    }
    return ids[most - kept];
  }

  // ids = all that the filters can keep: logits within a widening distance of the maximum.
  int64_t gather(double whole) const {
    for (double distance = 4;; distance *= 4) {
      const bool is_all = distance > 1000;
      const float floor = is_all ? -INFINITY : static_cast<float>(max - distance * rule.temperature);
      const int64_t found = kernels.collect(ids, count, logits, count, floor);
      if (is_all) return found;
      if (rule.top_k > 0) {
        if (found >= rule.top_k) return found;
      } else if (rule.top_p < 1) {
        double mass = 0;
        for (int64_t i = 0; i < found; i++) mass += weight_of(ids[i]);
        if (mass >= rule.top_p * whole * (1 + 1e-9)) return found;
      } else if (std::exp(-distance) < rule.min_p) {
        return found;
      }
    }
  }

  int32_t draw(double uniform) const {
    if (rule.top_k == 0 && rule.top_p >= 1 && rule.min_p <= 0) return draw_unfiltered(uniform);
    return draw_filtered(uniform);
  }
};

}  // namespace
}  // namespace pg

using namespace pg;

extern "C" int32_t pg_sample(void* handle, int32_t* out_tokens, const float* logits, int64_t stride, int64_t n, int64_t vocab,
                             const float* temperature, const int32_t* top_k, const float* top_p, const float* min_p,
                             const double* uniform) {
  Context* context = as_context(handle);
  if (n < 0 || vocab < 1 || vocab > INT32_MAX || stride < vocab)
    return fail(context, PG_E_ARGUMENT, "sample: %lld rows of %lld", static_cast<long long>(n), static_cast<long long>(vocab));
  const int64_t blocks = (vocab + kSampleBlock - 1) / kSampleBlock;
  const int64_t per_worker = (blocks + vocab) * int64_t{sizeof(double)} + (vocab + 1) / 2 * 2 * int64_t{sizeof(int32_t)};
  if (!context->sample_scratch.reserve(per_worker * context->pool.size()))
    return fail(context, PG_E_MEMORY, "sample: no memory for a vocabulary of %lld", static_cast<long long>(vocab));
  const SampleKernels& kernels = *context->kernels->sample;
  parallel_for(context->pool, n, [&](int64_t r, int32_t worker) {
    const float* row = logits + r * stride;
    float max;
    const int64_t best = kernels.argmax(row, vocab, &max);
    out_tokens[r] = static_cast<int32_t>(best);
    // Without one finite logit there is nothing to draw from.
    if (!(temperature[r] > 0) || !std::isfinite(max)) return;
    double* sums = reinterpret_cast<double*>(context->sample_scratch.data() + per_worker * worker);
    const Rule rule{temperature[r], top_k[r] < 0 ? 0 : top_k[r], top_p[r], min_p[r]};
    const Row drawn{kernels, row, vocab, max, rule, sums, reinterpret_cast<int32_t*>(sums + blocks + vocab), sums + blocks};
    out_tokens[r] = drawn.draw(uniform[r]);
  });
  return PG_OK;
}
