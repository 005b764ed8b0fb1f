// Declarations of the matmul kernels of one variant; what they compute is told in matmul-float.cpp.
#pragma once
#include "../kernels.h"
#include "simd.h"

namespace pg {
namespace PG_NS {

// Rows of x per register tile, and vectors of outputs beside them: the accumulators fill the register file.
#if PG_ISA == 3
constexpr int kFloatTileRows = 14;
constexpr int kFloatVectors = 2;  // 32 outputs: a panel
constexpr int kTallTileRows = 28;  // beside one vector
constexpr int64_t kTallFrom = 15;  // rows: what one tile of the other kind does not hold
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
int64_t tall_tile_bytes(int64_t cols);  // AVX-512
void pack_float(uint8_t* out, const RowsToPack& rows);
int64_t int_tile_bytes(int64_t cols);
void pack_int(uint8_t* out, const RowsToPack& rows);

// A processor's own prefetcher reads far ahead, but stops at every page. So a stream of weights asks for the first lines of each page
// kPageAhead bytes before their use, all together, and the prefetcher has begun with the page when it is read: faster than asking for
// every line, of which only a dozen can be under way. WebAssembly has no instruction that asks; there they are loaded, and though the
// processor waits for them in the end, the waits overlap.
constexpr intptr_t kPage = 4096;
constexpr intptr_t kPageAhead = PG_WASM ? 8 * kPage : 4 * kPage;
constexpr int kPageLines = PG_WASM ? 8 : 16;

PG_INLINE const uint8_t* weights_end(const Gemm& g) { return g.panels + (g.rows + kPanelRows - 1) / kPanelRows * g.panel_bytes; }

PG_INLINE void ask_for_page(const uint8_t* page) {
#pragma GCC unroll 16
  for (int line = 0; line < kPageLines; line++) {
#if PG_WASM
    (void)*(const volatile uint8_t*)(page + line * 64);
#else
    __builtin_prefetch(page + line * 64, 0, 3);
#endif
  }
}

// For kernels that read `bytes` of weights at `at` next, as part of one stream up to `end`.
PG_INLINE void ask_ahead(const uint8_t* at, int64_t bytes, const uint8_t* end) {
  const intptr_t in_page = (intptr_t)at & (kPage - 1);
  if (in_page < bytes && end - at > kPageAhead + kPageLines * 64) ask_for_page(at - in_page + kPageAhead);
}

// Where a stream begins.
PG_INLINE void ask_first(const Gemm& g, int64_t panel) {
  const uint8_t* begin = g.panels + panel * g.panel_bytes;
  const uint8_t* end = weights_end(g) - kPageLines * 64;
  for (const uint8_t* page = begin; page < begin + kPageAhead && page < end; page += kPage - ((intptr_t)page & (kPage - 1)))
    ask_for_page(page);
}

// A kernel for each encoding, null where there is none.
struct EncodingGemms {
  GemmFn of[kNumEncodings];
};

extern const GemmFn gemm_f32, gemm_f16, gemm_bf16;
extern const GemmFn gemm_f16_tall, gemm_bf16_tall;  // AVX-512
extern const GemmFn gemm_f16_many, gemm_bf16_many;  // WebAssembly
int64_t widened_bytes(int64_t cols);

// Into a variant's table, the kernels of integer weights: matmul-int-*.cpp.
void take_common_kernels(Kernels& table);
void take_k_kernels(Kernels& table);
void take_grid_kernels(Kernels& table);
void take_table_kernels(Kernels& table);
PG_INLINE void take_int_kernels(Kernels& table) {
  take_common_kernels(table);
  take_k_kernels(table);
  take_grid_kernels(table);
  take_table_kernels(table);
}

#if PG_ISA >= 2
// For many rows codes are unpacked once: see matmul-int-many.h.
constexpr int64_t kUnpackedFrom = 32;          // rows
constexpr int64_t kUnpackedBytes = (PG_ISA == 3 ? 36 : 28) << 10;  // of scratch
PG_INLINE int64_t unpacked_bytes(int64_t) { return kUnpackedBytes; }
#endif

}  // namespace PG_NS
}  // namespace pg
