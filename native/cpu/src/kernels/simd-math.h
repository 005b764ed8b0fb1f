// exp, tanh, erf and what is built on them, VL lanes at a time. Polynomials are our own weighted minimax fits; the largest
// relative error of each was measured over its whole range and stands beside it. Results depend on the lane's argument alone.
#pragma once
#include "lanes.h"

namespace pg {
namespace PG_NS {

constexpr float kLog2e = 1.44269504088896341f;
constexpr float kMinusInfinity = -__builtin_inff();

// 2^(n + r) for integral n in [-126, 127], |r| <= 1/2: 2^r = 1 + r p(r), deg p = 5; 2^n goes into the exponent bits.
PG_INLINE vf v_exp2_parts(vf n, vf r) {
  vf p = v_set(0x1.41fbbap-13f);
  p = v_madd(p, r, v_set(0x1.5f3e54p-10f));
  p = v_madd(p, r, v_set(0x1.3b2d4cp-7f));
  p = v_madd(p, r, v_set(0x1.c6aee8p-5f));
  p = v_madd(p, r, v_set(0x1.ebfbdcp-3f));
  p = v_madd(p, r, v_set(0x1.62e430p-1f));
  p = v_madd(p, r, v_set(1.0f));
  return v_scale_by_power(p, n);
}

// 2^max(x, -126) for x <= 127: v_exp2 without its ends, where a caller knows better.
PG_INLINE vf v_exp2_clamped(vf x) {
  const vf clamped = v_max(v_set(-126.0f), x);
  const vf n = v_round(clamped);
  return v_exp2_parts(n, clamped - n);
}

// 2^x, relative error < 1.2e-7. Exactly 1 at 0; 0 below -126 (-inf included); 2^127 from 127 up; NaN stays NaN.
PG_INLINE vf v_exp2(vf x) {
  const vf lowest = v_set(-126.0f);
  // min and max return their second operand on NaN, so NaN passes through both.
  const vf clamped = v_min(v_set(127.0f), v_max(lowest, x));
  const vf n = v_round(clamped);
  return v_select_less(x, lowest, v_set(0.0f), v_exp2_parts(n, clamped - n));
}

// e^x, relative error < 2e-7 where FMA is fused; 0 below -87, clamps above 88. log2(e) is split so that large |x| loses nothing.
PG_INLINE vf v_exp(vf x) {
  const vf lowest = v_set(-87.0f);
  const vf clamped = v_min(v_set(88.0f), v_max(lowest, x));
  const vf n = v_round(clamped * v_set(kLog2e));
  const vf r = v_madd(clamped, v_set(1.925963033500e-8f), v_madd(clamped, v_set(kLog2e), v_set(0.0f) - n));
  return v_select_less(x, lowest, v_set(0.0f), v_exp2_parts(n, r));
}

// 1 / (1 + e^-x).
PG_INLINE vf v_sigmoid(vf x) { return v_set(1.0f) / (v_set(1.0f) + v_exp(v_set(0.0f) - x)); }
PG_INLINE vf v_silu(vf x) { return x / (v_set(1.0f) + v_exp(v_set(0.0f) - x)); }

// tanh, relative error < 3e-7: an odd polynomial below 5/8, 1 - 2 / (e^2x + 1) above.
PG_INLINE vf v_tanh(vf x) {
  const vf a = v_abs(x);
  const vf u = a * a;
  vf p = v_set(0.0021429588f);
  p = v_madd(p, u, v_set(-0.008177395f));
  p = v_madd(p, u, v_set(0.0217007f));
  p = v_madd(p, u, v_set(-0.053946763f));
  p = v_madd(p, u, v_set(0.13333206f));
  p = v_madd(p, u, v_set(-0.3333333f));
  const vf small = v_madd(a * u, p, a);
  const vf large = v_set(1.0f) - v_set(2.0f) / (v_exp(v_min(v_set(30.0f), a + a)) + v_set(1.0f));
  return v_copy_sign(v_select_less(a, v_set(0.625f), small, large), x);
}

// erf, absolute error < 2e-7: x p(x^2) below 1, 1 - e^(-x^2) q(1/x) to 4, 1 above.
PG_INLINE vf v_erf(vf x) {
  const vf a = v_abs(x);
  const vf u = a * a;
  vf p = v_set(7.853858e-05f);
  p = v_madd(p, u, v_set(-0.00080101925f));
  p = v_madd(p, u, v_set(0.0051883277f));
  p = v_madd(p, u, v_set(-0.026853811f));
  p = v_madd(p, u, v_set(0.112835854f));
  p = v_madd(p, u, v_set(-0.37612626f));
  p = v_madd(p, u, v_set(1.1283791f));
  const vf small = a * p;
  const vf b = v_min(v_set(4.0f), v_max(v_set(1.0f), a));
  const vf t = v_set(1.0f) / b;
  vf q = v_set(0.0251309f);
  q = v_madd(q, t, v_set(-0.1376302f));
  q = v_madd(q, t, v_set(0.30656403f));
  q = v_madd(q, t, v_set(-0.3079171f));
  q = v_madd(q, t, v_set(-0.0350598f));
  q = v_madd(q, t, v_set(0.5781945f));
  q = v_madd(q, t, v_set(-0.0016987406f));
  const vf large = v_set(1.0f) - v_exp(v_set(0.0f) - b * b) * q;
  return v_copy_sign(v_select_less(a, v_set(1.0f), small, large), x);
}

PG_INLINE vf v_gelu(vf x) { return v_set(0.5f) * x * (v_set(1.0f) + v_erf(x * v_set(0.70710678118654752f))); }
PG_INLINE vf v_gelu_tanh(vf x) {
  const vf inner = v_set(0.79788456080286536f) * v_madd(v_set(0.044715f) * x, x * x, x);
  return v_set(0.5f) * x * (v_set(1.0f) + v_tanh(inner));
}

}  // namespace PG_NS
}  // namespace pg
