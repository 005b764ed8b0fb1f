// The encodings whose nibbles are looked up in a table of a type's own.
#include "matmul-int.h"
#if PG_ISA == 2
#include "matmul-int-many.h"
#endif

namespace pg {
namespace PG_NS {

const GemmFn gemm_n4 = int_gemm<kEncodingN4>;
const GemmFn gemm_n4k = int_gemm<kEncodingN4K>;
const GemmFn gemm_mx4 = int_gemm<kEncodingMx4>;

#if PG_ISA == 2
const GemmFn gemm_n4_many = int_gemm_many<kEncodingN4>;
const GemmFn gemm_n4k_many = int_gemm_many<kEncodingN4K>;
const GemmFn gemm_mx4_many = int_gemm_many<kEncodingMx4>;
#endif

}  // namespace PG_NS
}  // namespace pg
