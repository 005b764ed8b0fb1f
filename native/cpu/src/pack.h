// From checkpoint bytes to panels. Packing runs at load, one panel at a time on all threads.
#pragma once
#include <cstdint>

#include "encoding.h"

namespace pg {

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
void pack_blocks(uint8_t* panel, const Source& source, int64_t first_row);

bool is_float(int32_t dtype);
// The encoding a dtype is held in without loss; -1 for an unknown dtype.
int32_t own_encoding(int32_t dtype);
// Null when the dtype cannot be held in that encoding.
PackFn packer(int32_t dtype, int32_t encoding);
// Bytes of rows x cols in the source; -1 when the columns are no whole number of blocks.
int64_t source_size(int32_t dtype, int64_t rows, int64_t cols);
int64_t panel_size(Encoding encoding, int64_t cols);

}  // namespace pg
