// Which kernel multiplies an encoding with so many rows, and how rows are cut into its tiles.
#pragma once
#include "kernels.h"

namespace pg {

inline RowTiles tiles_of(const LayoutSpec& layout, int64_t n) {
  return {n, (n + layout.tile_rows - 1) / layout.tile_rows, layout.equal ? 0 : layout.tile_rows};
}

inline const MatmulKernel& kernel_for(const Kernels& kernels, Encoding encoding, int64_t n) {
  const MatmulKernel& many = kernels.matmul_many[encoding];
  return many.run != nullptr && n >= (many.from > 0 ? many.from : kernels.many_rows) ? many : kernels.matmul[encoding];
}

}  // namespace pg
