// Passes over one row of logits that sampling is made of; the choice itself is in sample.cpp.
#pragma once
#include <cstdint>

namespace pg {

// Logits per block whose weights are summed together.
constexpr int64_t kSampleBlock = 256;

struct SampleKernels {
  // The highest logit and the lowest index that has it; NaN never wins. A row without one above -infinity: index 0.
  int64_t (*argmax)(const float* logits, int64_t count, float* out_max);
  // sums[b] = sum over block b of exp((logit - max) / temperature), in f64; NaN and -infinity weigh nothing.
  void (*sum_weights)(double* sums, const float* logits, int64_t count, float max, double temperature);
  // exp((logit - max) / temperature) for at most kSampleBlock logits: the terms of sum_weights.
  void (*weigh)(double* weights, const float* logits, int64_t count, float max, double temperature);
  // logits[i] = -infinity where bit i of the mask is not set.
  void (*apply_mask)(float* logits, int64_t count, const int32_t* mask);
  // Ids of the logits >= floor, ascending; writes at most `capacity` and returns how many there are.
  int64_t (*collect)(int32_t* ids, int64_t capacity, const float* logits, int64_t count, float floor);
};

}  // namespace pg
