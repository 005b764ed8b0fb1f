// The encodings with super blocks.
#include "matmul-int.h"

namespace pg {
namespace PG_NS {

const GemmFn gemm_q4k = int_gemm<kEncodingQ4K>;
const GemmFn gemm_q5k = int_gemm<kEncodingQ5K>;
const GemmFn gemm_q6k = int_gemm<kEncodingQ6K>;
const GemmFn gemm_q3k = int_gemm<kEncodingQ3K>;
const GemmFn gemm_q2k = int_gemm<kEncodingQ2K>;

}  // namespace PG_NS
}  // namespace pg
