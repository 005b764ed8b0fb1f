// The amx variant: everything of avx512, with bf16 weights on tiles. For any number of rows: the sums are in another order than those
// of avx512, and a row must not depend on the rows beside it.
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
    t.layouts[kLayoutSplitTiles] = {kTileRows, false, split_tile_bytes, pack_split_rows};
    t.matmul[kEncodingBf16] = {gemm_bf16_tiles, kLayoutSplitTiles, kTilePanels};
    t.matmul_scratch_bytes = tile_scratch_bytes;
    return t;
  }();
  return &table;
}

}  // namespace PG_NS
}  // namespace pg
