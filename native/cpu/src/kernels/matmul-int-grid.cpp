// The encodings of few bits that are no k-quants: levels of coordinates of grid points, and codes of two bits.
#include "matmul-int.h"
#if PG_ISA == 2
#include "matmul-int-many.h"
#endif

namespace pg {
namespace PG_NS {

const GemmFn gemm_n2k = int_gemm<kEncodingN2K>;
const GemmFn gemm_n2h = int_gemm<kEncodingN2H>;
const GemmFn gemm_n3k = int_gemm<kEncodingN3K>;
const GemmFn gemm_n3s = int_gemm<kEncodingN3S>;
const GemmFn gemm_n1k = int_gemm<kEncodingN1K>;
const GemmFn gemm_n1h = int_gemm<kEncodingN1H>;
const GemmFn gemm_t2 = int_gemm<kEncodingT2>;
const GemmFn gemm_t2k = int_gemm<kEncodingT2K>;

#if PG_ISA == 2
const GemmFn gemm_n2k_many = int_gemm_many<kEncodingN2K>;
const GemmFn gemm_n2h_many = int_gemm_many<kEncodingN2H>;
const GemmFn gemm_n3k_many = int_gemm_many<kEncodingN3K>;
const GemmFn gemm_n3s_many = int_gemm_many<kEncodingN3S>;
const GemmFn gemm_n1k_many = int_gemm_many<kEncodingN1K>;
const GemmFn gemm_n1h_many = int_gemm_many<kEncodingN1H>;
const GemmFn gemm_t2_many = int_gemm_many<kEncodingT2>;
const GemmFn gemm_t2k_many = int_gemm_many<kEncodingT2K>;
#endif

}  // namespace PG_NS
}  // namespace pg
