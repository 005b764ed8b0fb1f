// The encodings whose nibbles are looked up in a table of a type's own.
#include "matmul-int.h"

namespace pg {
namespace PG_NS {

const GemmFn gemm_n4 = int_gemm<kEncodingN4>;
const GemmFn gemm_n4k = int_gemm<kEncodingN4K>;
const GemmFn gemm_mx4 = int_gemm<kEncodingMx4>;

}  // namespace PG_NS
}  // namespace pg
