// Declarations of the matmul kernels of one variant; what they compute is told in matmul-float.cpp.
#pragma once
#include "../matmul.h"
#include "simd.h"

namespace pg {
namespace PG_NS {

// Rows of x per register tile: with two vectors of outputs beside them the accumulators fill the register file.
#if PG_ISA == 3
constexpr int kFloatTileRows = 14;
constexpr int kFloatVectors = 2;  // 32 outputs: two panels
#elif PG_ISA == 2
constexpr int kFloatTileRows = 6;
constexpr int kFloatVectors = 2;  // 16 outputs: one panel
#elif defined(__aarch64__)
constexpr int kFloatTileRows = 6;
constexpr int kFloatVectors = 4;  // 16 outputs: one panel
#else
constexpr int kFloatTileRows = 2;
constexpr int kFloatVectors = 4;
#endif

void pack_float(float* out, const float* x, int64_t x_stride, int64_t tile_rows, int64_t cols);
void gemm_f32(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end);
void gemm_f16(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end);
void gemm_bf16(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end);

}  // namespace PG_NS
}  // namespace pg
