// Rotary embedding: the table of a step, rotation in place, and rotation fused with the append of K and V to their slots.
//
// Angles are the f32 product position * inv_freq, as the checkpoints' own code computes them; cos and sin are taken in f64 and
// rounded, since one angle serves every layer and head.
#include <cmath>
#include <cstring>

#include "kv-pool.h"
#include "parallel-rows.h"
#include "step.h"

using namespace pg;

extern "C" {

int32_t pg_rotary_table(void* handle, float* cos, float* sin, const void* step, const float* inv_freq, int32_t half, float scale) {
  const int32_t* positions = as_step(step)->positions;
  constexpr int64_t kCost = 16;  // of a cosine and a sine, in numbers touched
  each_row(as_context(handle), as_step(step)->num_tokens, half * kCost, [&](int64_t t) {
    for (int32_t i = 0; i < half; i++) {
      const double angle = static_cast<float>(positions[t]) * inv_freq[i];
      cos[t * half + i] = static_cast<float>(std::cos(angle)) * scale;
      sin[t * half + i] = static_cast<float>(std::sin(angle)) * scale;
    }
  });
  return PG_OK;
}

int32_t pg_rotary(void* handle, float* x, int64_t x_stride, int64_t num_tokens, int64_t num_heads, int64_t head_dim,
                  int64_t offset, const float* cos, const float* sin, int32_t half, int32_t interleaved) {
  Context* context = as_context(handle);
  if (half < 0 || offset < 0 || offset + 2 * half > head_dim)
    return fail(context, PG_E_ARGUMENT, "rotary: %d numbers do not fit a head of %lld", 2 * half,
                static_cast<long long>(head_dim));
  const auto kernel = context->kernels->rows->rotate;
  each_row(context, num_tokens, num_heads * head_dim, [&](int64_t t) {
    const Rotation rotation{cos + t * half, sin + t * half, half, interleaved};
    for (int64_t h = 0; h < num_heads; h++) kernel(x + t * x_stride + h * head_dim + offset, rotation);
  });
  return PG_OK;
}

int32_t pg_rotary_append(void* handle, float* q, int64_t q_stride, int64_t q_heads, const float* k, int64_t k_stride,
                         const float* v, int64_t v_stride, const float* cos, const float* sin, int32_t half, int32_t interleaved,
                         const void* step, int32_t group, const void* handle_of_pool, int32_t layer) {
  Context* context = as_context(handle);
  const KvPool& pool = *as_pool(handle_of_pool);
  const int32_t key_dim = pool.key_dim;
  const int32_t value_dim = pool.value_dim;
  if (layer < 0 || layer >= pool.num_layers || half < 0 || 2 * half > key_dim)
    return fail(context, PG_E_ARGUMENT, "append: layer %d of %d, %d rotated numbers of %d", layer, pool.num_layers, 2 * half,
                key_dim);
  const StepGroup* table = find_group(context, *as_step(step), group, pool, "append");
  if (table == nullptr) return PG_E_ARGUMENT;

  const int32_t* slots = table->slots;
  const int64_t key_bytes = int64_t{key_dim} * pool.element_bytes;
  const int64_t value_bytes = int64_t{value_dim} * pool.element_bytes;
  const RowKernels& kernels = *context->kernels->rows;
  const int64_t cost = q_heads * key_dim + 2 * int64_t{pool.num_kv_heads} * (key_dim + value_dim);
  each_row(context, as_step(step)->num_tokens, cost, [&](int64_t t) {
    const int32_t page = slots[t] / pool.page_size;
    const int32_t slot = slots[t] % pool.page_size;
    Rotation rotation{nullptr, nullptr, half, interleaved};
    if (cos != nullptr) {
      rotation.cos = cos + t * half;
      rotation.sin = sin + t * half;
    }
    if (cos != nullptr)
      for (int64_t h = 0; h < q_heads; h++) kernels.rotate(q + t * q_stride + h * key_dim, rotation);
    for (int32_t h = 0; h < pool.num_kv_heads; h++) {
      float rotated[kMaxHeadDim];
      const float* key = k + t * k_stride + int64_t{h} * key_dim;
      if (cos != nullptr) {
        std::memcpy(rotated, key, sizeof(float) * static_cast<size_t>(key_dim));
        kernels.rotate(rotated, rotation);
        key = rotated;
      }
      const bool scaled = pool.has_scales();
      uint8_t* key_row = pool.keys(page, layer, h) + slot * key_bytes;
      uint8_t* value_row = pool.values(page, layer, h) + slot * value_bytes;
      kernels.write_head(key_row, scaled ? pool.scales(page, layer, 0, h) + slot : nullptr, pool.dtype, key, key_dim);
      if (pool.latent) continue;  // the value is part of the key
      kernels.write_head(value_row, scaled ? pool.scales(page, layer, 1, h) + slot : nullptr, pool.dtype,
                         v + t * v_stride + int64_t{h} * value_dim, value_dim);
    }
  });
  return PG_OK;
}

}  // extern "C"
