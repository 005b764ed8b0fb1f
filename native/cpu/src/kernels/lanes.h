// More of the vector vocabulary of simd.h: tails, selections, reductions. Operators + - * / on vf are the compiler's own.
// Everything is lane-wise except hmax and hsum, whose tree is fixed: a result never depends on what lies in other rows.
#pragma once
#include "simd.h"

namespace pg {
namespace PG_NS {

PG_INLINE int i_min(int a, int b) { return a < b ? a : b; }
PG_INLINE int i_max(int a, int b) { return a > b ? a : b; }

#if PG_ISA == 3

PG_INLINE __mmask16 v_first_lanes(int count) { return (__mmask16)((1u << count) - 1); }
// count in 1..VL: the other lanes read as 0 and their memory is not touched.
PG_INLINE vf v_load_first(const float* p, int count) { return _mm512_maskz_loadu_ps(v_first_lanes(count), p); }
PG_INLINE void v_store_first(float* p, vf x, int count) { _mm512_mask_storeu_ps(p, v_first_lanes(count), x); }
PG_INLINE vf v_abs(vf a) { return _mm512_abs_ps(a); }
PG_INLINE vf v_sqrt(vf a) { return _mm512_sqrt_ps(a); }
// To the nearest integer, ties to even.
PG_INLINE vf v_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
// a < b ? yes : no; NaN compares false.
PG_INLINE vf v_select_less(vf a, vf b, vf yes, vf no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}
PG_INLINE vf v_copy_sign(vf magnitude, vf sign) {
  const __m512i bit = _mm512_set1_epi32((int)0x80000000u);
  return _mm512_castsi512_ps(_mm512_or_si512(_mm512_andnot_si512(bit, _mm512_castps_si512(magnitude)),
                                             _mm512_and_si512(bit, _mm512_castps_si512(sign))));
}
// x in lanes [from, to), other in the rest.
PG_INLINE vf v_select_lanes(vf x, vf other, int from, int to) {
  return _mm512_mask_blend_ps((__mmask16)(((1u << to) - 1) & ~((1u << from) - 1)), other, x);
}
// x * 2^n for integral n, when both x and the result are normal.
PG_INLINE vf v_scale_by_power(vf x, vf n) {
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_slli_epi32(_mm512_cvtps_epi32(n), 23)));
}
PG_INLINE float v_lane0(vf a) { return _mm512_cvtss_f32(a); }
PG_INLINE __m256 v_high_half(vf a) { return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1)); }
PG_INLINE __m256 v_halves_max(vf a) { return _mm256_max_ps(_mm512_castps512_ps256(a), v_high_half(a)); }
PG_INLINE __m256 v_halves_sum(vf a) { return _mm256_add_ps(_mm512_castps512_ps256(a), v_high_half(a)); }

#elif PG_ISA == 2

PG_INLINE __m256i v_first_lanes(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
PG_INLINE vf v_load_first(const float* p, int count) { return _mm256_maskload_ps(p, v_first_lanes(count)); }
PG_INLINE void v_store_first(float* p, vf x, int count) { _mm256_maskstore_ps(p, v_first_lanes(count), x); }
PG_INLINE vf v_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
PG_INLINE vf v_sqrt(vf a) { return _mm256_sqrt_ps(a); }
PG_INLINE vf v_round(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
PG_INLINE vf v_select_less(vf a, vf b, vf yes, vf no) { return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ)); }
PG_INLINE vf v_copy_sign(vf magnitude, vf sign) {
  const __m256 bit = _mm256_set1_ps(-0.0f);
  return _mm256_or_ps(_mm256_andnot_ps(bit, magnitude), _mm256_and_ps(bit, sign));
}
PG_INLINE vf v_select_lanes(vf x, vf other, int from, int to) {
  return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(_mm256_andnot_si256(v_first_lanes(from), v_first_lanes(to))));
}
PG_INLINE vf v_scale_by_power(vf x, vf n) {
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23)));
}
PG_INLINE float v_lane0(vf a) { return _mm256_cvtss_f32(a); }
PG_INLINE __m256 v_halves_max(vf a) { return a; }
PG_INLINE __m256 v_halves_sum(vf a) { return a; }

#else

PG_INLINE vf v_load_first(const float* p, int count) {
  vf r = v_set(0.0f);
  for (int i = 0; i < count; i++) r[i] = p[i];
  return r;
}
PG_INLINE void v_store_first(float* p, vf x, int count) {
  for (int i = 0; i < count; i++) p[i] = x[i];
}
PG_INLINE vf v_abs(vf a) { return (vf)((vu)a & 0x7fffffffu); }
#if PG_NEON
PG_INLINE vf v_sqrt(vf a) { return (vf)vsqrtq_f32(neon(a)); }
PG_INLINE vf v_round(vf a) { return (vf)vrndnq_f32(neon(a)); }
PG_INLINE vf v_scale_by_power(vf x, vf n) { return (vf)((vu)x + ((vu)vcvtq_s32_f32(neon(n)) << 23)); }
#elif PG_WASM
PG_INLINE vf v_sqrt(vf a) { return (vf)wasm_f32x4_sqrt((v128_t)a); }
PG_INLINE vf v_round(vf a) { return (vf)wasm_f32x4_nearest((v128_t)a); }
PG_INLINE vf v_scale_by_power(vf x, vf n) {
  return (vf)((vu)x + ((vu)wasm_i32x4_trunc_sat_f32x4((v128_t)n) << 23));
}
#else
PG_INLINE vf v_sqrt(vf a) {
  vf r;
  for (int i = 0; i < VL; i++) r[i] = __builtin_sqrtf(a[i]);
  return r;
}
// Adding and taking away 1.5 * 2^23 leaves no fraction; callers stay below 2^22.
PG_INLINE vf v_round(vf a) { return (a + v_set(12582912.0f)) - v_set(12582912.0f); }
// Added to 1.5 * 2^23 a whole number is the low bits: no conversion that NaN leaves undefined.
PG_INLINE vf v_scale_by_power(vf x, vf n) { return (vf)((vu)x + ((vu)(n + v_set(12582912.0f)) << 23)); }
#endif
PG_INLINE vf v_select_less(vf a, vf b, vf yes, vf no) { return a < b ? yes : no; }
PG_INLINE vf v_copy_sign(vf magnitude, vf sign) { return (vf)(((vu)magnitude & 0x7fffffffu) | ((vu)sign & 0x80000000u)); }
PG_INLINE vf v_select_lanes(vf x, vf other, int from, int to) {
  vf r = other;
  for (int i = from; i < to; i++) r[i] = x[i];
  return r;
}
PG_INLINE float v_lane0(vf a) { return a[0]; }
// x[i][j] -> x[j][i].
PG_INLINE void transpose4(vf (&x)[4]) {
#if PG_NEON
  const float32x4x2_t a = vtrnq_f32(neon(x[0]), neon(x[1])), b = vtrnq_f32(neon(x[2]), neon(x[3]));
  for (int i = 0; i < 2; i++) {
    x[i] = (vf)vtrn1q_f64((float64x2_t)a.val[i], (float64x2_t)b.val[i]);
    x[i + 2] = (vf)vtrn2q_f64((float64x2_t)a.val[i], (float64x2_t)b.val[i]);
  }
#elif PG_WASM
  const v128_t a = (v128_t)x[0], b = (v128_t)x[1], c = (v128_t)x[2], d = (v128_t)x[3];
  const v128_t ab = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), ab2 = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7);
  const v128_t cd = wasm_i32x4_shuffle(c, d, 0, 4, 1, 5), cd2 = wasm_i32x4_shuffle(c, d, 2, 6, 3, 7);
  x[0] = (vf)wasm_i64x2_shuffle(ab, cd, 0, 2);
  x[1] = (vf)wasm_i64x2_shuffle(ab, cd, 1, 3);
  x[2] = (vf)wasm_i64x2_shuffle(ab2, cd2, 0, 2);
  x[3] = (vf)wasm_i64x2_shuffle(ab2, cd2, 1, 3);
#else
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < i; j++) {
      const float swapped = x[i][j];
      x[i][j] = x[j][i];
      x[j][i] = swapped;
    }
#endif
}
PG_INLINE float v_hmax(vf a) {
  const float x = a[0] > a[1] ? a[0] : a[1];
  const float y = a[2] > a[3] ? a[2] : a[3];
  return x > y ? x : y;
}
PG_INLINE float v_hsum(vf a) { return (a[0] + a[2]) + (a[1] + a[3]); }

#endif

#if PG_ISA >= 2
PG_INLINE float v_hmax(vf a) {
  const __m256 x8 = v_halves_max(a);
  const __m128 x4 = _mm_max_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
  const __m128 x2 = _mm_max_ps(x4, _mm_movehl_ps(x4, x4));
  return _mm_cvtss_f32(_mm_max_ss(x2, _mm_shuffle_ps(x2, x2, 1)));
}
PG_INLINE float v_hsum(vf a) {
  const __m256 x8 = v_halves_sum(a);
  const __m128 x4 = _mm_add_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
  const __m128 x2 = _mm_add_ps(x4, _mm_movehl_ps(x4, x4));
  return _mm_cvtss_f32(_mm_add_ss(x2, _mm_shuffle_ps(x2, x2, 1)));
}
#endif

PG_INLINE vf v_load_some(const float* p, int lanes) { return lanes == VL ? v_load(p) : v_load_first(p, lanes); }
PG_INLINE void v_store_some(float* p, vf x, int lanes) {
  if (lanes == VL)
    v_store(p, x);
  else
    v_store_first(p, x, lanes);
}

// A row of `count` floats in steps of VL: body(offset, lanes), lanes < VL in the last step only.
template <typename Body>
PG_INLINE void each_step(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + VL <= count; i += VL) body(i, VL);
  if (i < count) body(i, (int)(count - i));
}

}  // namespace PG_NS
}  // namespace pg
