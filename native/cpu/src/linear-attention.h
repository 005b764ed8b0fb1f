// Linear attention with decay, one head: a state S [key_dim, value_dim] and, token by token, with g the decay and r the rate,
//
//   delta rule   u = r (v - g S^T k)          gated delta nets (Qwen3-Next, Qwen3.5)
//   otherwise    u = r v                      Mamba-2 (SSD): k is B, q is C, r the time step
//   S = g S + k u^T;   out = S^T q + skip v
//
// A block of some columns of S is independent of the others: v, u and out are cut the same way.
#pragma once
#include <cstdint>

namespace pg {

constexpr int32_t kMaxStateKeys = 256;

// The tokens of one row, for one head and one block of columns; rows of tokens lie strides apart.
struct LinearAttentionWork {
  float* state;        // [key_dim, value_dim] of the head, from the block's first column on
  float* out;          // [tokens, cols]
  const float* q;      // [tokens, key_dim]
  const float* k;      // [tokens, key_dim]
  const float* v;      // [tokens, cols]
  const float* decay;  // [tokens]
  const float* rate;   // [tokens]
  int64_t out_stride, q_stride, k_stride, v_stride, decay_stride, rate_stride;
  float skip;
  int32_t tokens;
  int32_t kept;  // the state behind so many is stored
  int32_t key_dim;
  int32_t value_dim;  // distance of the state's rows
  int32_t cols;       // at most the kernel's block
  bool starts;        // from zeros, not from the state
  bool is_delta;
};

// The most columns of a piece of a convolution, and its most taps.
constexpr int32_t kConvCols = 256;
constexpr int32_t kMaxTaps = 64;

// The tokens of one row, `cols` columns at a time: a depthwise causal convolution.
struct ShortConvWork {
  float* state;        // [kernel - 1, cols] inputs before the row; rows state_stride apart
  float* out;
  const float* x;
  const float* weight;  // [kernel, cols]; rows weight_stride apart
  const float* bias;    // [cols] or null
  int64_t state_stride, out_stride, x_stride, weight_stride;
  int32_t tokens;
  int32_t kept;  // the state behind so many is stored
  int32_t kernel;
  int32_t cols;
  bool starts;
  bool silu;  // of every output
};

struct RecurrentKernels {
  int32_t block_cols;  // most columns of a piece of work
  void (*linear_attention)(const LinearAttentionWork& work);
  void (*short_conv)(const ShortConvWork& work);
};

}  // namespace pg
