// The table of functions that exist once per instruction set. Files in kernels/ are compiled once per variant with PG_NS set to
// its namespace; everything else in src/ is compiled once and reaches the variants through this table.
//
// Files in kernels/ must not instantiate templates or call inline functions of the standard library: the linker keeps one copy
// of those, and it could be the one compiled for instructions that this processor lacks.
#pragma once
#include <cstdint>

#include "attention.h"
#include "encoding.h"
#include "linear-attention.h"
#include "matmul.h"
#include "rows.h"
#include "sample.h"

namespace pg {

constexpr int32_t kIsaBest = 0;
constexpr int32_t kIsaPortable = 1;
constexpr int32_t kIsaAvx2 = 2;
constexpr int32_t kIsaAvx512 = 3;

struct Kernels {
  int32_t isa;
  // --- matmul (kernels/matmul-*.cpp): see matmul.h ---
  int32_t float_tile_rows;
  int32_t int_tile_rows;
  void (*pack_float)(float* out, const float* x, int64_t x_stride, int64_t height, int64_t cols);
  void (*pack_int)(uint8_t* out, const float* x, int64_t x_stride, int64_t height, int64_t cols, bool all_fields);
  GemmFn gemm[kNumEncodings];
  // --- one table per kind of op ---
  const AttentionKernels* attention;
  const RowKernels* rows;
  const RecurrentKernels* recurrent;
  const SampleKernels* sample;
  // --- measurement (kernels/peak.cpp) ---
  int64_t (*peak_float)(int64_t rounds, float* sink);
  int64_t (*peak_int)(int64_t rounds, float* sink);
  void (*peak_read)(const float* data, int64_t count, float* sink);
};

}  // namespace pg
