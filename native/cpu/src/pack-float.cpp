// Float sources to float panels.
#include <cmath>

#include "pack.h"
#include "scalar.h"

namespace pg {
namespace {

// Source elements by their number. Sources need not be aligned.
template <class T>
PG_INLINE T element(const uint8_t* data, int64_t i) { T value; memcpy(&value, data + i * sizeof(T), sizeof(T)); return value; }
struct F32 {
  PG_INLINE float read(const uint8_t* data, int64_t i) { return element<float>(data, i); }
};
struct F16 {
  PG_INLINE float read(const uint8_t* data, int64_t i) { return s_from_f16(element<uint16_t>(data, i)); }
};
struct Bf16 {
  PG_INLINE float read(const uint8_t* data, int64_t i) { return s_from_bf16(element<uint16_t>(data, i)); }
};
// 4 exponent bits (bias 7), 3 of fraction, no infinities, all ones is NaN.
struct F8E4M3 {
  PG_INLINE float read(const uint8_t* data, int64_t i) {
    const uint32_t sign = (uint32_t)(data[i] & 0x80) << 24, rest = data[i] & 0x7f;
    if (rest == 0x7f) return s_from_bits(sign | 0x7fc00000u);
    return s_from_bits(sign | s_bits(s_from_bits(rest << 20) * s_from_bits(0x7b800000u)));  // * 2^120
  }
};
// The upper half of an f16.
struct F8E5M2 {
  PG_INLINE float read(const uint8_t* data, int64_t i) { return s_from_f16((uint16_t)(data[i] << 8)); }
};
// Blocks of 64: a scale, then the codes. Every value is a bf16.
struct F8E4M3Block {
  PG_INLINE float read(const uint8_t* data, int64_t i) {
    const uint8_t* block = data + i / 64 * 68;
    return s_from_bf16(s_to_bf16(element<float>(block, 0) * F8E4M3::read(block + 4, i % 64)));
  }
};

// Calls body(column, row in panel, value) for the source rows of the panel.
template <class From, class Body>
PG_INLINE void each(const Source& source, int64_t first_row, Body body) {
  const int64_t rows = source.rows - first_row < kPanelRows ? source.rows - first_row : kPanelRows;
  if (source.transposed) {
    for (int64_t k = 0; k < source.cols; k++) {
      for (int64_t r = 0; r < rows; r++) body(k, r, From::read(source.data, k * source.rows + first_row + r));
    }
    return;
  }
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t k = 0; k < source.cols; k++) body(k, r, From::read(source.data, (first_row + r) * source.cols + k));
  }
}

template <class From>
void read_some(float* out, const Source& source, int64_t row, int64_t first, int64_t count) {
  const int64_t start = source.transposed ? first * source.rows + row : row * source.cols + first;
  const int64_t step = source.transposed ? source.rows : 1;
  for (int64_t k = 0; k < count; k++) out[k] = From::read(source.data, start + k * step);
}

template <class Body>
void each_of(const Source& source, int64_t first_row, Body body) {
  switch (source.dtype) {
    case kDtypeF32: return each<F32>(source, first_row, body);
    case kDtypeF16: return each<F16>(source, first_row, body);
    case kDtypeBf16: return each<Bf16>(source, first_row, body);
    case kDtypeF8E4M3: return each<F8E4M3>(source, first_row, body);
    case kDtypeF8E5M2: return each<F8E5M2>(source, first_row, body);
    case kDtypeF8E4M3_64: return each<F8E4M3Block>(source, first_row, body);
    default: return;
  }
}

}  // namespace

void pack_f32(uint8_t* panel, const Source& source, int64_t first_row) {
  float* out = reinterpret_cast<float*>(panel);  // [cols][16]
  each_of(source, first_row, [out](int64_t k, int64_t r, float value) { out[k * kPanelRows + r] = value; });
}

void pack_f16(uint8_t* panel, const Source& source, int64_t first_row) {
  uint16_t* out = reinterpret_cast<uint16_t*>(panel);  // [cols][16]
  each_of(source, first_row, [out](int64_t k, int64_t r, float value) { out[k * kPanelRows + r] = s_to_f16(value); });
}

void pack_bf16(uint8_t* panel, const Source& source, int64_t first_row) {
  uint16_t* out = reinterpret_cast<uint16_t*>(panel);  // [cols/2][16][2]
  each_of(source, first_row,
          [out](int64_t k, int64_t r, float value) { out[(k / 2 * kPanelRows + r) * 2 + k % 2] = s_to_bf16(value); });
}

// Blocks of 64: 4 scales, then for each 16 elements 8 nibble pairs, low nibbles first.
void pack_nvfp4(uint8_t* panel, const Source& source, int64_t first_row) {
  uint16_t* out = reinterpret_cast<uint16_t*>(panel);  // [cols/2][32][2]
  const int64_t rows = source.rows - first_row < kPanelRows ? source.rows - first_row : kPanelRows;
  for (int64_t r = 0; r < rows; r++) {
    const uint8_t* row = source.data + source_size(kDtypeNvfp4, first_row + r, source.cols);
    for (int64_t k = 0; k < source.cols; k++) {
      const uint8_t* block = row + k / 64 * 36;
      const int64_t group = k % 64 / 16, i = k % 16;
      const uint8_t pair = block[4 + group * 8 + i % 8];
      // An e4m3 without sign, zero where that has its NaN; table values are twice the e2m1 ones.
      const uint8_t byte = block[group];
      const int exponent = byte >> 3 & 15, mantissa = byte & 7;
      const float scale = byte == 0x7f ? 0.0f
                          : exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -10)
                                          : std::ldexp(static_cast<float>(8 + mantissa), exponent - 11);
      out[(k / 2 * kPanelRows + r) * 2 + k % 2] = s_to_bf16(scale * kMx4Values[i < 8 ? pair & 15 : pair >> 4]);
    }
  }
}

void read_cols(float* out, const Source& source, int64_t row, int64_t first, int64_t count) {
  switch (source.dtype) {
    case kDtypeF32: return read_some<F32>(out, source, row, first, count);
    case kDtypeF16: return read_some<F16>(out, source, row, first, count);
    case kDtypeBf16: return read_some<Bf16>(out, source, row, first, count);
    case kDtypeF8E4M3: return read_some<F8E4M3>(out, source, row, first, count);
    case kDtypeF8E5M2: return read_some<F8E5M2>(out, source, row, first, count);
    case kDtypeF8E4M3_64: return read_some<F8E4M3Block>(out, source, row, first, count);
    default: return;
  }
}

}  // namespace pg
