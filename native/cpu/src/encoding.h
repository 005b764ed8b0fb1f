// Source dtypes of checkpoints and the encodings weights are held in.
//
// A panel is 16 rows (outputs) of a matrix, interleaved so that one vector load gives the same input column(s) of all 16.
// Panels follow each other; their number is rounded up to an even one and the rows beyond the matrix are zero.
//   F32, F16  [cols][16]
//   BF16      [cols/2][16][2]        pairs of columns: even and odd ones are told apart by a shift or a mask
#pragma once
#include <cstdint>

namespace pg {

constexpr int64_t kPanelRows = 16;

// Numbers cross the border: src/device/cpu/weights.ts has the same list.
enum Dtype : int32_t {
  kDtypeF32 = 0,
  kDtypeF16 = 1,
  kDtypeBf16 = 2,
};

enum Encoding : int32_t {
  kEncodingF32 = 0,
  kEncodingF16 = 1,
  kEncodingBf16 = 2,
  kNumEncodings
};

}  // namespace pg
