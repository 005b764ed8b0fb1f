// Which packer goes from which dtype to which encoding, and the sizes of both sides.
#include "pack.h"

namespace pg {
namespace {

bool known(int32_t dtype) { return dtype >= 0 && dtype < kNumDtypes; }

}  // namespace

bool is_float(int32_t dtype) { return known(dtype) && (kDtypes[dtype].block_cols == 1 || dtype == kDtypeF8E4M3_64); }

PackFn packer(int32_t dtype, int32_t encoding) {
  if (!known(dtype)) return nullptr;
  if (dtype == kDtypeNvfp4) return encoding == kEncodingBf16 ? pack_nvfp4 : nullptr;
  if (!is_float(dtype)) return encoding == kDtypes[dtype].encoding ? block_packer(dtype) : nullptr;
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
