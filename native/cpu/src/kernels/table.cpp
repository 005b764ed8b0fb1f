// The variant's table: the one symbol of each variant that the rest of the library sees.
#include "../kernels.h"
#include "matmul.h"

namespace pg {
namespace PG_NS {

const Kernels* kernels() {
  static const Kernels table = {
      PG_ISA,
      kFloatTileRows,
      pack_float,
      {gemm_f32, gemm_f16, gemm_bf16},
  };
  return &table;
}

}  // namespace PG_NS
}  // namespace pg
