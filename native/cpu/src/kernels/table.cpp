// The variant's table: the one symbol of each variant that the rest of the library sees.
#include "../kernels.h"
#include "matmul.h"
#include "peak.h"

namespace pg {
namespace PG_NS {

extern const AttentionKernels attention_kernels;
extern const RowKernels row_kernels;
extern const RecurrentKernels recurrent_kernels;
extern const SampleKernels sample_kernels;

const Kernels* kernels() {
  static const Kernels table = {
      PG_ISA,
      kFloatTileRows,
      kIntTileRows,
      pack_float,
      pack_int,
      {gemm_f32, gemm_f16, gemm_bf16, gemm_q8, gemm_q4, gemm_q4m, gemm_q5, gemm_q5m, gemm_q4k, gemm_q5k, gemm_q6k, gemm_q3k,
       gemm_q2k, gemm_n4, gemm_n4k, gemm_mx4, gemm_n2k, gemm_n2h, gemm_n3k, gemm_n3s, gemm_n1k,
       gemm_n1h},
      &attention_kernels,
      &row_kernels,
      &recurrent_kernels,
      &sample_kernels,
      peak_float,
      peak_int,
      peak_read,
  };
  return &table;
}

}  // namespace PG_NS
}  // namespace pg
