// Activations into the layout of tile-matmul.h: x to the nearest bf16.
#include "tile-matmul.h"

namespace pg {
namespace PG_NS {
namespace {

PG_INLINE __m512 load_up_to(const float* x, int64_t left) {
  return _mm512_maskz_loadu_ps(left >= 16 ? 0xffff : left <= 0 ? 0 : (__mmask16)((1u << left) - 1), x);
}

}  // namespace

int64_t row_tile_bytes(int64_t cols) { return steps_of(cols) * 2 * kTileBytes; }

void pack_row_tile(uint8_t* out, const float* x, int64_t x_stride, int64_t height, int64_t cols, bool) {
  const int64_t halves = height > kTileRows ? 2 : 1, step_bytes = halves * kTileBytes;
  if (height < halves * kTileRows) memset(out, 0, (size_t)(steps_of(cols) * step_bytes));
  for (int64_t step = 0; step < steps_of(cols); step++)
    for (int64_t i = 0; i < height; i++) {
      const float* from = x + i * x_stride + step * kStepCols;
      const int64_t left = cols - step * kStepCols;
      _mm512_storeu_si512(out + step * step_bytes + i * kStepCols * 2, to_bf16(load_up_to(from, left), load_up_to(from + 16, left - 16)));
    }
}

}  // namespace PG_NS
}  // namespace pg
