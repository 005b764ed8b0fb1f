// The end of a matmul tile: bias, scale, accumulate, store. The same operations for every encoding and tile shape.
#pragma once
#include "../matmul.h"
#include "simd.h"

namespace pg {
namespace PG_NS {

// sums [height][width]: width outputs from column `col` of the segment on, for rows of x from `row` on.
void finish(const Gemm& g, const float* sums, int64_t row, int64_t height, int64_t col, int64_t width);

}  // namespace PG_NS
}  // namespace pg
