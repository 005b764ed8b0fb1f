// Blocks of the types of one to three bits. Points of grids become a code for each coordinate: its level, and its sign in bit 3.
#pragma once
#include "grids.h"
#include "pack-block.h"

namespace pg {

inline uint32_t word_at(const uint8_t* p) { return half_at(p) | static_cast<uint32_t>(half_at(p + 2)) << 16; }

// Signs as they are in codes: byte i is 8 where bit i is set. Looked up, since taking bits apart costs more than all else of a block.
struct SignBytes {
  uint64_t of[256];
  uint64_t of_seven[128];  // whose 8th makes the number of ones even
};
constexpr SignBytes sign_bytes() {
  SignBytes out = {};
  for (uint32_t bits = 0; bits < 256; bits++) out.of[bits] = spread(bits) << 3;
  for (uint32_t bits = 0; bits < 128; bits++) out.of_seven[bits] = out.of[bits | static_cast<uint32_t>(__builtin_parity(bits)) << 7];
  return out;
}
constexpr SignBytes kSigns = sign_bytes();

inline int8_t odd(int scale) { return static_cast<int8_t>(2 * scale + 1); }

// Group g of a block of 256, by points of eight coordinates (iq3: of twice four). Layouts: src/core/dequantize/grid-blocks.ts.
[[gnu::always_inline]] inline void read_grid_group(Block& out, Dtype dtype, const uint64_t* grid, const uint8_t* p, int g) {
  out.half = half_at(p);
  uint64_t point[4];
  uint64_t signs[4];  // bytes
  switch (dtype) {
    case kDtypeIq2Xxs: {
      const uint8_t* q = p + 2 + 8 * g;
      const uint32_t word = word_at(q + 4);
      out.small[0] = odd(static_cast<int>(word >> 28));
      for (int i = 0; i < 4; i++) {
        point[i] = grid[q[i]];
        signs[i] = kSigns.of_seven[word >> 7 * i & 127];
      }
      break;
    }
    case kDtypeIq2Xs:
      for (int i = 0; i < 2; i++) out.small[i] = odd(p[66 + g] >> 4 * i & 15);
      for (int i = 0; i < 4; i++) {
        const uint32_t word = half_at(p + 2 + 8 * g + 2 * i);
        point[i] = grid[word & 511];
        signs[i] = kSigns.of_seven[word >> 9];
      }
      break;
    case kDtypeIq2S:
      for (int i = 0; i < 2; i++) out.small[i] = odd(p[74 + g] >> 4 * i & 15);
      for (int i = 0; i < 4; i++) {
        point[i] = grid[p[2 + 4 * g + i] | (p[66 + g] << (8 - 2 * i) & 768)];
        signs[i] = kSigns.of[p[34 + 4 * g + i]];
      }
      break;
    case kDtypeIq3Xxs: {
      const uint8_t* q = p + 2 + 8 * g;
      const uint32_t word = word_at(p + 66 + 4 * g);
      out.small[0] = odd(static_cast<int>(word >> 28));
      for (int i = 0; i < 4; i++) {
        point[i] = grid[q[2 * i]] | grid[q[2 * i + 1]] << 32;
        signs[i] = kSigns.of_seven[word >> 7 * i & 127];
      }
      break;
    }
    case kDtypeIq3S: {
      const uint8_t* q = p + 2 + 8 * g;
      const int ninth = p[66 + g];
      out.small[0] = odd(p[106 + g / 2] >> 4 * (g % 2) & 15);
      for (int i = 0; i < 4; i++) {
        point[i] = grid[q[2 * i] | (ninth << (8 - 2 * i) & 256)] | grid[q[2 * i + 1] | (ninth << (7 - 2 * i) & 256)] << 32;
        signs[i] = kSigns.of[p[74 + 4 * g + i]];
      }
      break;
    }
    case kDtypeIq1S: {
      const int word = half_at(p + 34 + 2 * g);
      out.small[0] = odd(word >> 12 & 7);
      for (int i = 0; i < 4; i++) {
        point[i] = grid[p[2 + 4 * g + i] | (word >> 3 * i & 7) << 8];
        signs[i] = each(static_cast<uint64_t>(word >> 12 & 8));
      }
      break;
    }
    default: {  // iq1_m: the factor is four bits of each of four words
      uint32_t half = 0;
      for (int i = 0; i < 4; i++) half |= static_cast<uint32_t>(half_at(p + 48 + 2 * i) >> 12) << 4 * i;
      out.half = static_cast<uint16_t>(half);
      const int scales = half_at(p + 48 + 2 * (g / 2)) >> 6 * (g % 2);
      for (int i = 0; i < 2; i++) out.small[i] = odd(scales >> 3 * i & 7);
      for (int i = 0; i < 4; i++) {
        const int nibble = p[32 + 2 * g + i / 2] >> 4 * (i % 2) & 15;
        point[i] = grid[p[4 * g + i] | (nibble & 7) << 8];
        signs[i] = each(static_cast<uint64_t>(nibble & 8));
      }
    }
  }
  for (int i = 0; i < 2; i++) out.code[i] = bytes_of(point[2 * i] | signs[2 * i], point[2 * i + 1] | signs[2 * i + 1]);
}

// The digit of every byte that `power` brings to the front, of numbers in base 3 as fractions of 256.
[[gnu::always_inline]] inline Bytes digit(Bytes numbers, int power) {
  const Bytes front = numbers * static_cast<uint8_t>(power);
  return (reinterpret_cast<Bytes>(front > 85) & 1) + (reinterpret_cast<Bytes>(front > 170) & 1);
}

// Two to four levels of one factor, as codes minus 1. Layouts: src/core/dequantize/few-level-blocks.ts.
[[gnu::always_inline]] inline void read_levels(Block& out, Dtype dtype, const uint8_t* row, int64_t block) {
  constexpr int kPower[5] = {1, 3, 9, 27, 81};
  const int g = static_cast<int>(block % 8);
  const uint8_t* p;
  switch (dtype) {
    case kDtypeTq1_0:
      p = row + block / 8 * 54;
      out.half = half_at(p + 52);
      if (g < 5) {
        for (int i = 0; i < 2; i++) out.code[i] = digit(bytes_at(p + 16 * i), kPower[g]);
      } else {
        const int first = 2 * (g - 5);
        const uint32_t word = word_at(p + 48);
        const Words last = {word, word, word, word};
        const Bytes powers = {1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27};
        out.code[0] = digit(bytes_at(p + 32), kPower[first]);
        out.code[1] = g < 7 ? digit(bytes_at(p + 32), kPower[first + 1]) : digit(reinterpret_cast<Bytes>(last) * powers, 1);
      }
      break;
    case kDtypeTq2_0:
      p = row + block / 8 * 66;
      out.half = half_at(p + 64);
      for (int i = 0; i < 2; i++)
        out.code[i] = down(bytes_at(p + block % 8 / 4 * 32 + 16 * i), static_cast<int>(2 * (block % 4))) & 3;
      break;
    case kDtypeQ1_0:
      p = row + block / 4 * 18;
      out.half = half_at(p);
      for (int i = 0; i < 2; i++) {
        const uint8_t* bits = p + 2 + block % 4 * 4 + 2 * i;
        out.code[i] = bytes_of(spread(bits[0]) << 1, spread(bits[1]) << 1);
      }
      break;
    default:
      p = row + block / 2 * 18;
      out.half = half_at(p);
      for (int i = 0; i < 32; i++) out.code[i / 16][i % 16] = p[2 + block % 2 * 8 + i / 4] >> 2 * (i % 4) & 3;
  }
}

constexpr int64_t grid_block_bytes(Dtype dtype) {
  switch (dtype) {
    case kDtypeIq2Xxs: return 66;
    case kDtypeIq2Xs: return 74;
    case kDtypeIq2S: return 82;
    case kDtypeIq3Xxs: return 98;
    case kDtypeIq3S: return 110;
    case kDtypeIq1S: return 50;
    case kDtypeIq1M: return 56;
    default: return 0;
  }
}

[[gnu::always_inline]] inline void read_few_bit_block(Block& out, Dtype dtype, const uint64_t* grid, const uint8_t* row, int64_t block) {
  const int64_t bytes = grid_block_bytes(dtype);
  if (bytes == 0) return read_levels(out, dtype, row, block);
  read_grid_group(out, dtype, grid, row + block / kSuperBlocks * bytes, static_cast<int>(block % kSuperBlocks));
}

}  // namespace pg
