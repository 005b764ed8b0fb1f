// The encodings of q8_0 and q4_0, which `--quantize` also makes.
#include "matmul-int.h"

namespace pg {
namespace PG_NS {

const GemmFn gemm_q8 = int_gemm<kEncodingQ8>;
const GemmFn gemm_q4 = int_gemm<kEncodingQ4>;
const GemmFn gemm_q8m = int_gemm<kEncodingQ8M>;
const GemmFn gemm_q4m = int_gemm<kEncodingQ4M>;

}  // namespace PG_NS
}  // namespace pg
