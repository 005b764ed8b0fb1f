// Activations into the order the matmul kernels read: one tile of rows at a time.
//   pack_float  [height][cols] -> [cols][height]
//   pack_int    int8 blocks of 32 (quantize-block.h), in the layout of matmul.h
#include "matmul.h"
#include "quantize-block.h"
#include "transpose.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int64_t whole_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }
}  // namespace

int64_t float_tile_bytes(int64_t cols) { return whole_lines(kFloatTileRows * cols * 4); }
#if PG_ISA == 3
int64_t tall_tile_bytes(int64_t cols) { return whole_lines(kTallTileRows * cols * 4); }
#endif
int64_t int_tile_bytes(int64_t cols) { return whole_lines((cols + 31) / 32 * kIntTileRows * (32 + 4 * kSideFields)); }

void pack_float(uint8_t* tile, const RowsToPack& rows) {
  float* out = (float*)tile;
  const int64_t height = rows.height, end = rows.end;
  int64_t k = rows.begin;
#if PG_ISA >= 2
  // Columns are stored a whole vector wide, the last rows first; what spills into the next column is overwritten by it. So the last
  // columns are not.
  for (; height > 1 && (k + VL) * height + VL <= end * height; k += VL) {
    for (int64_t first = (height - 1) / VL * VL; first >= 0; first -= VL) {
      vf square[VL];
#pragma GCC unroll 16
      for (int i = 0; i < VL; i++) square[i] = first + i < height ? v_load(rows.x + (first + i) * rows.stride + k) : v_set(0.0f);
      transpose(square);
#pragma GCC unroll 16
      for (int j = 0; j < VL; j++) v_store(out + (k + j) * height + first, square[j]);
    }
  }
#elif PG_NEON || PG_WASM
  const int64_t fours = height / 4 * 4;
  for (; k + 4 <= end; k += 4) {
    for (int64_t i = 0; i < fours; i += 4) {
      vf square[4];
      for (int j = 0; j < 4; j++) square[j] = v_load(rows.x + (i + j) * rows.stride + k);
      transpose4(square);
      for (int j = 0; j < 4; j++) v_store(out + (k + j) * height + i, square[j]);
    }
    for (int64_t i = fours; i < height; i++)
      for (int64_t c = k; c < k + 4; c++) out[c * height + i] = rows.x[i * rows.stride + c];
  }
#endif
  for (int64_t i = 0; i < height; i++)
    for (int64_t c = k; c < end; c++) out[c * height + i] = rows.x[i * rows.stride + c];
}

void pack_int(uint8_t* out, const RowsToPack& rows) {
  const int64_t blocks = (rows.cols + 31) / 32, height = rows.height;
  float padded[32] = {};  // the last block, where it is short
  for (int64_t b = rows.begin / 32; b * 32 < rows.end; b++) {
    uint8_t* codes = out + b * 32 * height;
    uint8_t* side = out + blocks * 32 * height + b * kSideFields * 4 * height;
    const int64_t left = rows.cols - b * 32;
    for (int64_t i = 0; i < height; i++) {
      const float* from = rows.x + i * rows.stride + b * 32;
      if (left < 32) {
        memcpy(padded, from, (size_t)left * sizeof(float));
        from = padded;
      }
      QuantizedBlock block;
      quantize_block(block, from);
#pragma GCC unroll 8
      for (int group = 0; group < 8; group++) memcpy(codes + (group * height + i) * 4, block.q + group * 4, 4);
      const auto put = [&](int32_t field, const void* word) { memcpy(side + (field * height + i) * 4, word, 4); };
      const int32_t sum = block.sum_lo + block.sum_hi;
      const int32_t starts[4] = {-128 * sum, -8 * sum, -8 * block.sum_lo, -8 * block.sum_hi};
      put(kSideScale, &block.scale);
      put(kSideMinus128, &starts[0]);
      put(kSideMinus8, &starts[1]);
      if (!rows.all_fields) continue;
      const float totals[3] = {block.scale * (float)sum, block.scale * (float)block.sum_lo,
                               block.scale * (float)block.sum_hi};
      put(kSideMinus8Lo, &starts[2]);
      put(kSideMinus8Hi, &starts[3]);
      for (int f = 0; f < 3; f++) put(kSideSum + f, &totals[f]);
    }
  }
}

}  // namespace PG_NS
}  // namespace pg
