// Declarations of the matmul kernels of one variant; what they compute is told in matmul-float.cpp.
#pragma once
#include "../encoding.h"
#include "../matmul.h"
#include "simd.h"

namespace pg {
namespace PG_NS {

// Rows of x per register tile, and vectors of outputs beside them: the accumulators fill the register file.
#if PG_ISA == 3
constexpr int kFloatTileRows = 14;
constexpr int kFloatVectors = 2;  // 32 outputs: a panel
constexpr int kIntTileRows = 6;
constexpr int kIntVectors = 2;
#elif PG_ISA == 2
constexpr int kFloatTileRows = 6;
constexpr int kFloatVectors = 2;  // 16 outputs: half a panel
constexpr int kIntTileRows = 4;
constexpr int kIntVectors = 2;
#elif PG_NEON
constexpr int kFloatTileRows = 12;
constexpr int kFloatVectors = 2;  // 8 outputs
constexpr int kIntTileRows = 4;
constexpr int kIntVectors = 2;
#elif PG_WASM
constexpr int kFloatTileRows = 4;
constexpr int kFloatVectors = 2;  // 8 outputs; the compiler behind has 16 registers on most machines
constexpr int kIntTileRows = 2;
constexpr int kIntVectors = 4;
constexpr int64_t kWidenedFrom = 16;  // rows; below, bf16 is faster as it is
#else
constexpr int kFloatTileRows = 2;
constexpr int kFloatVectors = 4;
constexpr int kIntTileRows = 2;
constexpr int kIntVectors = 4;
#endif

int64_t float_tile_bytes(int64_t cols);
void pack_float(uint8_t* out, const float* x, int64_t x_stride, int64_t height, int64_t cols, bool all_fields);
int64_t int_tile_bytes(int64_t cols);
void pack_int(uint8_t* out, const float* x, int64_t x_stride, int64_t height, int64_t cols, bool all_fields);

// WebAssembly cannot ask for memory ahead; a load does, but the processor waits for it in the end. So the first lines of all pages of the
// next panel are loaded together, and the waits overlap: from there on the processor's own prefetcher goes ahead.
PG_INLINE void touch_next(const Gemm& g, int64_t panel) {
#if PG_WASM
  constexpr int64_t kPage = 4096, kTouched = 512;
  const uint8_t* next = g.panels + (panel + 1) * g.panel_bytes;
  if ((panel + 1) * kPanelRows >= g.rows) return;
  for (int64_t page = 0; page < g.panel_bytes; page += kPage)
    for (int64_t line = page; line < page + kTouched && line < g.panel_bytes; line += 64) (void)*(const volatile uint8_t*)(next + line);
#else
  (void)g, (void)panel;
#endif
}

// A kernel for each encoding, null where there is none.
struct EncodingGemms {
  GemmFn of[kNumEncodings];
};

extern const GemmFn gemm_f32, gemm_f16, gemm_bf16;
extern const GemmFn gemm_f16_many, gemm_bf16_many;  // WebAssembly
int64_t widened_bytes(int64_t cols);
extern const GemmFn gemm_q8, gemm_q4, gemm_q4m, gemm_q5, gemm_q5m;
extern const GemmFn gemm_q4k, gemm_q5k, gemm_q6k, gemm_q3k, gemm_q2k;
extern const GemmFn gemm_n4, gemm_n4k, gemm_mx4, gemm_n2k, gemm_n2h, gemm_n3k, gemm_n3s, gemm_n1k, gemm_n1h, gemm_t2, gemm_t2k;

}  // namespace PG_NS
}  // namespace pg
