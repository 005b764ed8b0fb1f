// The amx variant: everything of avx512, with matmul on tiles where that pays.
#include "../kernels.h"
#include "tile-matmul.h"

namespace pg {
namespace avx512 {
const Kernels* kernels();
}
namespace PG_NS {
namespace {

// Integer weights give the same bits either way; tiles pay from this many rows on. bf16 weights use tiles for any number of rows,
// since their sums are in another order than those of avx512.
constexpr int64_t kManyRows = 8;

int64_t scratch_bytes(int64_t cols) {
  const int64_t ints = int_tile_scratch_bytes(cols), floats = bf16_tile_scratch_bytes(cols);
  return ints > floats ? ints : floats;
}

}  // namespace

const Kernels* kernels() {
  static const Kernels table = [] {
    Kernels t = *avx512::kernels();
    t.isa = kIsaAmx;
    t.layouts[kLayoutIntTiles] = {kTileRows, false, int_rows_tile_bytes, pack_int_rows};
    t.layouts[kLayoutSplitTiles] = {kTileRows, false, split_tile_bytes, pack_split_rows};
    t.matmul[kEncodingBf16] = {gemm_bf16_tiles, kLayoutSplitTiles, kTilePanels};
    for (int32_t e = 0; e < kNumEncodings; e++)
      if (int_tile_gemms.of[e] != nullptr) t.matmul_many[e] = {int_tile_gemms.of[e], kLayoutIntTiles, 0};
    t.many_rows = kManyRows;
    t.matmul_scratch_bytes = scratch_bytes;
    return t;
  }();
  return &table;
}

}  // namespace PG_NS
}  // namespace pg
