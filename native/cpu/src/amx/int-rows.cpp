// q8 and q4 for fewer rows than int8 tiles pay for: AVX-512's kernels, with its bits, asking for weights as the processors with tiles
// like it. One row by weights of memory there, 1 to 16 threads: 8 to 30 % more than with the processor's own prefetcher or L2 alone.
#define PG_ASKS_TWICE 1
#include "../kernels/matmul-int.h"
#include "tile-matmul.h"

namespace pg {
namespace PG_NS {

const GemmFn gemm_q8_lines = int_gemm<kEncodingQ8>;
const GemmFn gemm_q4_lines = int_gemm<kEncodingQ4>;

}  // namespace PG_NS
}  // namespace pg
