// One row's block of 32 columns on its way into an integer panel, and the bytes it is made of, sixteen at a time.
#pragma once
#include <cstdint>
#include <cstring>

#include "encoding.h"

namespace pg {

typedef uint8_t Bytes __attribute__((vector_size(16)));
typedef uint64_t Longs __attribute__((vector_size(16)));
typedef uint32_t Words __attribute__((vector_size(16)));

struct Block {
  Bytes code[2];                  // of columns 0 to 15 and 16 to 31, as the panel stores them
  uint16_t half, half_min;        // kHalf, kBhalf; of the super block for kSuper and kSuper16
  int8_t small[2], small_min[2];  // kSuper uses the first
};

[[gnu::always_inline]] inline Bytes bytes_at(const uint8_t* p) { Bytes v; memcpy(&v, p, 16); return v; }
[[gnu::always_inline]] inline Bytes bytes_of(uint64_t low, uint64_t high) { return reinterpret_cast<Bytes>(Longs{low, high}); }
// Bits of the neighbouring byte come in: mask them away.
[[gnu::always_inline]] inline Bytes down(Bytes v, int bits) { return reinterpret_cast<Bytes>(reinterpret_cast<Longs>(v) >> bits); }
[[gnu::always_inline]] inline Bytes up(Bytes v, int bits) { return reinterpret_cast<Bytes>(reinterpret_cast<Longs>(v) << bits); }

// Eight bytes in a word.
constexpr uint64_t each(uint64_t byte) { return byte * 0x0101010101010101u; }
// Bit i becomes byte i, 0 or 1.
constexpr uint64_t spread(uint64_t bits) { return ((bits * each(1) & 0x8040201008040201u) + each(0x7f)) >> 7 & each(1); }

inline uint16_t half_at(const uint8_t* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }

}  // namespace pg
