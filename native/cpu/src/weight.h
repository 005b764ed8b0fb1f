// A packed weight: segments stacked along the rows, each with its own encoding (mixed-precision checkpoints stack, say, 4-bit
// queries and 6-bit values into one matrix).
#pragma once
#include <cstdint>
#include <vector>

#include "arena.h"
#include "encoding.h"

namespace pg {

struct Segment {
  Encoding encoding;
  int64_t first_row;
  int64_t rows;
  int64_t panels;
  int64_t panel_bytes;
  uint8_t* data;  // [panels][panel_bytes], of `block`
  ArenaBlock block;
  int64_t bytes() const { return panels * panel_bytes; }
};

struct Weight {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<Segment> segments;
};

}  // namespace pg
