// The amx variant: everything of avx512, with bf16 weights and attention over bf16 pages on tiles, and q8 and q4 for many rows. bf16
// for any number of rows: the sums are in another order than those of avx512, and a row must not depend on the rows beside it.
// Integers give avx512's bits.
#include "../kernels.h"
#include "tile-matmul.h"

namespace pg {
namespace avx512 {
const Kernels* kernels();
}
namespace PG_NS {

extern const AttentionKernels attention_on_tiles;

// From here on int8 tiles do more than vpdpbusd: up to 16 rows take as long as 16, which is 1.4 times as long for 8; 32 rows take 0.74,
// 512 0.68 times as long (q4_0, 16 threads).
constexpr int64_t kManyRows = 24;

const Kernels* kernels() {
  static const Kernels table = [] {
    Kernels t = *avx512::kernels();
    t.isa = kIsaAmx;
    t.layouts[kLayoutBf16Tiles] = {kTileRows, false, bf16_tile_bytes, pack_bf16_rows};
    t.matmul[kEncodingBf16] = {gemm_bf16_tiles, kLayoutBf16Tiles, kTilePanels};
    t.layouts[kLayoutIntPairs] = {kIntRows, false, int_tiles_bytes, pack_int_tiles};
    t.matmul[kEncodingQ8].run = gemm_q8_lines;
    t.matmul[kEncodingQ4].run = gemm_q4_lines;
    t.matmul_many[kEncodingQ8] = {gemm_q8_tiles, kLayoutIntPairs, kTilePanels};
    t.matmul_many[kEncodingQ4] = {gemm_q4_tiles, kLayoutIntPairs, kTilePanels};
    t.attention = &attention_on_tiles;
    t.many_rows = kManyRows;
    t.matmul_scratch_bytes = [](int64_t) { return bf16_scratch_bytes() > int_scratch_bytes() ? bf16_scratch_bytes() : int_scratch_bytes(); };
    return t;
  }();
  return &table;
}

}  // namespace PG_NS
}  // namespace pg
