// The recurrent kernels (linear-attention.h). Sums over keys run in kChains partial sums, key i in chain i % kChains, joined by one
// tree: the order depends on nothing but key_dim. Per state element and token: two loads and one store to L1, four operations.
//
// Scalar twin: src/device/reference/recurrent.ts.
#include "../linear-attention.h"

#include "simd-math.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int kVectors = kStateCols / VL;  // of one row of the block
constexpr int kChains = kVectors >= 8 ? 1 : kVectors >= 4 ? 2 : 4;

// The block on the stack: rows padded with zeros to kStateCols.
struct Block {
  alignas(64) float rows[kMaxStateKeys * kStateCols];
};

void load_block(Block& block, const LinearAttentionWork& w) {
  for (int32_t i = 0; i < w.key_dim; i++) {
    float* row = block.rows + i * kStateCols;
    const int32_t kept = w.starts ? 0 : w.cols;
    for (int32_t c = 0; c < kept; c++) row[c] = w.state[(int64_t)i * w.value_dim + c];
    for (int32_t c = kept; c < kStateCols; c++) row[c] = 0.0f;
  }
}

void store_block(const Block& block, const LinearAttentionWork& w) {
  for (int32_t i = 0; i < w.key_dim; i++)
    for (int32_t c = 0; c < w.cols; c++) w.state[(int64_t)i * w.value_dim + c] = block.rows[i * kStateCols + c];
}

// sums[v] = sum over keys of rows[i] * x[i].
PG_INLINE void dot_keys(vf* sums, const float* rows, const float* x, int32_t key_dim) {
  vf parts[kChains][kVectors];
  for (int c = 0; c < kChains; c++)
    for (int v = 0; v < kVectors; v++) parts[c][v] = v_set(0.0f);
  int32_t i = 0;
  for (; i + kChains <= key_dim; i += kChains)
    for (int c = 0; c < kChains; c++) {
      const vf factor = v_set(x[i + c]);
      for (int v = 0; v < kVectors; v++)
        parts[c][v] = v_madd(v_load(rows + (i + c) * kStateCols + v * VL), factor, parts[c][v]);
    }
  for (int c = 0; i < key_dim; i++, c++) {
    const vf factor = v_set(x[i]);
    for (int v = 0; v < kVectors; v++) parts[c][v] = v_madd(v_load(rows + i * kStateCols + v * VL), factor, parts[c][v]);
  }
  for (int v = 0; v < kVectors; v++) {
    sums[v] = parts[0][v];
    if (kChains == 2) sums[v] = sums[v] + parts[kChains - 1][v];
    if (kChains == 4) sums[v] = (sums[v] + parts[1 % kChains][v]) + (parts[2 % kChains][v] + parts[kChains - 1][v]);
  }
}

// rows[i] = decay * rows[i] + k[i] * u;  sums[v] = sum over keys of the new rows[i] * q[i].
PG_INLINE void update_keys(vf* sums, float* rows, const vf* u, float decay, const float* k, const float* q, int32_t key_dim) {
  vf parts[kChains][kVectors];
  for (int c = 0; c < kChains; c++)
    for (int v = 0; v < kVectors; v++) parts[c][v] = v_set(0.0f);
  const vf g = v_set(decay);
  const auto one = [&](int32_t i, int c) __attribute__((always_inline)) {
    const vf key = v_set(k[i]);
    const vf query = v_set(q[i]);
    for (int v = 0; v < kVectors; v++) {
      float* at = rows + i * kStateCols + v * VL;
      const vf next = v_madd(v_load(at), g, key * u[v]);
      v_store(at, next);
      parts[c][v] = v_madd(next, query, parts[c][v]);
    }
  };
  int32_t i = 0;
  for (; i + kChains <= key_dim; i += kChains)
    for (int c = 0; c < kChains; c++) one(i + c, c);
  for (int c = 0; i < key_dim; i++, c++) one(i, c);
  for (int v = 0; v < kVectors; v++) {
    sums[v] = parts[0][v];
    if (kChains == 2) sums[v] = sums[v] + parts[kChains - 1][v];
    if (kChains == 4) sums[v] = (sums[v] + parts[1 % kChains][v]) + (parts[2 % kChains][v] + parts[kChains - 1][v]);
  }
}

void linear_attention(const LinearAttentionWork& w) {
  Block block;
  load_block(block, w);
  alignas(64) float values[kStateCols] = {};
  alignas(64) float result[kStateCols];
  for (int32_t t = 0; t < w.tokens; t++) {
    const float* k = w.k + t * w.k_stride;
    const float* v = w.v + t * w.v_stride;
    const float decay = w.decay[t * w.decay_stride];
    const vf rate = v_set(w.rate[t * w.rate_stride]);
    for (int32_t c = 0; c < w.cols; c++) values[c] = v[c];
    vf u[kVectors];
    if (w.is_delta) {
      dot_keys(u, block.rows, k, w.key_dim);
      for (int i = 0; i < kVectors; i++) u[i] = rate * (v_load(values + i * VL) - v_set(decay) * u[i]);
    } else {
      for (int i = 0; i < kVectors; i++) u[i] = rate * v_load(values + i * VL);
    }
    vf sums[kVectors];
    update_keys(sums, block.rows, u, decay, k, w.q + t * w.q_stride, w.key_dim);
    for (int i = 0; i < kVectors; i++) v_store(result + i * VL, v_madd(v_set(w.skip), v_load(values + i * VL), sums[i]));
    float* out = w.out + t * w.out_stride;
    for (int32_t c = 0; c < w.cols; c++) out[c] = result[c];
  }
  store_block(block, w);
}

// Input `at` of the row, which may lie before it: in the state, oldest first.
PG_INLINE vf input_at(const ShortConvWork& w, int32_t at, int32_t col, int lanes) {
  if (at >= 0) return v_load_some(w.x + at * w.x_stride + col, lanes);
  if (w.starts) return v_set(0.0f);
  return v_load_some(w.state + (at + w.kernel - 1) * w.state_stride + col, lanes);
}

void short_conv(const ShortConvWork& w) {
  const int32_t history = w.kernel - 1;
  each_step(w.cols, [&](int64_t col, int lanes) {
    for (int32_t t = 0; t < w.tokens; t++) {
      vf sum = w.bias == nullptr ? v_set(0.0f) : v_load_some(w.bias + col, lanes);
      for (int32_t j = 0; j < w.kernel; j++)
        sum = v_madd(v_load_some(w.weight + j * w.weight_stride + col, lanes), input_at(w, t - history + j, (int32_t)col, lanes), sum);
      v_store_some(w.out + t * w.out_stride + col, sum, lanes);
    }
    // Ascending: each place is read before it is written, since inputs only move towards the front.
    for (int32_t j = 0; j < history; j++)
      v_store_some(w.state + j * w.state_stride + col, input_at(w, w.tokens - history + j, (int32_t)col, lanes), lanes);
  });
}

}  // namespace

extern const RecurrentKernels recurrent_kernels;
const RecurrentKernels recurrent_kernels = {linear_attention, short_conv};

}  // namespace PG_NS
}  // namespace pg
