// Draws: edits of the logits, the choice of a token, log-probabilities; the vocabulary never crosses to JavaScript. The rule
// is that of src/core/sample-row.ts and choose-token.ts, their twins; weights are f64 there and here, and may differ in the last bit.
#include "sample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "context.h"
#include "sample-row.h"

namespace pg {
namespace {

struct Rule {
  double temperature;
  int32_t top_k;  // 0: off
  double top_p;
  double min_p;
};

struct Candidates {
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

// The log-probability of `token` and of the `num_top` most probable ones, before any edit.
void report(float* out_logprob, int32_t* top_ids, float* top_logprobs, int32_t num_top, int32_t token, const Candidates& raw) {
  // The largest first: beside a huge one the logarithm would be lost.
  const double log_sum = std::log(raw.sum_all());
  const auto logprob_of = [&](float logit) { return static_cast<float>(double{logit} - raw.max - log_sum); };
  *out_logprob = token < 0 ? -INFINITY : logprob_of(raw.logits[token]);
  if (num_top == 0) return;
  int64_t found = 0;
  for (double distance = 4; found < num_top; distance *= 4) {
    const bool is_all = distance > 1000;
    found = raw.kernels.collect(raw.ids, raw.count, raw.logits, raw.count,
                                is_all ? -INFINITY : static_cast<float>(raw.max - distance));
    if (is_all) break;
  }
  const int64_t kept = std::min<int64_t>(num_top, found);
  std::partial_sort(raw.ids, raw.ids + kept, raw.ids + found, [&](int32_t a, int32_t b) {
    return raw.logits[a] > raw.logits[b] || (raw.logits[a] == raw.logits[b] && a < b);
  });
  for (int64_t i = 0; i < num_top; i++) {
    top_ids[i] = i < kept ? raw.ids[i] : -1;
    top_logprobs[i] = i < kept ? logprob_of(raw.logits[raw.ids[i]]) : -INFINITY;
  }
}

}  // namespace
}  // namespace pg

using namespace pg;

extern "C" int32_t pg_sample(void* handle, int32_t* out_tokens, float* out_logprobs, int32_t* out_top_ids,
                             float* out_top_logprobs, int64_t max_top, const float* logits, int64_t stride,
                             int64_t num_logit_rows, int64_t vocab, const void* packed_draws, int64_t n, const int32_t* lists,
                             int64_t num_lists, int32_t* rows, int64_t rows_len) {
  Context* context = as_context(handle);
  if (n < 0 || vocab < 1 || vocab > INT32_MAX || stride < vocab || max_top < 0)
    return fail(context, PG_E_ARGUMENT, "sample: %lld draws of %lld", static_cast<long long>(n), static_cast<long long>(vocab));
  const Draw* draws = static_cast<const Draw*>(packed_draws);
  for (int64_t r = 0; r < n; r++)
    if (const char* wrong = check_draw(draws[r], num_logit_rows, vocab, max_top, lists, num_lists, rows, rows_len))
      return fail(context, PG_E_ARGUMENT, "sample: draw %lld: %s", static_cast<long long>(r), wrong);

  // Each worker's part, in doubles: block sums, weights, candidate ids, an edited row.
  const int64_t blocks = (vocab + kSampleBlock - 1) / kSampleBlock;
  const int64_t halves = (vocab + 1) / 2;
  const int64_t per_worker = blocks + vocab + 2 * halves;
  const int64_t workers = context->pool.size();
  if (!context->sample_scratch.reserve(per_worker * workers * int64_t{sizeof(double)}) ||
      !context->sample_counts.reserve(vocab * workers * int64_t{sizeof(int32_t)}))
    return fail(context, PG_E_MEMORY, "sample: no memory for a vocabulary of %lld", static_cast<long long>(vocab));
  const SampleKernels& kernels = *context->kernels->sample;
  for (int64_t r = 0; r < n; r++) keep_tokens(rows, draws[r], lists);
  parallel_for(context->pool, n, [&](int64_t r, int32_t worker) {
    const Draw& draw = draws[r];
    const DrawOf of(draw, lists, rows);
    double* sums = reinterpret_cast<double*>(context->sample_scratch.data()) + per_worker * worker;
    double* weights = sums + blocks;
    int32_t* ids = reinterpret_cast<int32_t*>(weights + vocab);
    float* edited = reinterpret_cast<float*>(weights + vocab + halves);
    const float* raw = logits + draw.logit_row * stride;

    int32_t token = draw.given;
    if (token < 0) {
      const float* values = raw;
      if (is_edited(draw)) {
        std::memcpy(edited, raw, sizeof(float) * static_cast<size_t>(vocab));
        int32_t* counts = reinterpret_cast<int32_t*>(context->sample_counts.data()) + vocab * worker;
        edit(edited, vocab, of, lists, counts, kernels);
        values = edited;
      }
      float max;
      token = static_cast<int32_t>(kernels.argmax(values, vocab, &max));
      // Without one finite logit there is nothing to draw from.
      if (of.takes(kIsDrawn) && std::isfinite(max)) {
        const Row& row = of.row;
        const Rule rule{row.temperature, row.top_k < 0 ? 0 : row.top_k, row.top_p, row.min_p};
        const double uniform = uniform_of(row.seed_low, row.seed_high, draw.sample, draw.position);
        token = Candidates{kernels, values, vocab, max, rule, sums, ids, weights}.draw(uniform);
      }
      if (!(values[token] > -INFINITY)) token = -1;
    }
    out_tokens[r] = token;
    if (draw.num_top < 0) return;
    float max;
    kernels.argmax(raw, vocab, &max);
    const Candidates whole{kernels, raw, vocab, max, {1.0, 0, 1.0, 0.0}, sums, ids, weights};
    report(out_logprobs + r, out_top_ids + r * max_top, out_top_logprobs + r * max_top, draw.num_top, token, whole);
  });
  return PG_OK;
}
