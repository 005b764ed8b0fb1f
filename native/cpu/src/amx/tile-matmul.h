// Matmul on tiles and the layouts of x that it reads.
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

// Bf16 tiles: x to the nearest bf16, 16 rows, [steps][16 rows][32]; rows and columns beyond x are zero.
int64_t bf16_tile_bytes(int64_t cols);
void pack_bf16_rows(uint8_t* out, const float* x, int64_t x_stride, int64_t height, int64_t cols, bool all_fields);

// Int tiles, in the place of kLayoutIntPairs (integers for matrix instructions): those of kLayoutInt for up to 32 rows,
// [blocks][2][16 rows][32 columns], then their scales, [blocks][32] f32. Rows beyond x are zero.
constexpr int64_t kIntRows = 32;
int64_t int_tiles_bytes(int64_t cols);
void pack_int_tiles(uint8_t* out, const float* x, int64_t x_stride, int64_t height, int64_t cols, bool all_fields);

// Panels that a worker runs side by side over the same rows of x.
constexpr int32_t kTilePanels = 4;

extern const GemmFn gemm_bf16_tiles;                // reads bf16 tiles
extern const GemmFn gemm_q8_tiles, gemm_q4_tiles;  // read int tiles; the bits of gemm_q8 and gemm_q4

extern const GemmFn gemm_q8_lines, gemm_q4_lines;  // gemm_q8 and gemm_q4 themselves (int-rows.cpp)

// Bytes that a worker needs beside the operands: the most of any kernel here.
int64_t bf16_scratch_bytes();
int64_t int_scratch_bytes();

}  // namespace PG_NS
}  // namespace pg
