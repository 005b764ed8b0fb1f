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
extern const LowRankKernels low_rank_kernels;

#if PG_NEON
constexpr int32_t kVariantIsa = PG_NEON == 2 ? kIsaDotprod : kIsaNeon;
#elif PG_WASM
constexpr int32_t kVariantIsa = PG_WASM == 2 ? kIsaRelaxed : kIsaSimd128;
#else
constexpr int32_t kVariantIsa = PG_ISA;
#endif

const Kernels* kernels() {
  static const Kernels table = {
      kVariantIsa,
      {{kFloatTileRows, true, float_tile_bytes, pack_float}, {kIntTileRows, false, int_tile_bytes, pack_int}, {}, {}},
      {{gemm_f32, kLayoutFloat, 0}, {gemm_f16, kLayoutFloat, 0}, {gemm_bf16, kLayoutFloat, 0},
       {gemm_q8, kLayoutInt, 0},    {gemm_q4, kLayoutInt, 0},    {gemm_q4m, kLayoutInt, 0},
       {gemm_q5, kLayoutInt, 0},    {gemm_q5m, kLayoutInt, 0},   {gemm_q4k, kLayoutInt, 0},
       {gemm_q5k, kLayoutInt, 0},   {gemm_q6k, kLayoutInt, 0},   {gemm_q3k, kLayoutInt, 0},
       {gemm_q2k, kLayoutInt, 0},   {gemm_n4, kLayoutInt, 0},    {gemm_n4k, kLayoutInt, 0},
       {gemm_mx4, kLayoutInt, 0},   {gemm_n2k, kLayoutInt, 0},   {gemm_n2h, kLayoutInt, 0},
       {gemm_n3k, kLayoutInt, 0},   {gemm_n3s, kLayoutInt, 0},   {gemm_n1k, kLayoutInt, 0},
       {gemm_n1h, kLayoutInt, 0},   {gemm_t2, kLayoutInt, 0},    {gemm_t2k, kLayoutInt, 0}},
#if PG_WASM
      {{}, {gemm_f16_many, kLayoutFloat, 0}, {gemm_bf16_many, kLayoutFloat, 0}},
      kWidenedFrom,
      widened_bytes,
#elif PG_ISA == 2
      {{}, {}, {}, {}, {}, {},
       {gemm_q5_many, kLayoutInt, 0},  {gemm_q5m_many, kLayoutInt, 0}, {gemm_q4k_many, kLayoutInt, 0},
       {gemm_q5k_many, kLayoutInt, 0}, {gemm_q6k_many, kLayoutInt, 0}, {gemm_q3k_many, kLayoutInt, 0},
       {gemm_q2k_many, kLayoutInt, 0}, {gemm_n4_many, kLayoutInt, 0},  {gemm_n4k_many, kLayoutInt, 0},
       {gemm_mx4_many, kLayoutInt, 0}, {gemm_n2k_many, kLayoutInt, 0}, {gemm_n2h_many, kLayoutInt, 0},
       {gemm_n3k_many, kLayoutInt, 0}, {gemm_n3s_many, kLayoutInt, 0}, {gemm_n1k_many, kLayoutInt, 0},
       {gemm_n1h_many, kLayoutInt, 0}, {gemm_t2_many, kLayoutInt, 0},  {gemm_t2k_many, kLayoutInt, 0}},
      kUnpackedFrom,
      unpacked_bytes,
#else
      {},
      0,
      nullptr,
#endif
      &attention_kernels,
      &row_kernels,
      &recurrent_kernels,
      &sample_kernels,
      &low_rank_kernels,
      peak_float,
      peak_int,
      peak_read,
      peak_update,
  };
  return &table;
}

#if PG_ISA == 3
const Kernels* tall_kernels() {
  static const Kernels table = [] {
    Kernels t = *kernels();
    t.layouts[kLayoutTall] = {kTallTileRows, true, tall_tile_bytes, pack_float};
    t.matmul_many[kEncodingF16] = {gemm_f16_tall, kLayoutTall, 0};
    t.matmul_many[kEncodingBf16] = {gemm_bf16_tall, kLayoutTall, 0};
    t.many_rows = kTallFrom;
    return t;
  }();
  return &table;
}
#endif

}  // namespace PG_NS
}  // namespace pg
