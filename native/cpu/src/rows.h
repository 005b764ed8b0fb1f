// Kernels that work on one row of activations, or on one token: norms, elementwise ops, rotary, writing a head to the pool.
#pragma once
#include <cstdint>

#include "kv-pool.h"

namespace pg {

// Order of Activation in src/device/cpu/codes.ts.
constexpr int32_t kNumActivations = 7;
constexpr int32_t kSilu = 0, kIdentity = kNumActivations - 1;
// What gates an expert: the activations and gpt-oss's own.
constexpr int32_t kGateOss = kNumActivations;

// cos and sin of one token [half], and which numbers make a pair.
struct Rotation {
  const float* cos;
  const float* sin;
  int32_t half;
  int32_t interleaved;
};

struct RowKernels {
  // Groups of columns share the weight (weight_step 0), or have parts of it (weight_step = group_cols); bias likewise.
  void (*rms_norm)(float* out, const float* x, const float* weight, float eps, int64_t cols, int64_t group_cols,
                   int64_t weight_step);
  // residual += x; out = rms_norm(residual).
  void (*add_rms_norm)(float* out, float* residual, const float* x, const float* weight, float eps, int64_t cols);
  void (*layer_norm)(float* out, const float* x, const float* weight, const float* bias, float eps, int64_t cols,
                     int64_t group_cols, int64_t weight_step);
  // out = a + scale * b.
  void (*add)(float* out, const float* a, const float* b, float scale, int64_t cols);
  // x *= factor.
  void (*scale)(float* x, float factor, int64_t cols);
  // x = cap * tanh(x / cap).
  void (*softcap)(float* x, float cap, int64_t cols);
  // out = act(gate) * up; kGateOss as ExpertWeights says.
  void (*gate[kNumActivations + 1])(float* out, const float* gate, const float* up, int64_t cols);
  // out = act(x).
  void (*activate[kNumActivations])(float* out, const float* x, int64_t cols);
  // xIELU: x (alpha_p x + beta) above 0, alpha_n (e^min(x, eps) - 1 - x) + beta x below.
  void (*xielu)(float* x, float alpha_p, float alpha_n, float beta, float eps, int64_t cols);
  // Rotates the 2 * half numbers at x.
  void (*rotate)(float* x, const Rotation& rotation);
  // step = softplus(x + bias) within [min, max]; decay = exp(rate * step).
  void (*decay_gates)(float* decay, float* step, const float* x, const float* bias, const float* rate, float min, float max,
                      int64_t cols);
  // Writes one head's vector to its slot in the pool's dtype; scale receives the factor of an i8 row.
  void (*write_head)(uint8_t* row, float* scale, KvDtype dtype, const float* x, int32_t dim);
};

}  // namespace pg
