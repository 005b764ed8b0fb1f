// Activations into the order the matmul kernels read: one tile of rows at a time.
//   pack_float  [rows][cols] -> [cols][rows]
//   pack_int    quantises blocks of 32: scale = max|x| / 127, q = round to nearest even of x * (127 / max|x|); see IntRows.
// Written so that the compiler vectorises it: integer maximum of the magnitudes' bits, rounding by adding 1.5 * 2^23.
#include "matmul.h"

namespace pg {
namespace PG_NS {

void pack_float(float* out, const float* x, int64_t x_stride, int64_t height, int64_t cols) {
  for (int64_t i = 0; i < height; i++) {
    const float* from = x + i * x_stride;
    for (int64_t k = 0; k < cols; k++) out[k * height + i] = from[k];
  }
}

namespace {

struct QuantizedBlock {
  float scale;
  int32_t sum_lo, sum_hi;
  uint8_t q[32];
};

// A NaN or infinity in the block makes the scale NaN or infinite and so reaches the output.
PG_INLINE void quantize_block(QuantizedBlock& block, const float* x) {
  int32_t bits[32];
  memcpy(bits, x, sizeof bits);
  int32_t most = 0;
  for (int k = 0; k < 32; k++) {
    const int32_t magnitude = bits[k] & 0x7fffffff;
    most = magnitude > most ? magnitude : most;
  }
  const float max = s_from_bits((uint32_t)most);
  block.scale = max * (1.0f / 127.0f);
  const float inverse = max > 0.0f ? 127.0f / max : 0.0f;
  int32_t q[32];
  for (int k = 0; k < 32; k++) {
    const float shifted = x[k] * inverse + 12582912.0f;  // 1.5 * 2^23: the low bits are now the rounded integer
    int32_t low;
    memcpy(&low, &shifted, 4);
    q[k] = low - 0x4b400000;
  }
  int32_t lo = 0, hi = 0;
  for (int k = 0; k < 16; k++) lo += q[k];
  for (int k = 16; k < 32; k++) hi += q[k];
  for (int k = 0; k < 32; k++) block.q[k] = (uint8_t)q[k];
  block.sum_lo = lo;
  block.sum_hi = hi;
}

}  // namespace

void pack_int(uint8_t* out, const float* x, int64_t x_stride, int64_t height, int64_t cols) {
  const int64_t blocks = (cols + 31) / 32;
  uint8_t* side = out + blocks * 32 * height;
  const auto put = [&](int64_t block, int32_t field, int64_t row, const void* word) {
    memcpy(side + ((block * kSideFields + field) * height + row) * 4, word, 4);
  };
  for (int64_t i = 0; i < height; i++)
    for (int64_t b = 0; b < blocks; b++) {
      QuantizedBlock block;
      const int64_t left = cols - b * 32;
      if (left >= 32) {
        quantize_block(block, x + i * x_stride + b * 32);
      } else {
        float padded[32] = {};
        memcpy(padded, x + i * x_stride + b * 32, (size_t)left * sizeof(float));
        quantize_block(block, padded);
      }
      for (int group = 0; group < 8; group++) memcpy(out + ((b * 8 + group) * height + i) * 4, block.q + group * 4, 4);
      const int32_t sum = block.sum_lo + block.sum_hi;
      const int32_t starts[4] = {-128 * sum, -8 * sum, -128 * block.sum_lo, -128 * block.sum_hi};
      const float totals[3] = {block.scale * (float)sum, block.scale * (float)block.sum_lo,
                               block.scale * (float)block.sum_hi};
      put(b, kSideScale, i, &block.scale);
      for (int f = 0; f < 4; f++) put(b, kSideMinus128 + f, i, &starts[f]);
      for (int f = 0; f < 3; f++) put(b, kSideSum + f, i, &totals[f]);
    }
}

}  // namespace PG_NS
}  // namespace pg
