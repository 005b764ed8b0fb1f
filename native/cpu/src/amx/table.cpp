// The amx variant: everything of avx512, with bf16 and integer weights on tiles, whatever the number of rows: sums are in another order
// than those of avx512, and a row must not depend on the rows beside it.
#include "../kernels.h"
#include "tile-matmul.h"

namespace pg {
namespace avx512 {
const Kernels* kernels();
}
namespace PG_NS {

const Kernels* kernels() {
  static const Kernels table = [] {
    Kernels t = *avx512::kernels();
    t.isa = kIsaAmx;
    t.layouts[kLayoutSplitTiles] = {kRowTileRows, false, row_tile_bytes, pack_row_tile};
    for (int32_t encoding = 0; encoding < kNumEncodings; encoding++)
      if (const GemmFn gemm = tile_gemm_of(encoding)) t.matmul[encoding] = {gemm, kLayoutSplitTiles, kTilePanels};
    t.matmul_scratch_bytes = [](int64_t) { return tile_scratch_bytes(); };
    return t;
  }();
  return &table;
}

}  // namespace PG_NS
}  // namespace pg
