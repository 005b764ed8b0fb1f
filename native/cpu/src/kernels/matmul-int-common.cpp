// The encodings with one f16 factor per block: q8_0 and q4_0, which `--quantize` also makes, q4_1, q5_0, q5_1.
#include "matmul-int.h"
#if PG_ISA == 2
#include "matmul-int-many.h"
#endif

namespace pg {
namespace PG_NS {

const GemmFn gemm_q8 = int_gemm<kEncodingQ8>;
const GemmFn gemm_q4 = int_gemm<kEncodingQ4>;
const GemmFn gemm_q4m = int_gemm<kEncodingQ4M>;
const GemmFn gemm_q5 = int_gemm<kEncodingQ5>;
const GemmFn gemm_q5m = int_gemm<kEncodingQ5M>;

#if PG_ISA == 2
const GemmFn gemm_q5_many = int_gemm_many<kEncodingQ5>;
const GemmFn gemm_q5m_many = int_gemm_many<kEncodingQ5M>;
#endif

}  // namespace PG_NS
}  // namespace pg
