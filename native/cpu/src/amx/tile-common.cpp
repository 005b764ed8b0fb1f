// Tiles for bf16 weights and the plain block formats, and the choice of a kernel.
#include "tile-gemm.h"

namespace pg {
namespace PG_NS {

GemmFn tile_gemm_of(int32_t encoding) {
  switch (encoding) {
    case kEncodingBf16: return tile_gemm<FloatTiles>;
    case kEncodingQ8: return tile_gemm<CodeTiles<kEncodingQ8>>;
    case kEncodingQ4: return tile_gemm<CodeTiles<kEncodingQ4>>;
    case kEncodingQ4M: return tile_gemm<CodeTiles<kEncodingQ4M>>;
    case kEncodingQ5: return tile_gemm<CodeTiles<kEncodingQ5>>;
    case kEncodingQ5M: return tile_gemm<CodeTiles<kEncodingQ5M>>;
    case kEncodingN4: return tile_gemm<CodeTiles<kEncodingN4>>;
    case kEncodingMx4: return tile_gemm<CodeTiles<kEncodingMx4>>;
    default: return tile_gemm_of_super(encoding);
  }
}

int64_t tile_scratch_bytes() { return sizeof(Room); }

}  // namespace PG_NS
}  // namespace pg
