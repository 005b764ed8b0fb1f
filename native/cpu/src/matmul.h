// What a matmul kernel is given. The driver (matmul.cpp) packs the activations once, cuts the work into rectangles of panels by
// row tiles, and calls the kernel of the segment's encoding on each from any thread.
#pragma once
#include <cstdint>

namespace pg {

// Rows of x are cut into `count` tiles: of nearly equal height, or of the full height with a shorter last one. Equal tiles waste
// the least where arithmetic decides; a full first tile hides the most of the memory's time where reading weights does.
struct RowTiles {
  int64_t n = 0;
  int64_t count = 0;
  int64_t full = 0;  // 0: equal
  int64_t first(int64_t tile) const {
    const int64_t row = full > 0 ? tile * full : tile * n / count;
    return row < n ? row : n;
  }
  int64_t height(int64_t tile) const { return first(tile + 1) - first(tile); }
};

// Activations as int8 blocks of 32 for integer weights: x = scale * q, |q| <= 127. Tile t begins at quants + t * tile_bytes.
//   quants [blocks][8 groups][height][4 columns]
//   side   [blocks][kSideFields][height] of 4 bytes: what the kernels need per (block, row) besides the integers
struct IntRows {
  uint8_t* data = nullptr;
  int64_t tile_bytes = 0;
};

// Fields of `side`. Stored codes are unsigned and larger than their values by an offset that is a power of two: starting the sum
// at -offset * sum(q) takes that back, exactly.
enum Side : int32_t {
  kSideScale,     // f32
  kSideMinus128,  // i32: -128 * sum(q)
  kSideMinus8,    // i32: -8 * sum(q)
  kSideMinus8Lo,  // i32: the same for each half of the block
  kSideMinus8Hi,
  kSideSum,    // f32: scale * sum(q), the factor of minimums
  kSideSumLo,  // f32: of each half
  kSideSumHi,
  kSideFields
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
  const float* x;  // float weights: tile with rows [a, b) is [cols][b - a] at x + a * cols
  IntRows ints;    // integer weights
};

using GemmFn = void (*)(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end);

}  // namespace pg
