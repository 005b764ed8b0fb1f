// The i8mm variant: everything of dotprod, with smmla for integer weights and several rows. Same bits either way.
#include "../kernels.h"
#include "pair-matmul.h"

namespace pg {
namespace dotprod {
const Kernels* kernels();
}
namespace PG_NS {

// A tile has 8 rows whether they are used or not: below this many, sdot does less work.
constexpr int64_t kManyRows = 5;

const Kernels* kernels() {
  static const Kernels table = [] {
    Kernels t = *dotprod::kernels();
    t.isa = kIsaI8mm;
    t.layouts[kLayoutIntPairs] = {kPairTileRows, false, pair_tile_bytes, pack_pairs};
    for (int32_t e = 0; e < kNumEncodings; e++)
      if (pair_gemms.of[e] != nullptr) t.matmul_many[e] = {pair_gemms.of[e], kLayoutIntPairs, 0};
    t.many_rows = kManyRows;
    return t;
  }();
  return &table;
}

}  // namespace PG_NS
}  // namespace pg
