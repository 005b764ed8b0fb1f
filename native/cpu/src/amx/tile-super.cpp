// Tiles for formats with super blocks of 256 columns, and for grids.
#include "tile-gemm.h"

namespace pg {
namespace PG_NS {

GemmFn tile_gemm_of_super(int32_t encoding) {
  switch (encoding) {
    case kEncodingQ4K: return tile_gemm<CodeTiles<kEncodingQ4K>>;
    case kEncodingQ5K: return tile_gemm<CodeTiles<kEncodingQ5K>>;
    case kEncodingQ6K: return tile_gemm<CodeTiles<kEncodingQ6K>>;
    case kEncodingQ3K: return tile_gemm<CodeTiles<kEncodingQ3K>>;
    case kEncodingQ2K: return tile_gemm<CodeTiles<kEncodingQ2K>>;
    case kEncodingN4K: return tile_gemm<CodeTiles<kEncodingN4K>>;
    case kEncodingN2K: return tile_gemm<CodeTiles<kEncodingN2K>>;
    case kEncodingN2H: return tile_gemm<CodeTiles<kEncodingN2H>>;
    case kEncodingN3K: return tile_gemm<CodeTiles<kEncodingN3K>>;
    case kEncodingN3S: return tile_gemm<CodeTiles<kEncodingN3S>>;
    case kEncodingN1K: return tile_gemm<CodeTiles<kEncodingN1K>>;
    case kEncodingN1H: return tile_gemm<CodeTiles<kEncodingN1H>>;
    case kEncodingT2: return tile_gemm<CodeTiles<kEncodingT2>>;
    case kEncodingT2K: return tile_gemm<CodeTiles<kEncodingT2K>>;
    default: return nullptr;
  }
}

}  // namespace PG_NS
}  // namespace pg
