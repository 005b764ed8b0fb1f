// A block of native memory that grows and keeps no content: per-worker scratch, partial states. Grown at load or the first time
// an op meets a larger shape, never in a steady step. Zeroed when it grows.
#pragma once
#include <cstdint>

#include "memory.h"

namespace pg {

class Scratch {
 public:
  // False when the system has no more; the old block is gone then.
  bool reserve(int64_t bytes) {
    if (bytes <= this->bytes()) return true;
    block_.reset();
    block_ = allocate_block(bytes);
    return block_ != nullptr;
  }
  uint8_t* data() const { return static_cast<uint8_t*>(block_.get()); }
  int64_t bytes() const { return block_ == nullptr ? 0 : block_.get_deleter().bytes; }

 private:
  MemoryBlock block_;
};

}  // namespace pg
