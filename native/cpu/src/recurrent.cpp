// Recurrent layers: cuts the rows of a step into work for the variant's kernels, spread over the workers.
#include "linear-attention.h"
#include "parallel-rows.h"
#include "step.h"

using namespace pg;

namespace {

// What is wrong with the states of a step, or null.
const char* fault_of(const Step& step, int64_t num_slots, int64_t slot_floats, int64_t offset, int64_t needed) {
  if (offset < 0 || needed < 0 || offset + needed > slot_floats) return "the state does not fit its slot";
  for (int32_t r = 0; r < step.num_rows; r++) {
    if (step.state_of[r] < 0 || step.state_of[r] >= num_slots) return "a row has no slot of the state pool";
    const int32_t tokens = step.qo_indptr[r + 1] - step.qo_indptr[r];
    if (tokens > 0 && (step.state_lens[r] < 1 || step.state_lens[r] > tokens)) return "a row stores its state behind no token";
  }
  return nullptr;
}

}  // namespace

extern "C" {

int32_t pg_decay_gates(void* handle, float* decay, int64_t decay_stride, float* step, int64_t step_stride, const float* x,
                       int64_t x_stride, const float* bias, const float* rate, float min, float max, int64_t n, int64_t cols) {
  Context* context = as_context(handle);
  const auto kernel = context->kernels->rows->decay_gates;
  constexpr int64_t kCost = 32;  // of an exponential and a logarithm, in numbers touched
  each_row(context, n, cols * kCost, [&](int64_t r) {
    kernel(decay + r * decay_stride, step + r * step_stride, x + r * x_stride, bias, rate, min, max, cols);
  });
  return PG_OK;
}

int32_t pg_short_conv(void* handle, float* out, int64_t out_stride, const float* x, int64_t x_stride, const float* weight,
                      int64_t weight_stride, const float* bias, int32_t kernel, int64_t cols, int32_t activation,
                      const void* handle_of_step, float* states, int64_t num_slots, int64_t slot_floats, int64_t offset) {
  Context* context = as_context(handle);
  const Step& step = *as_step(handle_of_step);
  if (kernel < 1 || kernel > kMaxTaps || cols < 1 || cols > INT32_MAX)
    return fail(context, PG_E_ARGUMENT, "short conv: kernel of %d, %lld columns", kernel, static_cast<long long>(cols));
  if (activation < 0 || activation >= kNumActivations)
    return fail(context, PG_E_ARGUMENT, "activation %d is unknown", activation);
  if (const char* error = fault_of(step, num_slots, slot_floats, offset, (kernel - 1) * cols))
    return fail(context, PG_E_ARGUMENT, "short conv: %s", error);
  const int64_t blocks = (cols + kConvCols - 1) / kConvCols;
  const auto run = context->kernels->recurrent->short_conv;
  const auto activate = context->kernels->rows->activate[activation];
  const int64_t cost = kConvCols * kernel * (step.num_rows == 0 ? 1 : step.num_tokens / step.num_rows + 1);
  each_row(context, step.num_rows * blocks, cost, [&](int64_t item) {
    const int64_t r = item / blocks;
    const int64_t col = item % blocks * kConvCols;
    const int64_t first = step.qo_indptr[r];
    ShortConvWork work;
    work.tokens = step.qo_indptr[r + 1] - step.qo_indptr[r];
    if (work.tokens == 0) return;
    work.kept = step.state_lens[r];
    work.state = states + step.state_of[r] * slot_floats + offset + col;
    work.state_stride = cols;
    work.out = out + first * out_stride + col;
    work.out_stride = out_stride;
    work.x = x + first * x_stride + col;
    work.x_stride = x_stride;
    work.weight = weight + col;
    work.weight_stride = weight_stride;
    work.bias = bias == nullptr ? nullptr : bias + col;
    work.kernel = kernel;
    work.cols = static_cast<int32_t>(cols - col < kConvCols ? cols - col : kConvCols);
    work.starts = step.positions[first] == 0;
    work.silu = activation == kSilu;
    run(work);
    if (activation == kSilu || activation == kIdentity) return;
    for (int32_t t = 0; t < work.tokens; t++) activate(work.out + t * out_stride, work.out + t * out_stride, work.cols);
  });
  return PG_OK;
}

int32_t pg_linear_attention(void* handle, float* out, int64_t out_stride, const float* q, int64_t q_stride, const float* k,
                            int64_t k_stride, const float* v, int64_t v_stride, const float* decay, int64_t decay_stride,
                            const float* rate, int64_t rate_stride, const float* skip, int32_t heads, int32_t key_heads,
                            int32_t key_dim, int32_t value_dim, int32_t is_delta, const void* handle_of_step, float* states,
                            int64_t num_slots, int64_t slot_floats, int64_t offset) {
  Context* context = as_context(handle);
  const Step& step = *as_step(handle_of_step);
  if (heads < 1 || key_heads < 1 || heads % key_heads != 0 || key_dim < 1 || key_dim > kMaxStateKeys || value_dim < 1)
    return fail(context, PG_E_ARGUMENT, "linear attention: %d heads of %d x %d, %d of keys (at most %d numbers)", heads, key_dim,
                value_dim, key_heads, kMaxStateKeys);
  const int64_t state_floats = int64_t{key_dim} * value_dim;
  if (const char* error = fault_of(step, num_slots, slot_floats, offset, heads * state_floats))
    return fail(context, PG_E_ARGUMENT, "linear attention: %s", error);
  const int32_t block = context->kernels->recurrent->block_cols;
  const int32_t blocks = (value_dim + block - 1) / block;
  const auto run = context->kernels->recurrent->linear_attention;
  const int64_t cost = state_floats / blocks * (step.num_rows == 0 ? 1 : step.num_tokens / step.num_rows + 1);
  each_row(context, int64_t{step.num_rows} * heads * blocks, cost, [&](int64_t item) {
    const int64_t r = item / (heads * blocks);
    const int64_t head = item / blocks % heads;
    const int64_t col = item % blocks * block;
    const int64_t key_head = head / (heads / key_heads);
    const int64_t first = step.qo_indptr[r];
    LinearAttentionWork work;
    work.tokens = step.qo_indptr[r + 1] - step.qo_indptr[r];
    if (work.tokens == 0) return;
    work.kept = step.state_lens[r];
    work.state = states + step.state_of[r] * slot_floats + offset + head * state_floats + col;
    work.out = out + first * out_stride + head * value_dim + col;
    work.q = q + first * q_stride + key_head * key_dim;
    work.k = k + first * k_stride + key_head * key_dim;
    work.v = v + first * v_stride + head * value_dim + col;
    work.decay = decay + first * decay_stride + head;
    work.rate = rate + first * rate_stride + head;
    work.out_stride = out_stride;
    work.q_stride = q_stride;
    work.k_stride = k_stride;
    work.v_stride = v_stride;
    work.decay_stride = decay_stride;
    work.rate_stride = rate_stride;
    work.skip = skip == nullptr ? 0.0f : skip[head];
    work.key_dim = key_dim;
    work.value_dim = value_dim;
    work.cols = static_cast<int32_t>(value_dim - col < block ? value_dim - col : block);
    work.starts = step.positions[first] == 0;
    work.is_delta = is_delta != 0;
    run(work);
  });
  return PG_OK;
}

}  // extern "C"
