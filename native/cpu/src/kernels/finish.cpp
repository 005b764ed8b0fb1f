#include "finish.h"

namespace pg {
namespace PG_NS {

void finish(const Gemm& g, const float* sums, int64_t row, int64_t height, int64_t col, int64_t width) {
  const int64_t valid = g.rows - col < width ? g.rows - col : width;  // fewer at the end of the matrix
  for (int64_t i = 0; i < height; i++) {
    const float* from = sums + i * width;
    float* out = g.out + (row + i - g.first_row) * g.out_stride + (col - g.first_col);
    int64_t j = 0;
    for (; j + VL <= valid; j += VL) {
      vf sum = v_load(from + j);
      if (g.bias) sum = v_add(sum, v_load(g.bias + col + j));
      sum = v_mul(sum, v_set(g.scale));
      if (g.accumulate) sum = v_add(v_load(out + j), sum);
      v_store(out + j, sum);
    }
    for (; j < valid; j++) {
      const float value = (g.bias ? from[j] + g.bias[col + j] : from[j]) * g.scale;
      out[j] = g.accumulate ? out[j] + value : value;
    }
  }
}

}  // namespace PG_NS
}  // namespace pg
