// Matmul of bf16 weights on tiles and the layout of x that it reads.
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

// Bf16 tiles: x to the nearest bf16, [steps][height][32], for up to 16 rows; columns beyond x are zero. Few rows lie close together, so that
// they stay in L1; a tile that is loaded from fewer rows than 16 has what follows in memory below them.
constexpr int64_t x_step_bytes(int64_t height) { return height * kStepCols * 2; }
int64_t bf16_tile_bytes(int64_t cols);
void pack_bf16_rows(uint8_t* out, const RowsToPack& rows);

// Panels that a worker runs side by side over the same rows of x.
constexpr int32_t kTilePanels = 4;

// Both read bf16 tiles.
extern const GemmFn gemm_bf16_tiles;
extern const GemmFn gemm_bf12_tiles;

// Bytes that a worker needs beside the operands.
int64_t bf16_scratch_bytes();

}  // namespace PG_NS
}  // namespace pg
