// Scalar conversions and the scalar multiply-add, the twins of those in kernels/simd.h. All are internal to the including file,
// so each variant has its own copies.
#pragma once
#include <stdint.h>
#include <string.h>

#ifdef __F16C__
#include <immintrin.h>
#endif
#ifdef __wasm_relaxed_simd__
#include <wasm_simd128.h>
#endif

#define PG_INLINE static inline __attribute__((always_inline))

namespace pg {

PG_INLINE float s_madd(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#elif defined(__wasm_relaxed_simd__)  // fused or not: as the vectors are
  const v128_t fused = wasm_f32x4_relaxed_madd(wasm_f32x4_splat(a), wasm_f32x4_splat(b), wasm_f32x4_splat(c));
  return wasm_f32x4_extract_lane(fused, 0);
#else
  return a * b + c;
#endif
}
PG_INLINE float s_from_bits(uint32_t bits) { float f; memcpy(&f, &bits, 4); return f; }
PG_INLINE uint32_t s_bits(float f) { uint32_t bits; memcpy(&bits, &f, 4); return bits; }
PG_INLINE float s_from_bf16(uint16_t h) { return s_from_bits((uint32_t)h << 16); }
PG_INLINE float s_from_f16(uint16_t h) {
#ifdef __F16C__
  return _cvtsh_ss(h);
#else
  const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
  const uint32_t rest = h & 0x7fff;
  if (rest >= 0x7c00) return s_from_bits(sign | 0x7f800000u | (rest & 0x3ff) << 13);  // infinity and NaN
  // Any finite half is (bits shifted into place) * 2^112: the multiplication normalises subnormals exactly.
  return s_from_bits(sign | s_bits(s_from_bits(rest << 13) * s_from_bits(0x77800000u)));
#endif
}
// Round to nearest even.
PG_INLINE uint16_t s_to_bf16(float f) {
  const uint32_t bits = s_bits(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40);  // NaN stays NaN
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
PG_INLINE uint16_t s_to_f16(float f) {
#ifdef __F16C__
  return (uint16_t)_cvtss_sh(f, 0);
#else
  const uint32_t bits = s_bits(f);
  const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
  const uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00);
  if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00);  // rounds past 65504
  if (rest < 0x38800000u) {  // below 2^-14: adding 0.5 leaves the value in units of 2^-24, rounded to even, in the low bits
    return (uint16_t)(sign | (s_bits(s_from_bits(rest) + 0.5f) - 0x3f000000u));
  }
  return (uint16_t)(sign | ((rest + 0xfff + (rest >> 13 & 1)) - 0x38000000u) >> 13);
#endif
}
// Nearest f8 e4m3, ties to even; 448 and more, and NaN, become 448.
PG_INLINE uint8_t s_to_e4m3(float f) {
  const uint32_t bits = s_bits(f);
  const uint8_t sign = (uint8_t)(bits >> 24 & 0x80);
  const uint32_t rest = bits & 0x7fffffffu;
  if (rest >= 0x43e00000u) return (uint8_t)(sign | 0x7e);
  if (rest < 0x3c800000u) {  // below 2^-6: adding 2^14 leaves the value in units of 2^-9, rounded to even, in the low bits
    return (uint8_t)(sign | (s_bits(s_from_bits(rest) + 16384.0f) - 0x46800000u));
  }
  return (uint8_t)(sign | ((rest + 0x7ffff + (rest >> 20 & 1)) - 0x3c000000u) >> 20);
}

}  // namespace pg
