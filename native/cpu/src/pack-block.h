// One row's block of 32 columns on its way into an integer panel.
#pragma once
#include <cstdint>
#include <cstring>

#include "encoding.h"

namespace pg {

struct Block {
  alignas(8) uint8_t code[kBlockCols];  // as the panel stores them
  uint16_t half, half_min;        // kHalf, kBhalf; of the super block for kSuper and kSuper16
  int8_t small[2], small_min[2];  // kSuper uses the first
};

// Eight codes at a time, a byte each.
inline uint64_t eight_at(const uint8_t* p) { uint64_t v; memcpy(&v, p, 8); return v; }
inline void put_eight(uint8_t* p, uint64_t codes) { memcpy(p, &codes, 8); }
constexpr uint64_t each(uint64_t byte) { return byte * 0x0101010101010101u; }
// Bit i becomes byte i, 0 or 1.
constexpr uint64_t spread(uint64_t bits) { return ((bits * each(1) & 0x8040201008040201u) + each(0x7f)) >> 7 & each(1); }

inline uint16_t half_at(const uint8_t* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }

// pack-few-bits.cpp: the types of one to three bits that are not k-quants. `block` counts blocks of 32 from the row's start.
void read_few_bit_block(Block& out, Dtype dtype, const uint8_t* row, int64_t block);

}  // namespace pg
