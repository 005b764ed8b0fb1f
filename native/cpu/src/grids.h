#pragma once
#include <cstdint>

#include "encoding.h"

namespace pg {

// Coordinates as numbers of levels, a byte each, the first lowest: 8 of them, or 4 (iq3).
struct Grid {
  uint64_t point[2048];
};

const Grid& grid_of(Dtype dtype);

}  // namespace pg
