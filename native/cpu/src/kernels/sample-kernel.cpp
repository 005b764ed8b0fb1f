// Passes over a row of logits (sample.h). Each reads the row once: a vocabulary of 128k is 512 KiB. Weights are f64, in compiler
// vectors of VD doubles: a plain exp with more digits than any draw can tell apart.
//
// Scalar twin: src/core/choose-token.ts.
#include "../sample.h"

#include "simd-math.h"

namespace pg {
namespace PG_NS {
namespace {

#if PG_ISA == 3
constexpr int VD = 8;
#elif PG_ISA == 2
constexpr int VD = 4;
#else
constexpr int VD = 2;
#endif
typedef double vd __attribute__((vector_size(VD * 8)));
typedef int64_t vi __attribute__((vector_size(VD * 8)));
typedef float vs __attribute__((vector_size(VD * 4)));

PG_INLINE vd d_set(double x) { return vd{} + x; }

// e^x for x <= 0, relative error < 4e-16; 0 below -700 and for NaN. x = n ln 2 + r, |r| <= ln 2 / 2, Taylor to r^13.
PG_INLINE vd d_exp(vd x) {
  const vi is_in_range = x > d_set(-700.0);
  const vd clamped = is_in_range ? x : d_set(-700.0);
  const vd shift = d_set(6755399441055744.0);  // 1.5 * 2^52: the sum holds the nearest integer in its low bits
  const vd shifted = clamped * d_set(1.4426950408889634) + shift;
  const vd n = shifted - shift;
  const vd r = (clamped - n * d_set(0x1.62e42fefa0000p-1)) - n * d_set(0x1.cf79abc9e3b39p-40);
  vd p = d_set(1.0 / 6227020800.0);
  p = p * r + d_set(1.0 / 479001600.0);
  p = p * r + d_set(1.0 / 39916800.0);
  p = p * r + d_set(1.0 / 3628800.0);
  p = p * r + d_set(1.0 / 362880.0);
  p = p * r + d_set(1.0 / 40320.0);
  p = p * r + d_set(1.0 / 5040.0);
  p = p * r + d_set(1.0 / 720.0);
  p = p * r + d_set(1.0 / 120.0);
  p = p * r + d_set(1.0 / 24.0);
  p = p * r + d_set(1.0 / 6.0);
  p = p * r + d_set(0.5);
  p = p * r + d_set(1.0);
  p = p * r + d_set(1.0);
  // The bits of shifted minus the bits of shift are n itself.
  const vd result = (vd)((vi)p + (((vi)shifted - (vi)shift) << 52));
  return is_in_range ? result : d_set(0.0);
}

PG_INLINE vd weigh_step(const float* logits, float max, double inverse) {
  vs raw;
  memcpy(&raw, logits, sizeof raw);
  return d_exp((__builtin_convertvector(raw, vd) - d_set(max)) * d_set(inverse));
}

void weigh(double* weights, const float* logits, int64_t count, float max, double temperature) {
  const double inverse = 1.0 / temperature;
  int64_t i = 0;
  for (; i + VD <= count; i += VD) {
    const vd w = weigh_step(logits + i, max, inverse);
    memcpy(weights + i, &w, sizeof w);
  }
  if (i < count) {
    float rest[VD];
    for (int k = 0; k < VD; k++) rest[k] = i + k < count ? logits[i + k] : kMinusInfinity;
    const vd w = weigh_step(rest, max, inverse);
    memcpy(weights + i, &w, sizeof(double) * (size_t)(count - i));
  }
}

void sum_weights(double* sums, const float* logits, int64_t count, float max, double temperature) {
  double weights[kSampleBlock];
  for (int64_t b = 0; b * kSampleBlock < count; b++) {
    const int64_t rest = count - b * kSampleBlock;
    const int64_t size = rest < kSampleBlock ? rest : kSampleBlock;
    weigh(weights, logits + b * kSampleBlock, size, max, temperature);
    double sum[8] = {0};
    for (int64_t i = 0; i < size; i++) sum[i % 8] += weights[i];
    sums[b] = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
  }
}

int64_t argmax(const float* logits, int64_t count, float* out_max) {
  vf top = v_set(kMinusInfinity);
  int64_t i = 0;
  for (; i + VL <= count; i += VL) top = v_max(v_load(logits + i), top);
  float max = v_hmax(top);
  for (; i < count; i++) max = logits[i] > max ? logits[i] : max;
  *out_max = max;
  if (max == kMinusInfinity) return 0;
  for (i = 0; logits[i] != max; i++) {
  }
  return i;
}

// Grammars allow few tokens or forbid few: most words are all zeros or all ones.
void apply_mask(float* logits, int64_t count, const int32_t* mask) {
  for (int64_t at = 0; at < count; at += 32) {
    const uint32_t word = (uint32_t)mask[at / 32];
    if (word == 0xffffffffu) continue;
    const int64_t size = count - at < 32 ? count - at : 32;
    for (int64_t i = 0; i < size; i++) logits[at + i] = (word >> i & 1) != 0 ? logits[at + i] : kMinusInfinity;
  }
}

int64_t collect(int32_t* ids, int64_t capacity, const float* logits, int64_t count, float floor) {
  int64_t found = 0;
  int64_t i = 0;
  while (i < count) {
    // Most of a row is far below the floor: pass over it a vector at a time.
    while (i + VL <= count && v_hmax(v_max(v_load(logits + i), v_set(kMinusInfinity))) < floor) i += VL;
    const int64_t end = i + VL < count ? i + VL : count;
    for (; i < end; i++)
      if (logits[i] >= floor) {
        if (found < capacity) ids[found] = (int32_t)i;
        found++;
      }
  }
  return found;
}

}  // namespace

extern const SampleKernels sample_kernels;
const SampleKernels sample_kernels = {argmax, sum_weights, weigh, apply_mask, collect};

}  // namespace PG_NS
}  // namespace pg
