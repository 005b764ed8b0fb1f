#include "pack.h"

#include "scalar.h"

namespace pg {
namespace {

float read_float(const Source& source, int64_t row, int64_t col) {
  const int64_t at = source.transposed ? col * source.rows + row : row * source.cols + col;
  switch (source.dtype) {
    case kDtypeF32: {
      float value;
      memcpy(&value, source.data + at * 4, 4);  // file offsets need not be aligned
      return value;
    }
    case kDtypeF16:
    case kDtypeBf16: {
      uint16_t half;
      memcpy(&half, source.data + at * 2, 2);
      return source.dtype == kDtypeF16 ? s_from_f16(half) : s_from_bf16(half);
    }
  }
  return 0;
}

void pack_f32(uint8_t* panel, const Source& source, int64_t first_row) {
  float* out = reinterpret_cast<float*>(panel);  // [cols][16]
  for (int64_t r = 0; r < kPanelRows && first_row + r < source.rows; r++)
    for (int64_t k = 0; k < source.cols; k++) out[k * kPanelRows + r] = read_float(source, first_row + r, k);
}

void pack_f16(uint8_t* panel, const Source& source, int64_t first_row) {
  uint16_t* out = reinterpret_cast<uint16_t*>(panel);  // [cols][16]
  for (int64_t r = 0; r < kPanelRows && first_row + r < source.rows; r++)
    for (int64_t k = 0; k < source.cols; k++) out[k * kPanelRows + r] = s_to_f16(read_float(source, first_row + r, k));
}

void pack_bf16(uint8_t* panel, const Source& source, int64_t first_row) {
  uint16_t* out = reinterpret_cast<uint16_t*>(panel);  // [cols/2][16][2]
  for (int64_t r = 0; r < kPanelRows && first_row + r < source.rows; r++)
    for (int64_t k = 0; k < source.cols; k++)
      out[(k / 2 * kPanelRows + r) * 2 + k % 2] = s_to_bf16(read_float(source, first_row + r, k));
}

}  // namespace

bool is_float(int32_t dtype) { return dtype == kDtypeF32 || dtype == kDtypeF16 || dtype == kDtypeBf16; }

int32_t own_encoding(int32_t dtype) {
  switch (dtype) {
    case kDtypeF32: return kEncodingF32;
    case kDtypeF16: return kEncodingF16;
    case kDtypeBf16: return kEncodingBf16;
  }
  return -1;
}

PackFn packer(int32_t dtype, int32_t encoding) {
  if (!is_float(dtype)) return nullptr;
  switch (encoding) {
    case kEncodingF32: return pack_f32;
    case kEncodingF16: return pack_f16;
    case kEncodingBf16: return pack_bf16;
  }
  return nullptr;
}

int64_t source_size(int32_t dtype, int64_t rows, int64_t cols) {
  switch (dtype) {
    case kDtypeF32: return rows * cols * 4;
    case kDtypeF16:
    case kDtypeBf16: return rows * cols * 2;
  }
  return -1;
}

int64_t panel_size(Encoding encoding, int64_t cols) {
  switch (encoding) {
    case kEncodingF32: return cols * kPanelRows * 4;
    case kEncodingF16: return cols * kPanelRows * 2;
    case kEncodingBf16: return (cols + 1) / 2 * kPanelRows * 4;
    default: return 0;
  }
}

}  // namespace pg
