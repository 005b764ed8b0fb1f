// One row's block of 32 columns on its way into an integer panel.
#pragma once
#include <cstdint>

#include "encoding.h"

namespace pg {

struct Block {
  uint8_t code[kBlockCols];       // as the panel stores them
  uint16_t half, half_min;        // kHalf, kBhalf; of the super block for kSuper and kSuper16
  int8_t small[2], small_min[2];  // kSuper uses the first
};

inline uint16_t half_at(const uint8_t* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }

// pack-few-bits.cpp: the types of one to three bits that are not k-quants. `block` counts blocks of 32 from the row's start.
void read_few_bit_block(Block& out, Dtype dtype, const uint8_t* row, int64_t block);

}  // namespace pg
