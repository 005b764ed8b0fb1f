// Activations into the layouts of tile-matmul.h.
#include "../kernels/quantize-block.h"
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

void pack_bf16_rows(uint8_t* out, const float* x, int64_t x_stride, int64_t height, int64_t cols, bool) {
  if (height < kTileRows) memset(out, 0, (size_t)(steps_of(cols) * kStepTileBytes));
  for (int64_t step = 0; step < steps_of(cols); step++)
    for (int64_t i = 0; i < height; i++) {
      const float* from = x + i * x_stride + step * kStepCols;
      const int64_t left = cols - step * kStepCols;
      __m256i* to = (__m256i*)(out + step * kStepTileBytes + i * kStepCols * 2);
      _mm256_storeu_si256(to, to_bf16(load_up_to(from, left)));
      _mm256_storeu_si256(to + 1, to_bf16(load_up_to(from + 16, left - 16)));
    }
}

int64_t int_tiles_bytes(int64_t cols) { return blocks_of(cols) * kIntRows * (kBlockCols + 4); }

void pack_int_tiles(uint8_t* out, const float* x, int64_t x_stride, int64_t height, int64_t cols, bool) {
  const int64_t blocks = blocks_of(cols);
  float padded[kBlockCols] = {};  // the last block, where it is short
  float* scales = (float*)(out + blocks * kIntRows * kBlockCols);
  if (height < kIntRows) memset(out, 0, (size_t)int_tiles_bytes(cols));
  for (int64_t b = 0; b < blocks; b++)
    for (int64_t i = 0; i < height; i++) {
      const float* from = x + i * x_stride + b * kBlockCols;
      if (cols - b * kBlockCols < kBlockCols) {
        memcpy(padded, from, (size_t)(cols - b * kBlockCols) * sizeof(float));
        from = padded;
      }
      QuantizedBlock block;
      quantize_block(block, from);
      memcpy(out + (b * kIntRows + i) * kBlockCols, block.q, kBlockCols);
      scales[b * kIntRows + i] = block.scale;
    }
}

}  // namespace PG_NS
}  // namespace pg
