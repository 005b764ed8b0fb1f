// Matmul on tiles: the layout of x, the tiles of weights, and the kernels.
#pragma once
#include "../encoding.h"
#include "../kernels/matmul.h"
#include "tiles.h"

namespace pg {
namespace PG_NS {

// A step is 32 columns: 16 rows of x by 32 bf16 are one tile, and so are 32 columns, in pairs, by 16 outputs.
constexpr int64_t kStepCols = 32;
constexpr int64_t kTileBytes = kTileRows * kStepCols * 2;
constexpr int64_t kPanelStepBytes = 2 * kTileBytes;  // 32 outputs
constexpr int64_t steps_of(int64_t cols) { return (cols + kStepCols - 1) / kStepCols; }

// x: up to 32 rows, [steps][1 or 2 halves of 16 rows][16 rows][32] bf16; rows and columns beyond x are zero. Up to 16 rows there is
// one half.
constexpr int64_t kRowTileRows = 2 * kTileRows;
int64_t row_tile_bytes(int64_t cols);
void pack_row_tile(uint8_t* out, const float* x, int64_t x_stride, int64_t height, int64_t cols, bool all_fields);

// Panels that a worker runs side by side over the same rows of x.
constexpr int32_t kTilePanels = 4;

// The kernel of an encoding; null: the one of avx512 is kept.
GemmFn tile_gemm_of(int32_t encoding);
GemmFn tile_gemm_of_super(int32_t encoding);

// Bytes that a worker needs beside the operands.
int64_t tile_scratch_bytes();

}  // namespace PG_NS
}  // namespace pg
