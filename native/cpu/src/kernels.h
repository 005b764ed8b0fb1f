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
#include "low-rank.h"
#include "matmul.h"
#include "rows.h"
#include "sample.h"

namespace pg {

constexpr int32_t kIsaBest = 0;
constexpr int32_t kIsaPortable = 1;
constexpr int32_t kIsaAvx2 = 2;
constexpr int32_t kIsaAvx512 = 3;
constexpr int32_t kIsaAmx = 4;
constexpr int32_t kIsaNeon = 5;
constexpr int32_t kIsaDotprod = 6;
constexpr int32_t kIsaI8mm = 7;
constexpr int32_t kIsaSimd128 = 8;
constexpr int32_t kIsaRelaxed = 9;
constexpr int32_t kIsaAvxVnni = 10;
constexpr int32_t kIsaAmxFast = 11;  // amx with less exact products of q8_0
constexpr int32_t kIsaAvx512Other = 101;  // avx512 with the tiles of many rows that this processor does not take, for tests

// What an encoding becomes where nothing is looked up.
struct MultipliedForm {
  Encoding encoding;
  int64_t (*panel_bytes)(int64_t cols);
  // Makes a panel one of that form in its place, where it is no larger; room: as large as the panel. Null: there is no such form.
  void (*make)(uint8_t* panel, int64_t cols, uint8_t* room);
  // Whether a panel can be made one; null: all can. A weight is of that form where all of its panels can be.
  bool (*fits)(const uint8_t* panel, int64_t cols) = nullptr;
};

struct Kernels {
  int32_t isa;
  // --- matmul (kernels/matmul-*.cpp): see matmul.h ---
  LayoutSpec layouts[kNumLayouts];
  MatmulKernel matmul[kNumEncodings];
  // From many_rows rows on, or as many as it says itself, encodings that have one use this kernel. It gives the same bits.
  MatmulKernel matmul_many[kNumEncodings];
  int64_t many_rows;
  // Bytes that a matmul kernel needs beside its operands, per worker; null: none.
  int64_t (*matmul_scratch_bytes)(int64_t cols);
  // --- one table per kind of op ---
  const AttentionKernels* attention;
  const RowKernels* rows;
  const RecurrentKernels* recurrent;
  const SampleKernels* sample;
  const LowRankKernels* low_rank;
  // --- measurement (kernels/peak.cpp) ---
  int64_t (*peak_float)(int64_t rounds, float* sink);
  int64_t (*peak_int)(int64_t rounds, float* sink);
  void (*peak_read)(const float* data, int64_t count, float* sink);
  void (*peak_update)(float* data, int64_t count, const float* by);
  // --- weights that are only multiplied ---
  MultipliedForm multiplied[kNumEncodings] = {};
};

}  // namespace pg
