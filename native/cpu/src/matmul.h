// What a matmul kernel is given. The driver (matmul.cpp) packs the activations once, cuts the work into rectangles of panels by
// row tiles, and calls the kernel of the segment's encoding on each from any thread.
#pragma once
#include <cstdint>

namespace pg {

// Rows of x are cut into tiles of nearly equal height, at most the variant's tile rows.
struct RowTiles {
  int64_t n = 0;
  int64_t count = 0;
  int64_t first(int64_t tile) const { return tile * n / count; }
};

struct Gemm {
  float* out;  // [n, rows of the segment], out_stride apart, already at the segment's first column
  int64_t out_stride;
  const float* bias;  // [rows of the segment] or null
  float scale;
  int32_t accumulate;
  const uint8_t* panels;
  int64_t panel_bytes;
  int64_t rows;  // of the segment
  int64_t cols;
  RowTiles tiles;
  const float* x;  // packed: tile with rows [a, b) is [cols][b - a] at x + a * cols
};

using GemmFn = void (*)(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end);

}  // namespace pg
