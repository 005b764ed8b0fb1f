// Which packer goes from which dtype to which encoding, and the sizes of both sides.
#include "pack.h"

namespace pg {
namespace {

struct DtypeInfo {
  int64_t block_cols;
  int64_t block_bytes;
  Encoding encoding;
};

constexpr DtypeInfo kDtypes[kNumDtypes] = {
    {1, 4, kEncodingF32},       // f32
    {1, 2, kEncodingF16},       // f16
    {1, 2, kEncodingBf16},      // bf16
    {1, 1, kEncodingBf16},      // f8_e4m3: every value is a bf16
    {1, 1, kEncodingBf16},      // f8_e5m2
    {32, 34, kEncodingQ8},      // q8_0
    {32, 18, kEncodingQ4},      // q4_0
    {32, 20, kEncodingQ4M},     // q4_1
    {32, 22, kEncodingQ5},      // q5_0
    {32, 24, kEncodingQ5M},     // q5_1
    {256, 84, kEncodingQ2K},    // q2_k
    {256, 110, kEncodingQ3K},   // q3_k
    {256, 144, kEncodingQ4K},   // q4_k
    {256, 176, kEncodingQ5K},   // q5_k
    {256, 210, kEncodingQ6K},   // q6_k
    {32, 18, kEncodingN4},      // iq4_nl
    {256, 136, kEncodingN4K},   // iq4_xs
    {32, 17, kEncodingMx4},     // mxfp4
    {64, 36, kEncodingBf16},    // nvfp4: every value is a bf16
    {256, 66, kEncodingN2K},    // iq2_xxs
    {256, 74, kEncodingN2H},    // iq2_xs
    {256, 82, kEncodingN2H},    // iq2_s
    {256, 98, kEncodingN3K},    // iq3_xxs
    {256, 110, kEncodingN3S},   // iq3_s
    {256, 50, kEncodingN1K},    // iq1_s
    {256, 56, kEncodingN1H},    // iq1_m
    {256, 54, kEncodingQ4},     // tq1_0
    {256, 66, kEncodingQ4},     // tq2_0
    {128, 18, kEncodingQ4},     // q1_0
    {64, 18, kEncodingQ4},      // q2_0
};

bool known(int32_t dtype) { return dtype >= 0 && dtype < kNumDtypes; }

}  // namespace

bool is_float(int32_t dtype) { return known(dtype) && kDtypes[dtype].block_cols == 1; }

int32_t own_encoding(int32_t dtype) { return known(dtype) ? kDtypes[dtype].encoding : -1; }

PackFn packer(int32_t dtype, int32_t encoding) {
  if (!known(dtype)) return nullptr;
  if (dtype == kDtypeNvfp4) return encoding == kEncodingBf16 ? pack_nvfp4 : nullptr;
  if (!is_float(dtype)) return encoding == kDtypes[dtype].encoding ? pack_blocks : nullptr;
  switch (encoding) {
    case kEncodingF32: return pack_f32;
    case kEncodingF16: return pack_f16;
    case kEncodingBf16: return pack_bf16;
    case kEncodingQ8: return quantize_q8;
    case kEncodingQ4: return quantize_q4;
    default: return nullptr;
  }
}

int64_t source_size(int32_t dtype, int64_t rows, int64_t cols) {
  if (!known(dtype) || cols % kDtypes[dtype].block_cols != 0) return -1;
  return rows * (cols / kDtypes[dtype].block_cols) * kDtypes[dtype].block_bytes;
}

int64_t panel_size(Encoding encoding, int64_t cols) {
  switch (encoding) {
    case kEncodingF32: return cols * kPanelRows * 4;
    case kEncodingF16: return cols * kPanelRows * 2;
    case kEncodingBf16: return (cols + 1) / 2 * kPanelRows * 4;
    default: break;
  }
  const EncodingSpec spec = spec_of(encoding);
  return (blocks_of(cols) + record_blocks(spec) - 1) / record_blocks(spec) * record_bytes(spec);
}

}  // namespace pg
