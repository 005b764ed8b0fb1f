// The variant's table: the one symbol of each variant that the rest of the library sees.
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
  static const Kernels table = [] {
    Kernels t = {};
    t.isa = kVariantIsa;
    t.layouts[kLayoutFloat] = {kFloatTileRows, true, float_tile_bytes, pack_float};
    t.layouts[kLayoutInt] = {kIntTileRows, false, int_tile_bytes, pack_int};
    t.matmul[kEncodingF32] = {gemm_f32, kLayoutFloat, 0};
    t.matmul[kEncodingF16] = {gemm_f16, kLayoutFloat, 0};
    t.matmul[kEncodingBf16] = {gemm_bf16, kLayoutFloat, 0};
    take_int_kernels(t);
#if PG_WASM
    t.matmul_many[kEncodingF16] = {gemm_f16_many, kLayoutFloat, 0};
    t.matmul_many[kEncodingBf16] = {gemm_bf16_many, kLayoutFloat, 0};
    t.many_rows = kWidenedFrom;
    t.matmul_scratch_bytes = widened_bytes;
#elif PG_ISA >= 2
    t.matmul_scratch_bytes = unpacked_bytes;
#endif
    t.attention = &attention_kernels;
    t.rows = &row_kernels;
    t.recurrent = &recurrent_kernels;
    t.sample = &sample_kernels;
    t.low_rank = &low_rank_kernels;
    t.peak_float = peak_float;
    t.peak_int = peak_int;
    t.peak_read = peak_read;
    t.peak_update = peak_update;
    return t;
  }();
  return &table;
}

#if PG_ISA == 3
// What the fastest kernels for many rows are differs between processors; bits do not.
const Kernels* kernels_of(bool is_tall, bool unpacks) {
  const auto make = [](bool tall, bool unpacked) {
    Kernels t = *kernels();
    if (!unpacked)
      for (MatmulKernel& many : t.matmul_many) many = {};
    if (!tall) return t;
    t.layouts[kLayoutTall] = {kTallTileRows, true, tall_tile_bytes, pack_float};
    t.matmul_many[kEncodingF16] = {gemm_f16_tall, kLayoutTall, 0};
    t.matmul_many[kEncodingBf16] = {gemm_bf16_tall, kLayoutTall, 0};
    t.many_rows = kTallFrom;
    return t;
  };
  static const Kernels tables[2][2] = {{make(false, false), make(false, true)}, {make(true, false), make(true, true)}};
  return &tables[is_tall][unpacks];
}
#endif

}  // namespace PG_NS
}  // namespace pg
