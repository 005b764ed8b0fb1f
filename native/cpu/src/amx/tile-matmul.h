// Matmul on tiles and the layout of x that it reads.
#pragma once
#include "../encoding.h"
#include "../kernels/matmul.h"
#include "tiles.h"

namespace pg {
namespace PG_NS {

// A step is 32 columns: 16 rows of x by 32 bf16 are one tile.
constexpr int64_t kStepCols = 32;
constexpr int64_t kStepTileBytes = kTileRows * kStepCols * 2;
constexpr int64_t steps_of(int64_t cols) { return (cols + kStepCols - 1) / kStepCols; }

// Split tiles: [steps][1 or 2 tiles][16 rows][32] bf16; rows and columns beyond x are zero.
// x = high + low, each a bf16, together 16 bits of fraction. Two tiles are the high and the low parts of 16 rows; up to 8 rows there
// is one: high parts in its rows 0..7, low parts in rows 8..15.
int64_t split_tile_bytes(int64_t cols);
void pack_split_rows(uint8_t* out, const float* x, int64_t x_stride, int64_t height, int64_t cols, bool all_fields);

// Panels of bf16 weights that a worker runs side by side over the same rows of x, and the bytes it needs for their sums.
constexpr int32_t kTilePanels = 4;
int64_t tile_scratch_bytes(int64_t cols);

extern const GemmFn gemm_bf16_tiles;  // reads split tiles

}  // namespace PG_NS
}  // namespace pg
