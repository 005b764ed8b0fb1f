// Activations into the layout of tile-matmul.h.
#include "round-bf16.h"
#include "tile-matmul.h"

namespace pg {
namespace PG_NS {
namespace {

PG_INLINE __m512 load_up_to(const float* x, int64_t left) {
  return _mm512_maskz_loadu_ps(left >= 16 ? 0xffff : left <= 0 ? 0 : (__mmask16)((1u << left) - 1), x);
}

}  // namespace

// An odd number of kSlotBytes: tiles a power of two apart would have the same columns in the same few sets of L2.
int64_t bf16_tile_bytes(int64_t cols) {
  constexpr int64_t kSlotBytes = 8 * kStepTileBytes;
  return ((steps_of(cols) * kStepTileBytes + kSlotBytes - 1) / kSlotBytes | 1) * kSlotBytes;
}

void pack_bf16_rows(uint8_t* out, const RowsToPack& rows) {
  for (int64_t step = rows.begin / kStepCols; step < steps_of(rows.end); step++) {
    uint8_t* tile = out + step * x_step_bytes(rows.height);
    for (int64_t i = 0; i < rows.height; i++) {
      const float* from = rows.x + i * rows.stride + step * kStepCols;
      const int64_t left = rows.cols - step * kStepCols;
      __m256i* to = (__m256i*)(tile + i * kStepCols * 2);
      _mm256_storeu_si256(to, to_bf16(load_up_to(from, left)));
      _mm256_storeu_si256(to + 1, to_bf16(load_up_to(from + 16, left - 16)));
    }
  }
}

}  // namespace PG_NS
}  // namespace pg
