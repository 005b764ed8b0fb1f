// A packed weight: segments stacked along the rows, each with its own encoding (mixed-precision checkpoints stack, say, 4-bit
// queries and 6-bit values into one matrix).
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "arena.h"
#include "encoding.h"
#include "memory.h"
#include "pool.h"

namespace pg {

struct Segment {
  Encoding encoding;
  int64_t first_row;
  int64_t rows;
  int64_t panels;
  int64_t panel_bytes;
  uint8_t* data;  // [panels][panel_bytes], of `block`; null where the rows stay in the file
  ArenaBlock block;
  // Rows as the file has them, to be looked up one by one.
  std::shared_ptr<const FileMap> file;
  int32_t dtype;
  int64_t row_bytes;  // in the file
  int64_t bytes() const { return file == nullptr ? panels * panel_bytes : rows * row_bytes; }
};

struct Weight;

// The weight that was multiplied after another, by how many rows, and with which of its panels each worker begins: in the steps of a model it
// is the same one every time. The caller of the pool, worker 0, never waits for jobs and has none.
struct Following {
  const Weight* weight = nullptr;  // compared, never read
  int64_t n = 0;
  std::vector<Ahead> panels;  // [workers]
};

struct Weight {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<Segment> segments;
  // A panel for each worker, where rows stay in a file.
  std::vector<uint8_t> room;
  int64_t room_bytes = 0;  // of one worker
  mutable Following following;
};

}  // namespace pg
