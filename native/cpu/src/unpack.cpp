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

int32_t code_value(const uint8_t* codes, Codes kind, int64_t k, int64_t lane) {
  const int64_t group = k % kBlockCols / 4, column = k % 4;
  if (kind == Codes::kByte) return static_cast<int32_t>(codes[(group * kPanelRows + lane) * 4 + column]) - 128;
  const int32_t both = codes[((group & 3) * kPanelRows + lane) * 4 + column];
  const int32_t nibble = group < 4 ? both & 15 : both >> 4;
  switch (kind) {
    case Codes::kIq4: return kIq4Values[nibble];
    case Codes::kMx4: return kMx4Values[nibble];
    case Codes::kNibbleOffset: return nibble - 8;
    default: return nibble;
  }
}

// half: index of the half block within the record.
float factor_value(const uint8_t* at, Factor factor, int64_t half, int64_t lane) {
  uint16_t bits = 0;
  switch (factor) {
    case Factor::kHalf: memcpy(&bits, at + lane * 2, 2); return s_from_f16(bits);
    case Factor::kBhalf: memcpy(&bits, at + lane * 2, 2); return s_from_bf16(bits);
    case Factor::kFloat: {
      float value;
      memcpy(&value, at + lane * 4, 4);
      return value;
    }
    case Factor::kSuper:
    case Factor::kSuper16: {
      const int64_t index = factor == Factor::kSuper ? half / 2 : half;
      memcpy(&bits, at + super_at(factor) + lane * 2, 2);
      return s_from_f16(bits) * static_cast<float>(static_cast<int8_t>(at[index * kPanelRows + lane]));
    }
    default: return 0;
  }
}

float int_value(const uint8_t* panel, const EncodingSpec& spec, int64_t k, int64_t lane) {
  const int64_t block = k / kBlockCols;
  const uint8_t* record = panel + block / record_blocks(spec) * record_bytes(spec);
  const int64_t within = block % record_blocks(spec);
  const int64_t half = within * 2 + k % kBlockCols / (kBlockCols / 2);
  const int32_t code = code_value(record + within * code_bytes(spec.codes), spec.codes, k, lane);
  return factor_value(record + scales_at(spec), spec.scale, half, lane) * static_cast<float>(code) +
         factor_value(record + minimums_at(spec), spec.minimum, half, lane);
}

}  // namespace

void unpack_row(float* out, const Weight& weight, int64_t row, float scale, bool accumulate) {
  const Segment* segment = weight.segments.data();
  while (row >= segment->first_row + segment->rows) segment++;
  const int64_t local = row - segment->first_row;
  const uint8_t* panel = segment->data + local / kPanelRows * segment->panel_bytes;
  const int64_t lane = local % kPanelRows;
  const EncodingSpec spec = spec_of(segment->encoding);
  for (int64_t k = 0; k < weight.cols; k++) {
    const float value = spec.codes == Codes::kFloat ? float_value(panel, segment->encoding, k, lane)
                                                    : int_value(panel, spec, k, lane);
    out[k] = accumulate ? out[k] + scale * value : scale * value;
  }
}

}  // namespace pg
