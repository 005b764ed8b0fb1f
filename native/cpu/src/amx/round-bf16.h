// Floats to bf16.
#pragma once
#include "../kernels/simd.h"

namespace pg {
namespace PG_NS {

// Upper halves are the nearest bf16, ties to even; NaN stays NaN.
PG_INLINE __m512i rounded(__m512 v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i lsb = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), lsb);
  return _mm512_mask_or_epi32(up, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), bits, _mm512_set1_epi32(0x400000));
}

// 16 numbers as bf16.
PG_INLINE __m256i to_bf16(__m512 v) { return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded(v), 16)); }

}  // namespace PG_NS
}  // namespace pg
