// Into integer panels: block formats re-ordered without loss, float rows quantised.
//
// Each (row, block of 32) becomes a Block: the codes as the panel stores them and the factors; four rows at a time go to their lanes.
#include <array>
#include <cmath>
#include <utility>

#include "pack-few-bits.h"
#include "pack-lanes.h"
#include "pack.h"
#include "scalar.h"

namespace pg {
namespace {

uint16_t negated(uint16_t half) { return half ^ 0x8000; }

[[gnu::always_inline]] inline void nibbles(Block& out, const uint8_t* pairs) {
  out.code[0] = bytes_at(pairs) & 15;
  out.code[1] = down(bytes_at(pairs), 4) & 15;
}

// 5-bit codes: a fifth bit for each element in a 32-bit word, nibbles as above.
[[gnu::always_inline]] inline void five_bits(Block& out, const uint8_t* word, const uint8_t* pairs) {
  nibbles(out, pairs);
  for (int j = 0; j < 2; j++) out.code[j] |= bytes_of(spread(word[2 * j]) << 4, spread(word[2 * j + 1]) << 4);
}

// The 6-bit scale (or minimum) of group g in the 12 bytes of q4_k and q5_k.
int8_t packed_scale(const uint8_t* p, int g) {
  return static_cast<int8_t>(g < 4 ? p[g] & 63 : (p[g + 4] & 15) | p[g - 4] >> 6 << 4);
}
int8_t packed_min(const uint8_t* p, int g) {
  return static_cast<int8_t>(g < 4 ? p[g + 4] & 63 : p[g + 4] >> 4 | p[g] >> 6 << 4);
}

[[gnu::always_inline]] inline void read_block(Block& out, Dtype dtype, const uint64_t* grid, const uint8_t* row, int64_t block) {
  const int64_t super = block / kSuperBlocks;
  const int g = static_cast<int>(block % kSuperBlocks);  // the group of 32 within a block of 256
  switch (dtype) {
    case kDtypeQ8_0: {
      const uint8_t* p = row + block * 34;
      out.half = half_at(p);
      for (int j = 0; j < 2; j++) out.code[j] = bytes_at(p + 2 + 16 * j) ^ 0x80;
      break;
    }
    case kDtypeQ4_0:
    case kDtypeIq4Nl: {
      const uint8_t* p = row + block * 18;
      out.half = half_at(p);
      nibbles(out, p + 2);
      break;
    }
    case kDtypeQ4_1: {
      const uint8_t* p = row + block * 20;
      out.half = half_at(p);
      out.half_min = half_at(p + 2);
      nibbles(out, p + 4);
      break;
    }
    case kDtypeQ5_0: {
      const uint8_t* p = row + block * 22;
      out.half = half_at(p);
      five_bits(out, p + 2, p + 6);
      break;
    }
    case kDtypeQ5_1: {
      const uint8_t* p = row + block * 24;
      out.half = half_at(p);
      out.half_min = half_at(p + 2);
      five_bits(out, p + 4, p + 8);
      break;
    }
    case kDtypeMxfp4: {
      // Table values are twice the e2m1 ones, so the factor is 2^(e - 128): a bf16 for every e.
      const uint8_t* p = row + block * 17;
      out.half = s_to_bf16(std::ldexp(1.0f, p[0] - 128));
      nibbles(out, p + 1);
      break;
    }
    case kDtypeIq4Xs: {
      const uint8_t* p = row + super * 136;
      out.half = half_at(p);
      const int low = p[4 + g / 2] >> 4 * (g % 2) & 15, high = half_at(p + 2) >> 2 * g & 3;
      out.small[0] = static_cast<int8_t>((low | high << 4) - 32);
      nibbles(out, p + 8 + 16 * g);
      break;
    }
    case kDtypeQ4K:
    case kDtypeQ5K: {
      const bool five = dtype == kDtypeQ5K;
      const uint8_t* p = row + super * (five ? 176 : 144);
      out.half = half_at(p);
      out.half_min = negated(half_at(p + 2));
      out.small[0] = packed_scale(p + 4, g);
      out.small_min[0] = packed_min(p + 4, g);
      const uint8_t* codes = p + (five ? 48 : 16) + 32 * (g / 2);
      for (int j = 0; j < 2; j++) {
        const Bytes nibble = down(bytes_at(codes + 16 * j), 4 * (g % 2)) & 15;
        out.code[j] = five ? nibble | up(down(bytes_at(p + 16 + 16 * j), g) & 1, 4) : nibble;
      }
      break;
    }
    case kDtypeQ6K: {
      const uint8_t* p = row + super * 210;
      out.half = half_at(p + 208);
      for (int i = 0; i < 2; i++) out.small[i] = static_cast<int8_t>(p[192 + 2 * g + i]);
      const uint8_t* low = p + 64 * (g / 4) + 32 * (g % 2);
      const uint8_t* high = p + 128 + 32 * (g / 4);
      for (int j = 0; j < 2; j++) {
        const Bytes nibble = down(bytes_at(low + 16 * j), 4 * (g / 2 % 2)) & 15;
        out.code[j] = nibble | up(down(bytes_at(high + 16 * j), 2 * (g % 4)) & 3, 4);
      }
      break;
    }
    case kDtypeQ3K: {
      const uint8_t* p = row + super * 110;
      out.half = half_at(p + 108);
      for (int i = 0; i < 2; i++) {
        const int s = 2 * g + i;
        const int low = p[96 + s % 8] >> 4 * (s / 8) & 15, high = p[104 + s % 4] >> 2 * (s / 4) & 3;
        out.small[i] = static_cast<int8_t>((low | high << 4) - 32);
      }
      const uint8_t* codes = p + 32 + 32 * (g / 4);
      for (int j = 0; j < 2; j++) {
        const Bytes low = down(bytes_at(codes + 16 * j), 2 * (g % 4)) & 3;
        out.code[j] = low | up(down(bytes_at(p + 16 * j), g) & 1, 2);
      }
      break;
    }
    case kDtypeQ2K: {
      const uint8_t* p = row + super * 84;
      out.half = half_at(p + 80);
      out.half_min = negated(half_at(p + 82));
      for (int i = 0; i < 2; i++) {
        out.small[i] = static_cast<int8_t>(p[2 * g + i] & 15);
        out.small_min[i] = static_cast<int8_t>(p[2 * g + i] >> 4);
      }
      const uint8_t* codes = p + 16 + 32 * (g / 4);
      for (int j = 0; j < 2; j++) out.code[j] = down(bytes_at(codes + 16 * j), 2 * (g % 4)) & 3;
      break;
    }
    default: read_few_bit_block(out, dtype, grid, row, block);
  }
}

// To an integer within [low, high]; NaN becomes low.
int to_int(float value, int low, int high) {
  return value > static_cast<float>(low) ? value < static_cast<float>(high) ? static_cast<int>(value) : high : low;
}

// q8_0: d = max|x| / 127, code = round(x / d), halves away from zero. The steps are those of src/core/dequantize/quantize.ts.
void quantize_block_q8(Block& out, const float* x) {
  float max = 0;
  for (int j = 0; j < 32; j++) max = std::fabs(x[j]) > max ? std::fabs(x[j]) : max;
  const float d = max / 127.0f;
  const float inverse = d == 0 ? 0.0f : 1.0f / d;
  out.half = s_to_f16(d);
  for (int j = 0; j < 32; j++) out.code[j / 16][j % 16] = static_cast<uint8_t>(to_int(std::round(x[j] * inverse), -127, 127) + 128);
}

// q4_0: the value of largest magnitude becomes code 0, which stands for -8.
void quantize_block_q4(Block& out, const float* x) {
  // The magnitude is kept beside the value: taking it again at every step is what V8 11 gets wrong.
  float largest = 0, most = 0;
  for (int j = 0; j < 32; j++) {
    const float magnitude = std::fabs(x[j]);
    largest = magnitude > most ? x[j] : largest;
    most = magnitude > most ? magnitude : most;
  }
  const float d = largest / -8.0f;
  const float inverse = d == 0 ? 0.0f : 1.0f / d;
  out.half = s_to_f16(d);
  for (int j = 0; j < 32; j++) out.code[j / 16][j % 16] = static_cast<uint8_t>(to_int(x[j] * inverse + 8.5f, 0, 15));
}

// fill(block, lane, index) for every block of the panel's rows; rows that are absent keep factors of zero.
template <class Fill>
[[gnu::always_inline]] inline void fill_panel(uint8_t* panel, const EncodingSpec& spec, const Source& source, int64_t first_row, Fill fill) {
  const int64_t blocks = blocks_of(source.cols);
  const int64_t rows = source.rows - first_row < kPanelRows ? source.rows - first_row : kPanelRows;
  for (int64_t lane = 0; lane < rows; lane += kPackLanes)
    for (int64_t b = 0; b < blocks; b++) {
      Block lanes[kPackLanes];
      each_lane([&](int i) __attribute__((always_inline)) {
        lanes[i] = {};
        if (lane + i < rows) fill(lanes[i], lane + i, b);
      });
      put_lanes(panel, spec, b, lane, lanes);
    }
}

void quantize(uint8_t* panel, Encoding encoding, const Source& source, int64_t first_row, void (*one)(Block&, const float*)) {
  fill_panel(panel, spec_of(encoding), source, first_row, [&](Block& block, int64_t lane, int64_t b) __attribute__((always_inline)) {
    float values[kBlockCols] = {0};  // past the last column they stay zero
    const int64_t first = b * kBlockCols;
    read_cols(values, source, first_row + lane, first, source.cols - first < kBlockCols ? source.cols - first : kBlockCols);
    one(block, values);
  });
}

}  // namespace

void quantize_q8(uint8_t* panel, const Source& source, int64_t first_row) {
  quantize(panel, kEncodingQ8, source, first_row, quantize_block_q8);
}

void quantize_q4(uint8_t* panel, const Source& source, int64_t first_row) {
  quantize(panel, kEncodingQ4, source, first_row, quantize_block_q4);
}

namespace {

// The packers of block formats, one for each, so that its layouts are constants.
template <int32_t D>
void pack_blocks_of(uint8_t* panel, const Source& source, int64_t first_row) {
  constexpr Dtype dtype = static_cast<Dtype>(D);
  constexpr EncodingSpec spec = spec_of(own_encoding(D));
  const int64_t row_bytes = source_size(D, 1, source.cols);
  const uint64_t* grid = grid_block_bytes(dtype) == 0 ? nullptr : grid_of(dtype).point;
  fill_panel(panel, spec, source, first_row, [&](Block& block, int64_t lane, int64_t b) __attribute__((always_inline)) {
    read_block(block, dtype, grid, source.data + (first_row + lane) * row_bytes, b);
  });
}

template <size_t... D>
constexpr std::array<PackFn, sizeof...(D)> block_packers(std::index_sequence<D...>) {
  return {pack_blocks_of<static_cast<int32_t>(D)>...};
}

}  // namespace

PackFn block_packer(int32_t dtype) {
  static constexpr auto kPackers = block_packers(std::make_index_sequence<kNumDtypes>());
  return kPackers[static_cast<size_t>(dtype)];
}

}  // namespace pg
