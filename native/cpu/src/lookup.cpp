// The ops that turn a step's integers into rows: embedding, learned positions and types, the rows whose logits are wanted.
#include <cstring>

#include "parallel-rows.h"
#include "step.h"
#include "unpack.h"

using namespace pg;

namespace {

int32_t lookup(Context* context, float* out, int64_t out_stride, Weight& weight, const int32_t* ids, int64_t count,
               float scale, bool accumulate) {
  if (out_stride < weight.cols) return fail(context, PG_E_ARGUMENT, "lookup: the output is too narrow");
  for (const Segment& segment : weight.segments)
    if (segment.encoding >= kEncodingSpan8) return fail(context, PG_E_ARGUMENT, "lookup: the weight is only to be multiplied");
  for (int64_t t = 0; t < count; t++)
    if (ids[t] < 0 || ids[t] >= weight.rows)
      return fail(context, PG_E_ARGUMENT, "lookup: %d is outside the table of %lld rows", ids[t],
                  static_cast<long long>(weight.rows));
  constexpr int64_t kCost = 4;  // of unpacking a number, in numbers touched
  each_row(context, count, weight.cols * kCost,
           [&](int64_t t, int32_t worker) {
             unpack_row(out + t * out_stride, weight, ids[t], scale, accumulate, weight.room.data() + worker * weight.room_bytes);
           });
  return PG_OK;
}

}  // namespace

extern "C" {

int32_t pg_embed(void* handle, float* out, int64_t out_stride, const void* weight, const void* step, float scale) {
  const Step& s = *as_step(step);
  return lookup(as_context(handle), out, out_stride, *static_cast<Weight*>(const_cast<void*>(weight)), s.input_of, s.num_tokens, scale, false);
}

int32_t pg_add_positions(void* handle, float* out, int64_t out_stride, const void* weight, const void* step) {
  const Step& s = *as_step(step);
  return lookup(as_context(handle), out, out_stride, *static_cast<Weight*>(const_cast<void*>(weight)), s.positions, s.num_tokens, 1.0f, true);
}

int32_t pg_add_types(void* handle, float* out, int64_t out_stride, const void* weight, const void* step) {
  const Step& s = *as_step(step);
  return lookup(as_context(handle), out, out_stride, *static_cast<Weight*>(const_cast<void*>(weight)), s.type_of, s.num_tokens, 1.0f, true);
}

int32_t pg_gather_logit_rows(void* handle, float* out, int64_t out_stride, const float* x, int64_t x_stride, const void* step,
                             int64_t first, int64_t n, int64_t cols) {
  Context* context = as_context(handle);
  const Step& s = *as_step(step);
  if (first < 0 || n < 0 || first > s.num_logit_rows - n)
    return fail(context, PG_E_ARGUMENT, "gather: logit rows %lld and %lld more of %d", static_cast<long long>(first),
                static_cast<long long>(n), s.num_logit_rows);
  each_row(context, n, cols, [&](int64_t r) {
    std::memcpy(out + r * out_stride, x + s.logit_rows[first + r] * x_stride, sizeof(float) * static_cast<size_t>(cols));
  });
  return PG_OK;
}

}  // extern "C"
