#include "unpack.h"

#include "scalar.h"

namespace pg {
namespace {

void write(float* out, float value, float scale, bool accumulate) {
  *out = accumulate ? *out + scale * value : scale * value;
}

}  // namespace

void unpack_row(float* out, const Weight& weight, int64_t row, float scale, bool accumulate) {
  const Segment* segment = weight.segments.data();
  while (row >= segment->first_row + segment->rows) segment++;
  const int64_t local = row - segment->first_row;
  const uint8_t* panel = segment->data + local / kPanelRows * segment->panel_bytes;
  const int64_t lane = local % kPanelRows;
  for (int64_t k = 0; k < weight.cols; k++) {
    float value = 0;
    switch (segment->encoding) {
      case kEncodingF32: value = reinterpret_cast<const float*>(panel)[k * kPanelRows + lane]; break;
      case kEncodingF16: value = s_from_f16(reinterpret_cast<const uint16_t*>(panel)[k * kPanelRows + lane]); break;
      case kEncodingBf16:
        value = s_from_bf16(reinterpret_cast<const uint16_t*>(panel)[(k / 2 * kPanelRows + lane) * 2 + k % 2]);
        break;
      default: break;
    }
    write(out + k, value, scale, accumulate);
  }
}

}  // namespace pg
