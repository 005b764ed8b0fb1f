// The encodings with super blocks.
#include "matmul-int.h"

namespace pg {
namespace PG_NS {

const GemmFn gemm_q8k = int_gemm<kEncodingQ8K>;
const GemmFn gemm_q4k = int_gemm<kEncodingQ4K>;
const GemmFn gemm_q8s = int_gemm<kEncodingQ8S>;
const GemmFn gemm_q8t = int_gemm<kEncodingQ8T>;

}  // namespace PG_NS
}  // namespace pg
