#pragma once
#include <cstdint>

#include "encoding.h"

namespace pg {

// Coordinates as numbers of levels: 8 of 2 bits, or 4 of 4 bits (iq3), the first lowest.
struct Grid {
  uint16_t point[2048];
};

const Grid& grid_of(Dtype dtype);

}  // namespace pg
