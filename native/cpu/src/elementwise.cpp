// Norms, elementwise ops and row copies: each is a row kernel of the variant over n rows.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "parallel-rows.h"
#include "step.h"

using namespace pg;

namespace {

bool are_groups(int64_t cols, int64_t group_cols, int64_t weight_cols) {
  return group_cols > 0 && cols % group_cols == 0 && (weight_cols == group_cols || weight_cols == cols);
}

int32_t refuse_groups(Context* context, int64_t cols, int64_t group_cols, int64_t weight_cols) {
  return fail(context, PG_E_ARGUMENT, "norm: %lld columns in groups of %lld, a weight of %lld", static_cast<long long>(cols),
              static_cast<long long>(group_cols), static_cast<long long>(weight_cols));
}

// body(row, first column, columns) over pieces of rows, for ops that treat every number alike: long rows are shared too.
template <typename Body>
void each_piece(Context* context, int64_t n, int64_t cols, int64_t cost, const Body& body) {
  constexpr int64_t kPiece = 1024;
  const int64_t pieces = (cols + kPiece - 1) / kPiece;
  each_row(context, n * pieces, cost * std::min(cols, kPiece), [&](int64_t i) {
    const int64_t first = i % pieces * kPiece;
    body(i / pieces, first, std::min(kPiece, cols - first));
  });
}

}  // namespace

extern "C" {

int32_t pg_rms_norm(void* handle, float* out, int64_t out_stride, const float* x, int64_t x_stride, const float* weight,
                    int64_t weight_cols, float eps, int64_t n, int64_t cols, int64_t group_cols) {
  Context* context = as_context(handle);
  if (!are_groups(cols, group_cols, weight_cols)) return refuse_groups(context, cols, group_cols, weight_cols);
  const int64_t step = weight_cols == group_cols ? 0 : group_cols;
  const auto kernel = context->kernels->rows->rms_norm;
  each_row(context, n, cols, [&](int64_t r) {
    kernel(out + r * out_stride, x + r * x_stride, weight, eps, cols, group_cols, step);
  });
  return PG_OK;
}

int32_t pg_add_rms_norm(void* handle, float* out, int64_t out_stride, float* residual, int64_t residual_stride, const float* x,
                        int64_t x_stride, const float* weight, float eps, int64_t n, int64_t cols) {
  Context* context = as_context(handle);
  const auto kernel = context->kernels->rows->add_rms_norm;
  each_row(context, n, 2 * cols, [&](int64_t r) {
    kernel(out + r * out_stride, residual + r * residual_stride, x + r * x_stride, weight, eps, cols);
  });
  return PG_OK;
}

int32_t pg_layer_norm(void* handle, float* out, int64_t out_stride, const float* x, int64_t x_stride, const float* weight,
                      const float* bias, int64_t weight_cols, float eps, int64_t n, int64_t cols, int64_t group_cols) {
  Context* context = as_context(handle);
  if (!are_groups(cols, group_cols, weight_cols)) return refuse_groups(context, cols, group_cols, weight_cols);
  const int64_t step = weight_cols == group_cols ? 0 : group_cols;
  const auto kernel = context->kernels->rows->layer_norm;
  each_row(context, n, 2 * cols, [&](int64_t r) {
    kernel(out + r * out_stride, x + r * x_stride, weight, bias, eps, cols, group_cols, step);
  });
  return PG_OK;
}

int32_t pg_xielu(void* handle, float* x, int64_t x_stride, float alpha_p, float alpha_n, float beta, float eps, int64_t n,
                 int64_t cols) {
  Context* context = as_context(handle);
  const auto kernel = context->kernels->rows->xielu;
  each_row(context, n, 4 * cols, [&](int64_t r) { kernel(x + r * x_stride, alpha_p, alpha_n, beta, eps, cols); });
  return PG_OK;
}

int32_t pg_scale_rows(void* handle, float* x, int64_t x_stride, const float* factors, int64_t factor_stride, int64_t n,
                      int64_t cols) {
  Context* context = as_context(handle);
  const auto kernel = context->kernels->rows->scale;
  each_row(context, n, cols, [&](int64_t r) { kernel(x + r * x_stride, factors[r * factor_stride], cols); });
  return PG_OK;
}

int32_t pg_scale_by_position(void* handle, float* x, int64_t x_stride, const void* handle_of_step, float beta, int32_t period,
                             int32_t shift, int64_t cols) {
  Context* context = as_context(handle);
  const Step& step = *as_step(handle_of_step);
  if (period < 1) return fail(context, PG_E_ARGUMENT, "scale by position: a period of %d", period);
  const auto kernel = context->kernels->rows->scale;
  each_row(context, step.num_tokens, cols, [&](int64_t t) {
    const double periods = static_cast<double>((int64_t{step.positions[t]} + shift) / period);
    kernel(x + t * x_stride, static_cast<float>(1.0 + double{beta} * std::log1p(periods)), cols);
  });
  return PG_OK;
}

int32_t pg_add(void* handle, float* out, int64_t out_stride, const float* a, int64_t a_stride, const float* b, int64_t b_stride,
               float scale, int64_t n, int64_t cols) {
  Context* context = as_context(handle);
  const auto kernel = context->kernels->rows->add;
  each_row(context, n, cols, [&](int64_t r) { kernel(out + r * out_stride, a + r * a_stride, b + r * b_stride, scale, cols); });
  return PG_OK;
}

int32_t pg_scale(void* handle, float* x, int64_t x_stride, float factor, int64_t n, int64_t cols) {
  Context* context = as_context(handle);
  const auto kernel = context->kernels->rows->scale;
  each_row(context, n, cols, [&](int64_t r) { kernel(x + r * x_stride, factor, cols); });
  return PG_OK;
}

int32_t pg_clamp(void* handle, float* out, int64_t out_stride, const float* x, int64_t x_stride, float low, float high, int64_t n,
                 int64_t cols) {
  Context* context = as_context(handle);
  each_row(context, n, cols, [&](int64_t r) {
    float* to = out + r * out_stride;
    const float* from = x + r * x_stride;
    for (int64_t c = 0; c < cols; c++) to[c] = std::min(std::max(from[c], low), high);
  });
  return PG_OK;
}

int32_t pg_softcap(void* handle, float* x, int64_t x_stride, float cap, int64_t n, int64_t cols) {
  Context* context = as_context(handle);
  const auto kernel = context->kernels->rows->softcap;
  each_row(context, n, 4 * cols, [&](int64_t r) { kernel(x + r * x_stride, cap, cols); });
  return PG_OK;
}

int32_t pg_gated_activation(void* handle, float* out, int64_t out_stride, const float* gate, int64_t gate_stride,
                            const float* up, int64_t up_stride, int32_t kind, int64_t n, int64_t cols) {
  Context* context = as_context(handle);
  if (kind < 0 || kind >= kNumActivations) return fail(context, PG_E_ARGUMENT, "activation %d is unknown", kind);
  const auto kernel = context->kernels->rows->gate[kind];
  each_piece(context, n, cols, 4, [&](int64_t r, int64_t c, int64_t count) {
    kernel(out + r * out_stride + c, gate + r * gate_stride + c, up + r * up_stride + c, count);
  });
  return PG_OK;
}

int32_t pg_activation(void* handle, float* out, int64_t out_stride, const float* x, int64_t x_stride, int32_t kind, int64_t n,
                      int64_t cols) {
  Context* context = as_context(handle);
  if (kind < 0 || kind >= kNumActivations) return fail(context, PG_E_ARGUMENT, "activation %d is unknown", kind);
  const auto kernel = context->kernels->rows->activate[kind];
  each_row(context, n, 4 * cols, [&](int64_t r) { kernel(out + r * out_stride, x + r * x_stride, cols); });
  return PG_OK;
}

int32_t pg_copy_heads(void* handle, float* out, int64_t out_stride, const float* x, int64_t x_stride, int64_t n,
                      int64_t num_heads, int64_t width, int64_t out_head, int64_t out_offset, int64_t in_head,
                      int64_t in_offset) {
  each_row(as_context(handle), n, num_heads * width, [&](int64_t r) {
    for (int64_t h = 0; h < num_heads; h++)
      std::memcpy(out + r * out_stride + h * out_head + out_offset, x + r * x_stride + h * in_head + in_offset,
                  sizeof(float) * static_cast<size_t>(width));
  });
  return PG_OK;
}

int32_t pg_read_rows(float* out, const float* x, int64_t x_stride, int64_t n, int64_t cols) {
  for (int64_t r = 0; r < n; r++) std::memcpy(out + r * cols, x + r * x_stride, sizeof(float) * static_cast<size_t>(cols));
  return PG_OK;
}

}  // extern "C"
