// The avxvnni variant: everything of avx2, with vpdpbusd for integer weights, which laptops without AVX-512 have. Same bits.
#include "../kernels.h"
#include "../kernels/matmul.h"

namespace pg {
namespace avx2 {
const Kernels* kernels();
}
namespace PG_NS {

const Kernels* kernels() {
  static const Kernels table = [] {
    Kernels t = *avx2::kernels();
    t.isa = kIsaAvxVnni;
    const auto take = [&](Encoding encoding, GemmFn gemm, GemmFn many) {
      t.matmul[encoding].run = gemm;
      t.matmul_many[encoding].run = many;
    };
    take(kEncodingQ8, gemm_q8, nullptr);
    take(kEncodingQ4, gemm_q4, nullptr);
    take(kEncodingQ4M, gemm_q4m, nullptr);
    take(kEncodingQ5, gemm_q5, gemm_q5_many);
    take(kEncodingQ5M, gemm_q5m, gemm_q5m_many);
    take(kEncodingQ4K, gemm_q4k, gemm_q4k_many);
    take(kEncodingQ5K, gemm_q5k, gemm_q5k_many);
    take(kEncodingQ6K, gemm_q6k, gemm_q6k_many);
    take(kEncodingQ3K, gemm_q3k, gemm_q3k_many);
    take(kEncodingQ2K, gemm_q2k, gemm_q2k_many);
    take(kEncodingN4, gemm_n4, gemm_n4_many);
    take(kEncodingN4K, gemm_n4k, gemm_n4k_many);
    take(kEncodingMx4, gemm_mx4, gemm_mx4_many);
    take(kEncodingN2K, gemm_n2k, gemm_n2k_many);
    take(kEncodingN2H, gemm_n2h, gemm_n2h_many);
    take(kEncodingN3K, gemm_n3k, gemm_n3k_many);
    take(kEncodingN3S, gemm_n3s, gemm_n3s_many);
    take(kEncodingN1K, gemm_n1k, gemm_n1k_many);
    take(kEncodingN1H, gemm_n1h, gemm_n1h_many);
    take(kEncodingT2, gemm_t2, gemm_t2_many);
    take(kEncodingT2K, gemm_t2k, gemm_t2k_many);
    return t;
  }();
  return &table;
}

}  // namespace PG_NS
}  // namespace pg
