// The encodings with super blocks.
#include "matmul-int.h"
#if PG_ISA == 2
#include "matmul-int-many.h"
#endif

namespace pg {
namespace PG_NS {

const GemmFn gemm_q4k = int_gemm<kEncodingQ4K>;
const GemmFn gemm_q5k = int_gemm<kEncodingQ5K>;
const GemmFn gemm_q6k = int_gemm<kEncodingQ6K>;
const GemmFn gemm_q3k = int_gemm<kEncodingQ3K>;
const GemmFn gemm_q2k = int_gemm<kEncodingQ2K>;

#if PG_ISA == 2
const GemmFn gemm_q4k_many = int_gemm_many<kEncodingQ4K>;
const GemmFn gemm_q5k_many = int_gemm_many<kEncodingQ5K>;
const GemmFn gemm_q6k_many = int_gemm_many<kEncodingQ6K>;
const GemmFn gemm_q3k_many = int_gemm_many<kEncodingQ3K>;
const GemmFn gemm_q2k_many = int_gemm_many<kEncodingQ2K>;
#endif

}  // namespace PG_NS
}  // namespace pg
