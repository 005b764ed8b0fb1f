// A block of native memory that grows and keeps no content: per-worker scratch, partial states. Grown at load or the first time
// an op meets a larger shape, never in a steady step.
#pragma once
#include <cstdint>

#include "memory.h"

namespace pg {

class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { release(data_, bytes_); }
  // False when the system has no more; the old block is gone then.
  bool reserve(int64_t bytes) {
    if (bytes <= bytes_) return true;
    release(data_, bytes_);
    data_ = static_cast<uint8_t*>(allocate(bytes));
    bytes_ = data_ == nullptr ? 0 : bytes;
    return data_ != nullptr;
  }
  uint8_t* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  uint8_t* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace pg
