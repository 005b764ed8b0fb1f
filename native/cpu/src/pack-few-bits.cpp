// Blocks of the types of one to three bits. Points of grids become a code for each coordinate: its level, and its sign in bit 3.
#include "grids.h"
#include "pack-block.h"

namespace pg {
namespace {

uint32_t word_at(const uint8_t* p) { return half_at(p) | static_cast<uint32_t>(half_at(p + 2)) << 16; }

// 7 sign bits, plus an 8th that makes the number of ones even.
uint32_t even_signs(uint32_t seven) { return seven | (static_cast<uint32_t>(__builtin_parity(seven)) << 7); }

// The eight (four) coordinates from element `at` on, each with its sign in bit 3.
void put_signed(Block& out, int at, uint64_t point, uint32_t signs) { put_eight(out.code + at, point | spread(signs) << 3); }
void put_signed_four(Block& out, int at, uint64_t point, uint32_t signs) {
  const uint64_t codes = point | spread(signs & 15) << 3;
  memcpy(out.code + at, &codes, 4);
}

int8_t odd(int scale) { return static_cast<int8_t>(2 * scale + 1); }

// Group g of a block of 256. Layouts: src/core/dequantize/grid-blocks.ts.
void read_grid_group(Block& out, Dtype dtype, const uint8_t* p, int g) {
  const uint64_t* grid = grid_of(dtype).point;
  out.half = half_at(p);
  switch (dtype) {
    case kDtypeIq2Xxs: {
      const uint8_t* q = p + 2 + 8 * g;
      const uint32_t word = word_at(q + 4);
      out.small[0] = odd(static_cast<int>(word >> 28));
      for (int i = 0; i < 4; i++) put_signed(out, 8 * i, grid[q[i]], even_signs(word >> 7 * i & 127));
      break;
    }
    case kDtypeIq2Xs:
      for (int i = 0; i < 2; i++) out.small[i] = odd(p[66 + g] >> 4 * i & 15);
      for (int i = 0; i < 4; i++) {
        const uint32_t word = half_at(p + 2 + 8 * g + 2 * i);
        put_signed(out, 8 * i, grid[word & 511], even_signs(word >> 9));
      }
      break;
    case kDtypeIq2S:
      for (int i = 0; i < 2; i++) out.small[i] = odd(p[74 + g] >> 4 * i & 15);
      for (int i = 0; i < 4; i++)
        put_signed(out, 8 * i, grid[p[2 + 4 * g + i] | (p[66 + g] >> 2 * i & 3) << 8], p[34 + 4 * g + i]);
      break;
    case kDtypeIq3Xxs: {
      const uint32_t word = word_at(p + 66 + 4 * g);
      out.small[0] = odd(static_cast<int>(word >> 28));
      for (int i = 0; i < 8; i++)
        put_signed_four(out, 4 * i, grid[p[2 + 8 * g + i]], even_signs(word >> 7 * (i / 2) & 127) >> 4 * (i % 2));
      break;
    }
    case kDtypeIq3S:
      out.small[0] = odd(p[106 + g / 2] >> 4 * (g % 2) & 15);
      for (int i = 0; i < 8; i++)
        put_signed_four(out, 4 * i, grid[p[2 + 8 * g + i] | (p[66 + g] >> i & 1) << 8], p[74 + 4 * g + i / 2] >> 4 * (i % 2));
      break;
    case kDtypeIq1S: {
      const int word = half_at(p + 34 + 2 * g);
      out.small[0] = odd(word >> 12 & 7);
      for (int i = 0; i < 4; i++)
        put_signed(out, 8 * i, grid[p[2 + 4 * g + i] | (word >> 3 * i & 7) << 8], word & 0x8000 ? 255 : 0);
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
        put_signed(out, 8 * i, grid[p[4 * g + i] | (nibble & 7) << 8], nibble & 8 ? 255 : 0);
      }
    }
  }
}

// Two to four levels of one factor, as codes minus 1. Layouts: src/core/dequantize/few-level-blocks.ts.
void read_levels(Block& out, Dtype dtype, const uint8_t* row, int64_t block) {
  constexpr int kPower[5] = {1, 3, 9, 27, 81};
  const uint8_t* p;
  switch (dtype) {
    case kDtypeTq1_0:
      p = row + block / 8 * 54;
      out.half = half_at(p + 52);
      for (int i = 0; i < 32; i++) {
        const int at = static_cast<int>(block % 8) * 32 + i;
        const int byte = at < 160 ? at % 32 : at < 240 ? 32 + (at - 160) % 16 : 48 + (at - 240) % 4;
        const int digit = at < 160 ? at / 32 : at < 240 ? (at - 160) / 16 : (at - 240) / 4;
        out.code[i] = static_cast<uint8_t>((p[byte] * kPower[digit] & 255) * 3 >> 8);
      }
      break;
    case kDtypeTq2_0:
      p = row + block / 8 * 66;
      out.half = half_at(p + 64);
      for (int i = 0; i < 32; i += 8)
        put_eight(out.code + i, eight_at(p + block % 8 / 4 * 32 + i) >> 2 * (block % 4) & each(3));
      break;
    case kDtypeQ1_0:
      p = row + block / 4 * 18;
      out.half = half_at(p);
      for (int i = 0; i < 4; i++) put_eight(out.code + 8 * i, spread(p[2 + block % 4 * 4 + i]) << 1);
      break;
    default:
      p = row + block / 2 * 18;
      out.half = half_at(p);
      for (int i = 0; i < 32; i++) out.code[i] = p[2 + block % 2 * 8 + i / 4] >> 2 * (i % 4) & 3;
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

}  // namespace

void read_few_bit_block(Block& out, Dtype dtype, const uint8_t* row, int64_t block) {
  const int64_t bytes = grid_block_bytes(dtype);
  if (bytes == 0) return read_levels(out, dtype, row, block);
  read_grid_group(out, dtype, row + block / kSuperBlocks * bytes, static_cast<int>(block % kSuperBlocks));
}

}  // namespace pg
