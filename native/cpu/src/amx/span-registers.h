// The tile registers of one or two row tiles by a panel, whichever operand x is.
#pragma once
#include "span-matmul.h"

namespace pg {
namespace PG_NS {

// Sums of the row tiles by two halves of the outputs, then one of x for each row tile and one of bytes.
enum : int { kSums, kX = 2 * (int)kSomeTiles, kBytes = kX + (int)kSomeTiles };

template <int T>
PG_INLINE void zero_sums() {
  tile_zero<kSums>();
  tile_zero<kSums + 1>();
  if constexpr (T == 2) {
    tile_zero<kSums + 2>();
    tile_zero<kSums + 3>();
  }
}

}  // namespace PG_NS
}  // namespace pg
