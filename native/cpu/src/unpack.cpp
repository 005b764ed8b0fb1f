#include "unpack.h"

#include "scalar.h"

namespace pg {
namespace {

float float_value(const uint8_t* panel, Encoding encoding, int64_t k, int64_t lane) {
  const uint16_t* halves = reinterpret_cast<const uint16_t*>(panel);
  switch (encoding) {
    case kEncodingF32: return reinterpret_cast<const float*>(panel)[k * kPanelRows + lane];
    case kEncodingF16: return s_from_f16(halves[k * kPanelRows + lane]);
    default: return s_from_bf16(halves[(k / 2 * kPanelRows + lane) * 2 + k % 2]);
  }
}

int32_t code_value(const uint8_t* panel, Codes codes, int64_t k, int64_t lane) {
  const uint8_t* block = panel + k / kBlockCols * code_bytes(codes);
  const int64_t group = k % kBlockCols / 4, column = k % 4;
  if (codes == Codes::kByte) return static_cast<int32_t>(block[group * 64 + lane * 4 + column]) - 128;
  const int32_t both = block[(group & 3) * 64 + lane * 4 + column];
  const int32_t nibble = group < 4 ? both & 15 : both >> 4;
  switch (codes) {
    case Codes::kIq4: return kIq4Values[nibble];
    case Codes::kMx4: return kMx4Values[nibble];
    case Codes::kNibbleOffset: return nibble - 8;
    default: return nibble;
  }
}

float factor_value(const uint8_t* at, Factor factor, int64_t blocks, int64_t k, int64_t lane) {
  const uint16_t* halves = reinterpret_cast<const uint16_t*>(at);
  const int64_t block = k / kBlockCols;
  const int8_t* smalls = reinterpret_cast<const int8_t*>(at) + (blocks + kSuperBlocks - 1) / kSuperBlocks * 32;
  switch (factor) {
    case Factor::kHalf: return s_from_f16(halves[block * kPanelRows + lane]);
    case Factor::kBhalf: return s_from_bf16(halves[block * kPanelRows + lane]);
    case Factor::kFloat: {
      float value;
      memcpy(&value, at + (block * kPanelRows + lane) * 4, 4);
      return value;
    }
    case Factor::kSuper:
    case Factor::kSuper16: {
      const int64_t index = factor == Factor::kSuper ? block : k / (kBlockCols / 2);
      return s_from_f16(halves[block / kSuperBlocks * kPanelRows + lane]) * static_cast<float>(smalls[index * kPanelRows + lane]);
    }
    default: return 0;
  }
}

}  // namespace

void unpack_row(float* out, const Weight& weight, int64_t row, float scale, bool accumulate) {
  const Segment* segment = weight.segments.data();
  while (row >= segment->first_row + segment->rows) segment++;
  const int64_t local = row - segment->first_row;
  const uint8_t* panel = segment->data + local / kPanelRows * segment->panel_bytes;
  const int64_t lane = local % kPanelRows;
  const EncodingSpec spec = spec_of(segment->encoding);
  const int64_t blocks = blocks_of(weight.cols);
  const uint8_t* scales = panel + blocks * code_bytes(spec.codes);
  const uint8_t* minimums = scales + factor_bytes(spec.scale, blocks);
  for (int64_t k = 0; k < weight.cols; k++) {
    float value;
    if (spec.codes == Codes::kFloat) {
      value = float_value(panel, segment->encoding, k, lane);
    } else {
      value = factor_value(scales, spec.scale, blocks, k, lane) * static_cast<float>(code_value(panel, spec.codes, k, lane)) +
              factor_value(minimums, spec.minimum, blocks, k, lane);
    }
    out[k] = accumulate ? out[k] + scale * value : scale * value;
  }
}

}  // namespace pg
