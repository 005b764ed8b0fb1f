// One vocabulary of f32 vectors over the instruction sets: VL lanes of type vf. Only what kernels share; a kernel that needs
// more uses the intrinsics of its variant beside a scalar twin. Every function here does the same IEEE operations in every
// variant, except that madd rounds once where the processor has fused multiply-add and twice on processors without.
#pragma once
#include <stdint.h>
#include <string.h>

#include "../scalar.h"

// PG_NEON is set on arm64: 1 the base, 2 with dot products, 3 with matrix products of int8. Lanes are those of portable.
#ifndef PG_NEON
#define PG_NEON 0
#endif
// PG_WASM is set for WebAssembly: 1 simd128, 2 with relaxed instructions. Lanes are those of portable.
#ifndef PG_WASM
#define PG_WASM 0
#endif
#if PG_ISA >= 2
#include <immintrin.h>
#elif PG_NEON
#include <arm_neon.h>
#elif PG_WASM
#include <wasm_simd128.h>
#endif

namespace pg {
namespace PG_NS {

#if PG_ISA == 3
// --- AVX-512: 16 lanes --------------------------------------------------------------------------------------------------
constexpr int VL = 16;
typedef __m512 vf;
PG_INLINE vf v_load(const float* p) { return _mm512_loadu_ps(p); }
PG_INLINE void v_store(float* p, vf v) { _mm512_storeu_ps(p, v); }
PG_INLINE vf v_set(float x) { return _mm512_set1_ps(x); }
PG_INLINE vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
PG_INLINE vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
PG_INLINE vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
PG_INLINE vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
PG_INLINE vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
PG_INLINE vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
PG_INLINE vf v_madd(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }  // a * b + c
PG_INLINE vf v_load_f16(const uint16_t* p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p)); }
PG_INLINE void v_store_f16(uint16_t* p, vf v) { _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph(v, 0)); }
PG_INLINE vf v_load_bf16(const uint16_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16));
}
// VL pairs of bf16 (even, odd): the even ones, the odd ones.
PG_INLINE vf v_load_bf16_even(const uint16_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
PG_INLINE vf v_load_bf16_odd(const uint16_t* p) {
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32((int)0xffff0000u)));
}
// VL int8 values.
PG_INLINE vf v_load_i8(const int8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p)));
}
#elif PG_ISA == 2
// --- AVX2 + FMA + F16C: 8 lanes -----------------------------------------------------------------------------------------
constexpr int VL = 8;
typedef __m256 vf;
PG_INLINE vf v_load(const float* p) { return _mm256_loadu_ps(p); }
PG_INLINE void v_store(float* p, vf v) { _mm256_storeu_ps(p, v); }
PG_INLINE vf v_set(float x) { return _mm256_set1_ps(x); }
PG_INLINE vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
PG_INLINE vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
PG_INLINE vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
PG_INLINE vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
PG_INLINE vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
PG_INLINE vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
PG_INLINE vf v_madd(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
PG_INLINE vf v_load_f16(const uint16_t* p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)); }
PG_INLINE void v_store_f16(uint16_t* p, vf v) { _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph(v, 0)); }
PG_INLINE vf v_load_bf16(const uint16_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16));
}
PG_INLINE vf v_load_bf16_even(const uint16_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256((const __m256i*)p), 16));
}
PG_INLINE vf v_load_bf16_odd(const uint16_t* p) {
  return _mm256_castsi256_ps(
      _mm256_and_si256(_mm256_loadu_si256((const __m256i*)p), _mm256_set1_epi32((int)0xffff0000u)));
}
PG_INLINE vf v_load_i8(const int8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p)));
}
#else
// --- portable: 4 lanes of compiler vectors (SSE2 on x86-64, NEON on arm64) -----------------------------------------------
constexpr int VL = 4;
typedef float vf __attribute__((vector_size(16), aligned(4)));
typedef uint32_t vu __attribute__((vector_size(16), aligned(4)));
PG_INLINE vf v_load(const float* p) { vf v; memcpy(&v, p, sizeof v); return v; }
PG_INLINE void v_store(float* p, vf v) { memcpy(p, &v, sizeof v); }
PG_INLINE vf v_set(float x) { return vf{x, x, x, x}; }
PG_INLINE vf v_add(vf a, vf b) { return a + b; }
PG_INLINE vf v_sub(vf a, vf b) { return a - b; }
PG_INLINE vf v_mul(vf a, vf b) { return a * b; }
PG_INLINE vf v_div(vf a, vf b) { return a / b; }
#if PG_WASM
PG_INLINE vf v_max(vf a, vf b) { return (vf)wasm_f32x4_pmax((v128_t)b, (v128_t)a); }
PG_INLINE vf v_min(vf a, vf b) { return (vf)wasm_f32x4_pmin((v128_t)b, (v128_t)a); }
#else
PG_INLINE vf v_max(vf a, vf b) { return a > b ? a : b; }
PG_INLINE vf v_min(vf a, vf b) { return a < b ? a : b; }
#endif
#endif

#if PG_NEON
// --- arm64: the same lanes, with the instructions that the compiler does not find by itself ---------------------------------
PG_INLINE float32x4_t neon(vf a) { return (float32x4_t)a; }
PG_INLINE vf v_madd(vf a, vf b, vf c) { return (vf)vfmaq_f32(neon(c), neon(a), neon(b)); }
PG_INLINE vf v_load_f16(const uint16_t* p) { return (vf)vcvt_f32_f16((float16x4_t)vld1_u16(p)); }
PG_INLINE void v_store_f16(uint16_t* p, vf v) { vst1_u16(p, (uint16x4_t)vcvt_f16_f32(neon(v))); }
PG_INLINE vf v_load_i8(const int8_t* p) {
  int32_t four;
  memcpy(&four, p, 4);
  return (vf)vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8((int8x8_t)vdup_n_s32(four)))));
}
PG_INLINE vf v_load_bf16(const uint16_t* p) { return (vf)vshlq_n_u32(vmovl_u16(vld1_u16(p)), 16); }
PG_INLINE vf v_load_bf16_even(const uint16_t* p) { vu v; memcpy(&v, p, sizeof v); return (vf)(v << 16); }
PG_INLINE vf v_load_bf16_odd(const uint16_t* p) { vu v; memcpy(&v, p, sizeof v); return (vf)(v & 0xffff0000u); }
#elif PG_WASM
// --- WebAssembly: likewise ------------------------------------------------------------------------------------------------
#if PG_WASM == 2
PG_INLINE vf v_madd(vf a, vf b, vf c) { return (vf)wasm_f32x4_relaxed_madd((v128_t)a, (v128_t)b, (v128_t)c); }
#else
PG_INLINE vf v_madd(vf a, vf b, vf c) { return a * b + c; }
#endif
// Sign, exponent and fraction where an f32 has them, then scaled: subnormals come out right too. An exponent of all ones (infinite, or no
// number) is put in by hand.
PG_INLINE vf v_load_f16(const uint16_t* p) {
  const v128_t half = wasm_i32x4_load16x4(p);
  const v128_t small = wasm_v128_and(wasm_i32x4_shl(half, 13), wasm_i32x4_splat((int32_t)0x8fffffff));
  const v128_t top = wasm_i32x4_splat(0x7c00);
  const v128_t special = wasm_v128_and(wasm_i32x4_eq(wasm_v128_and(half, top), top), wasm_i32x4_splat(0x7f800000));
  return (vf)wasm_v128_or(wasm_f32x4_mul(small, wasm_i32x4_splat(0x77800000)), special);
}
PG_INLINE void v_store_f16(uint16_t* p, vf v) { for (int i = 0; i < VL; i++) p[i] = s_to_f16(v[i]); }
PG_INLINE vf v_load_i8(const int8_t* p) {
  const v128_t bytes = wasm_v128_load32_zero(p);
  return (vf)wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(wasm_i16x8_extend_low_i8x16(bytes)));
}
PG_INLINE vf v_load_bf16(const uint16_t* p) { return (vf)wasm_i32x4_shl(wasm_u32x4_load16x4(p), 16); }
PG_INLINE vf v_load_bf16_even(const uint16_t* p) { vu v; memcpy(&v, p, sizeof v); return (vf)(v << 16); }
PG_INLINE vf v_load_bf16_odd(const uint16_t* p) { vu v; memcpy(&v, p, sizeof v); return (vf)(v & 0xffff0000u); }
#elif PG_ISA < 2
PG_INLINE vf v_madd(vf a, vf b, vf c) { return a * b + c; }
PG_INLINE vf v_load_f16(const uint16_t* p) {
  return vf{s_from_f16(p[0]), s_from_f16(p[1]), s_from_f16(p[2]), s_from_f16(p[3])};
}
PG_INLINE void v_store_f16(uint16_t* p, vf v) { for (int i = 0; i < VL; i++) p[i] = s_to_f16(v[i]); }
PG_INLINE vf v_load_i8(const int8_t* p) { return vf{(float)p[0], (float)p[1], (float)p[2], (float)p[3]}; }
PG_INLINE vf v_load_bf16(const uint16_t* p) { return (vf)(vu{p[0], p[1], p[2], p[3]} << 16); }
PG_INLINE vf v_load_bf16_even(const uint16_t* p) { vu v; memcpy(&v, p, sizeof v); return (vf)(v << 16); }
PG_INLINE vf v_load_bf16_odd(const uint16_t* p) { vu v; memcpy(&v, p, sizeof v); return (vf)(v & 0xffff0000u); }
#endif

}  // namespace PG_NS
}  // namespace pg
