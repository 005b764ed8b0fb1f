// The end of a matmul tile: bias, scale, accumulate, store. The same operations for every encoding and tile shape.
#pragma once
#include "../matmul.h"
#include "simd.h"

namespace pg {
namespace PG_NS {

// Writes one vector of one output row; `valid` < VL at the end of the matrix only.
PG_INLINE void finish(const Gemm& g, int64_t row, int64_t col, vf sum, int64_t valid) {
  float* out = g.out + row * g.out_stride + col;
  if (valid >= VL) {
    if (g.bias) sum = v_add(sum, v_load(g.bias + col));
    sum = v_mul(sum, v_set(g.scale));
    if (g.accumulate) sum = v_add(v_load(out), sum);
    v_store(out, sum);
    return;
  }
  float lanes[VL];
  v_store(lanes, sum);
  for (int64_t i = 0; i < valid; i++) {
    const float value = (g.bias ? lanes[i] + g.bias[col + i] : lanes[i]) * g.scale;
    out[i] = g.accumulate ? out[i] + value : value;
  }
}

}  // namespace PG_NS
}  // namespace pg
