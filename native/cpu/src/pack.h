// From checkpoint bytes to panels. Packing runs at load, one panel at a time on all threads.
#pragma once
#include <cstdint>

#include "encoding.h"

namespace pg {

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
    {256, 54, kEncodingT2K},    // tq1_0
    {256, 66, kEncodingT2K},    // tq2_0
    {128, 18, kEncodingT2},     // q1_0
    {64, 18, kEncodingT2},      // q2_0
    {64, 68, kEncodingBf16},    // f8_e4m3_64: products that are rounded to bf16
};

// The encoding a dtype is held in without loss; -1 for an unknown dtype.
constexpr int32_t own_encoding(int32_t dtype) { return dtype >= 0 && dtype < kNumDtypes ? kDtypes[dtype].encoding : -1; }

struct Source {
  const uint8_t* data;
  Dtype dtype;
  int64_t rows;
  int64_t cols;
  bool transposed;  // stored [cols, rows]
};

// Fills the panel of rows [first_row, first_row + 16); rows beyond the source become zero.
using PackFn = void (*)(uint8_t* panel, const Source& source, int64_t first_row);

// pack-float.cpp: f32, f16, bf16 and f8 sources.
void pack_f32(uint8_t* panel, const Source& source, int64_t first_row);
void pack_f16(uint8_t* panel, const Source& source, int64_t first_row);
void pack_bf16(uint8_t* panel, const Source& source, int64_t first_row);
// out[count] = columns [first, first + count) of one row of a float source.
void read_cols(float* out, const Source& source, int64_t row, int64_t first, int64_t count);
void pack_nvfp4(uint8_t* panel, const Source& source, int64_t first_row);
// pack-int.cpp: float sources quantised as q8_0 and q4_0 are; block sources re-ordered without loss.
void quantize_q8(uint8_t* panel, const Source& source, int64_t first_row);
void quantize_q4(uint8_t* panel, const Source& source, int64_t first_row);
PackFn block_packer(int32_t dtype);

bool is_float(int32_t dtype);
// Null when the dtype cannot be held in that encoding.
PackFn packer(int32_t dtype, int32_t encoding);
// Bytes of rows x cols in the source; -1 when the columns are no whole number of blocks.
int64_t source_size(int32_t dtype, int64_t rows, int64_t cols);
int64_t panel_size(Encoding encoding, int64_t cols);

}  // namespace pg
