#include "unpack.h"

#include "pack.h"
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

// Two bits of a code in a pair of vectors, as 2-bit codes are laid out.
int32_t pair_at(const uint8_t* plane, int64_t group, int64_t at) { return plane[(group & 1) * kBitPlane + at] >> (group & 6) & 3; }

int32_t code_value(const uint8_t* codes, Codes kind, int64_t k, int64_t lane) {
  const int64_t group = k % kBlockCols / 4, at = lane * 4 + k % 4;
  if (kind == Codes::kByte) return static_cast<int32_t>(codes[group * kBitPlane + at]) - 128;
  const int32_t both = codes[(group & 3) * kBitPlane + at];
  int32_t code = low_bits(kind) == 2 ? pair_at(codes, group, at) : group < 4 ? both & 15 : both >> 4;
  const uint8_t* upper = codes + upper_plane(kind);
  if (upper_bits(kind) == 1) code |= (upper[at] >> group & 1) << upper_from(kind);
  if (upper_bits(kind) == 2) code |= pair_at(upper, group, at) << upper_from(kind);
  return is_table(kind) ? table_of(kind)[code] : code - offset_of(kind);
}

// at: the factor's place in the block; big: its place in the header; half: of the block.
float factor_value(const uint8_t* at, const uint8_t* big, Factor factor, int64_t half, int64_t lane) {
  uint16_t bits = 0;
  switch (factor) {
    case Factor::kHalf: memcpy(&bits, at + lane * 2, 2); return s_from_f16(bits);
    case Factor::kBhalf: memcpy(&bits, at + lane * 2, 2); return s_from_bf16(bits);
    case Factor::kBig: memcpy(&bits, big + lane * 2, 2); return s_from_f16(bits);
    case Factor::kSuper:
    case Factor::kSuper16: {
      const int64_t index = factor == Factor::kSuper ? 0 : half;
      memcpy(&bits, big + lane * 2, 2);
      return s_from_f16(bits) * static_cast<float>(static_cast<int8_t>(at[index * kPanelRows + lane]));
    }
    default: return 0;
  }
}

// Factors are read once per half block, the unit of the finest of them.
template <class Store>
void unpack_int(const uint8_t* panel, const EncodingSpec& spec, int64_t cols, int64_t lane, Store store) {
  for (int64_t from = 0; from < cols; from += kBlockCols / 2) {
    const int64_t block = from / kBlockCols;
    const uint8_t* record = panel + block / record_blocks(spec) * record_bytes(spec);
    const int64_t half = from % kBlockCols / (kBlockCols / 2);
    const uint8_t* codes = record + header_bytes(spec) + block % record_blocks(spec) * block_bytes(spec);
    const uint8_t* scales = codes + code_bytes(spec.codes);
    const float scale = factor_value(scales, record, spec.scale, half, lane) * unit_of(spec.codes);
    const float minimum = factor_value(scales + factor_bytes(spec.scale), record + big_bytes(spec.scale), spec.minimum, half, lane);
    const int64_t to = from + kBlockCols / 2 < cols ? from + kBlockCols / 2 : cols;
    for (int64_t k = from; k < to; k++)
      store(k, scale * static_cast<float>(code_value(codes, spec.codes, k, lane)) + minimum);
  }
}

// A row that stayed in the file: as if its panel had been packed, and so the same bits.
const uint8_t* panel_from_file(const Segment& segment, int64_t row, int64_t cols, uint8_t* room) {
  const uint8_t* bytes = segment.file->data() + row * segment.row_bytes;
  const Source one = {bytes, static_cast<Dtype>(segment.dtype), 1, cols, false};
  packer(segment.dtype, segment.encoding)(room, one, 0);
  return room;
}

}  // namespace

void unpack_row(float* out, const Weight& weight, int64_t row, float scale, bool accumulate, uint8_t* room) {
  const Segment* segment = weight.segments.data();
  while (row >= segment->first_row + segment->rows) segment++;
  const int64_t local = row - segment->first_row;
  const bool in_file = segment->file != nullptr;
  const uint8_t* panel = in_file ? panel_from_file(*segment, local, weight.cols, room)
                                 : segment->data + local / kPanelRows * segment->panel_bytes;
  const int64_t lane = in_file ? 0 : local % kPanelRows;
  const EncodingSpec spec = spec_of(segment->encoding);
  const auto store = [=](int64_t k, float value) { out[k] = accumulate ? out[k] + scale * value : scale * value; };
  if (spec.codes != Codes::kFloat) return unpack_int(panel, spec, weight.cols, lane, store);
  for (int64_t k = 0; k < weight.cols; k++) store(k, float_value(panel, segment->encoding, k, lane));
}

}  // namespace pg
