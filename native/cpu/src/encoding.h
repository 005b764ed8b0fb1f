// Source dtypes of checkpoints and the encodings weights are held in.
//
// A panel is 32 rows (outputs) of a matrix, interleaved so that vector loads give the same input column(s) of neighbouring rows,
// and in the order the kernels read, so that a matrix is one stream. The rows beyond the matrix are zero.
//
// Float panels
//   F32, F16  [cols][32]
//   BF16      [cols/2][32][2]        pairs of columns: even and odd ones are told apart by a shift or a mask
//
// Integer panels are records of one block of 32 columns (8 blocks where factors are `super`), padded with zero factors. A record:
//   header    super only: f16 [32 rows] that multiply the small scales, then the same for the small minimums
//   then, for each block
//   codes     8-bit [8 groups][32 rows][4 columns]: value + 128, unsigned
//             4-bit [4][32 rows][4 columns]: low nibbles are groups 0..3, high nibbles groups 4..7
//             2-bit [2][32 rows][4 columns]: bits 2j, 2j + 1 of vector p are group 2j + p
//             then, for codes of 5, 6 and 3 bits and for levels with a sign, a plane of upper bits: one bit, [32 rows][4 columns]: bit g is
//             that of group g; or two, as 2-bit codes
//   scales    [32 rows] of half (f16), bhalf (bf16) or small int8; super16: [2 half blocks][32 rows] of small int8; big: none
//   minimums  in the same shapes; w = scale * value + minimum
//
// Span8, span4 and bf12, which one variant makes of q8, q4 and bf16 for weights that are never looked up: see amx/span-bytes.h,
// span-nibbles.h and bf12.h.
#pragma once
#include <cstdint>

namespace pg {

constexpr int64_t kPanelRows = 32;
constexpr int64_t kBlockCols = 32;
constexpr int64_t kSuperBlocks = 8;

// Numbers cross the border: src/device/cpu/weights.ts has the same lists.
enum Dtype : int32_t {
  kDtypeF32 = 0,
  kDtypeF16,
  kDtypeBf16,
  kDtypeF8E4M3,
  kDtypeF8E5M2,
  kDtypeQ8_0,
  kDtypeQ4_0,
  kDtypeQ4_1,
  kDtypeQ5_0,
  kDtypeQ5_1,
  kDtypeQ2K,
  kDtypeQ3K,
  kDtypeQ4K,
  kDtypeQ5K,
  kDtypeQ6K,
  kDtypeIq4Nl,
  kDtypeIq4Xs,
  kDtypeMxfp4,
  kDtypeNvfp4,
  kDtypeIq2Xxs,
  kDtypeIq2Xs,
  kDtypeIq2S,
  kDtypeIq3Xxs,
  kDtypeIq3S,
  kDtypeIq1S,
  kDtypeIq1M,
  kDtypeTq1_0,
  kDtypeTq2_0,
  kDtypeQ1_0,
  kDtypeQ2_0,
  kDtypeF8E4M3_64,
  kNumDtypes
};

enum Encoding : int32_t {
  kEncodingF32 = 0,
  kEncodingF16,
  kEncodingBf16,
  kEncodingQ8,   // 8-bit, half                  q8_0, quantised at load
  kEncodingQ4,   // 4-bit minus 8, half          q4_0, quantised at load
  kEncodingQ4M,  // 4-bit, half, minimum         q4_1
  kEncodingQ5,   // 5-bit minus 16, half         q5_0
  kEncodingQ5M,  // 5-bit, half, minimum         q5_1
  kEncodingQ4K,  // 4-bit, super, minimum        q4_k
  kEncodingQ5K,  // 5-bit, super, minimum        q5_k
  kEncodingQ6K,  // 6-bit minus 32, super16      q6_k
  kEncodingQ3K,  // 3-bit minus 4, super16       q3_k
  kEncodingQ2K,  // 2-bit, super16, minimum      q2_k
  kEncodingN4,   // 4-bit by table, half         iq4_nl
  kEncodingN4K,  // 4-bit by table, super        iq4_xs
  kEncodingMx4,  // 4-bit by table, bhalf        mxfp4
  kEncodingN2K,  // 2-bit and sign, super        iq2_xxs
  kEncodingN2H,  // 2-bit and sign, super16      iq2_xs, iq2_s
  kEncodingN3K,  // 4-bit by table, super        iq3_xxs
  kEncodingN3S,  // 4-bit by table, super        iq3_s
  kEncodingN1K,  // 2-bit and shift, super       iq1_s
  kEncodingN1H,  // 2-bit and shift, super16     iq1_m
  kEncodingT2,   // 2-bit minus 1, half          q1_0, q2_0
  kEncodingT2K,  // 2-bit minus 1, big           tq1_0, tq2_0
  kEncodingSpan8,  // 8-bit, a unit for a span   q8_0 that is only multiplied
  kEncodingSpan4,  // 4-bit, multipliers and a unit for a span   q4_0 likewise
  kEncodingBf12,   // lower bytes, codes of upper ones           bf16 likewise
  kNumEncodings
};

enum class Codes : int32_t {
  kFloat, kByte, kNibble, kNibbleOffset, kFive, kFiveOffset, kSix, kTwo, kTwoOffset, kThreeOffset, kIq4, kMx4, kIq2, kIq3, kIq3S, kIq1
};
enum class Factor : int32_t { kNone, kHalf, kBhalf, kSuper, kSuper16, kBig };

// What an encoding is made of. Kernels take these as template arguments; packing and lookup read them at run time.
struct EncodingSpec {
  Codes codes;
  Factor scale;
  Factor minimum;
};

constexpr EncodingSpec spec_of(int32_t encoding) {
  switch (encoding) {
    case kEncodingQ8: return {Codes::kByte, Factor::kHalf, Factor::kNone};
    case kEncodingQ4: return {Codes::kNibbleOffset, Factor::kHalf, Factor::kNone};
    case kEncodingQ4M: return {Codes::kNibble, Factor::kHalf, Factor::kHalf};
    case kEncodingQ5: return {Codes::kFiveOffset, Factor::kHalf, Factor::kNone};
    case kEncodingQ5M: return {Codes::kFive, Factor::kHalf, Factor::kHalf};
    case kEncodingQ4K: return {Codes::kNibble, Factor::kSuper, Factor::kSuper};
    case kEncodingQ5K: return {Codes::kFive, Factor::kSuper, Factor::kSuper};
    case kEncodingQ6K: return {Codes::kSix, Factor::kSuper16, Factor::kNone};
    case kEncodingQ3K: return {Codes::kThreeOffset, Factor::kSuper16, Factor::kNone};
    case kEncodingQ2K: return {Codes::kTwo, Factor::kSuper16, Factor::kSuper16};
    case kEncodingN4: return {Codes::kIq4, Factor::kHalf, Factor::kNone};
    case kEncodingN4K: return {Codes::kIq4, Factor::kSuper, Factor::kNone};
    case kEncodingMx4: return {Codes::kMx4, Factor::kBhalf, Factor::kNone};
    case kEncodingN2K: return {Codes::kIq2, Factor::kSuper, Factor::kNone};
    case kEncodingN2H: return {Codes::kIq2, Factor::kSuper16, Factor::kNone};
    case kEncodingN3K: return {Codes::kIq3, Factor::kSuper, Factor::kNone};
    case kEncodingN3S: return {Codes::kIq3S, Factor::kSuper, Factor::kNone};
    case kEncodingN1K: return {Codes::kIq1, Factor::kSuper, Factor::kNone};
    case kEncodingN1H: return {Codes::kIq1, Factor::kSuper16, Factor::kNone};
    case kEncodingT2: return {Codes::kTwoOffset, Factor::kHalf, Factor::kNone};
    case kEncodingT2K: return {Codes::kTwoOffset, Factor::kBig, Factor::kNone};
    default: return {Codes::kFloat, Factor::kNone, Factor::kNone};
  }
}

constexpr bool is_integer(int32_t encoding) { return spec_of(encoding).codes != Codes::kFloat; }
constexpr int64_t blocks_of(int64_t cols) { return (cols + kBlockCols - 1) / kBlockCols; }

// The planes of a block's codes: the lower bits of each code, then its upper bits, which stand for bits from `upper_from` on.
constexpr int low_bits(Codes codes) {
  switch (codes) {
    case Codes::kByte: return 8;
    case Codes::kTwo:
    case Codes::kTwoOffset:
    case Codes::kThreeOffset:
    case Codes::kIq2:
    case Codes::kIq1: return 2;
    default: return 4;
  }
}
constexpr int upper_bits(Codes codes) {
  switch (codes) {
    case Codes::kFive:
    case Codes::kFiveOffset:
    case Codes::kThreeOffset:
    case Codes::kIq2:
    case Codes::kIq1: return 1;
    case Codes::kSix: return 2;
    default: return 0;
  }
}
// The sign (iq1: the shift) of a level is bit 3 of its place in the table.
constexpr int upper_from(Codes codes) { return codes == Codes::kIq2 || codes == Codes::kIq1 ? 3 : low_bits(codes); }

// The layout of a record, in bytes. A bit of every code takes 128.
constexpr int64_t kBitPlane = kPanelRows * 4;
constexpr int64_t upper_plane(Codes codes) { return low_bits(codes) * kBitPlane; }
constexpr int64_t code_bytes(Codes codes) { return (low_bits(codes) + upper_bits(codes)) * kBitPlane; }
// What a stored code is larger than its value (tables: as the kernels look them up).
constexpr int32_t offset_of(Codes codes) {
  switch (codes) {
    case Codes::kNibble:
    case Codes::kTwo:
    case Codes::kFive: return 0;
    case Codes::kTwoOffset: return 1;
    case Codes::kThreeOffset: return 4;
    case Codes::kNibbleOffset: return 8;
    case Codes::kFiveOffset: return 16;
    case Codes::kSix: return 32;
    default: return 128;
  }
}
constexpr int64_t factor_bytes(Factor factor) {  // per block
  switch (factor) {
    case Factor::kHalf:
    case Factor::kBhalf:
    case Factor::kSuper16: return kPanelRows * 2;
    case Factor::kSuper: return kPanelRows;
    default: return 0;
  }
}
constexpr bool is_super(Factor factor) { return factor == Factor::kSuper || factor == Factor::kSuper16 || factor == Factor::kBig; }
constexpr int64_t big_bytes(Factor factor) { return is_super(factor) ? kPanelRows * 2 : 0; }  // in the header
constexpr int64_t record_blocks(const EncodingSpec& spec) { return is_super(spec.scale) ? kSuperBlocks : 1; }
constexpr int64_t header_bytes(const EncodingSpec& spec) { return big_bytes(spec.scale) + big_bytes(spec.minimum); }
constexpr int64_t block_bytes(const EncodingSpec& spec) {
  return code_bytes(spec.codes) + factor_bytes(spec.scale) + factor_bytes(spec.minimum);
}
constexpr int64_t record_bytes(const EncodingSpec& spec) {
  return header_bytes(spec) + record_blocks(spec) * block_bytes(spec);
}

// The signed values behind the nibbles of the table encodings. Those of grids: the levels of a coordinate, then the same with the
// sign (iq1: the shift) turned.
constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int8_t kMx4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr int8_t kIq2Values[16] = {8, 25, 43, 0, 0, 0, 0, 0, -8, -25, -43, 0, 0, 0, 0, 0};
constexpr int8_t kIq3Values[16] = {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62};
constexpr int8_t kIq3SValues[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
constexpr int8_t kIq1Values[16] = {-7, 1, 9, 0, 0, 0, 0, 0, -9, -1, 7, 0, 0, 0, 0, 0};  // eighths

constexpr bool is_table(Codes codes) { return codes >= Codes::kIq4; }
constexpr const int8_t* table_of(Codes codes) {
  switch (codes) {
    case Codes::kIq4: return kIq4Values;
    case Codes::kMx4: return kMx4Values;
    case Codes::kIq2: return kIq2Values;
    case Codes::kIq3: return kIq3Values;
    case Codes::kIq3S: return kIq3SValues;
    case Codes::kIq1: return kIq1Values;
    default: return nullptr;
  }
}
// A power of two that the factor is multiplied by; in the f16 of the super block it could be lost.
constexpr float unit_of(Codes codes) {
  return codes == Codes::kIq2 || codes == Codes::kIq1 ? 0.125f : codes == Codes::kIq3 ? 0.25f : 1.0f;
}

}  // namespace pg
