// The rotation of a pair of numbers, in one rounding for every kernel that turns queries and keys.
#pragma once
#include "common.cuh"

__device__ __forceinline__ void turn(float& x, float& y, float cos, float sin) {
  const float a = x, b = y;
  x = fmaf(a, cos, -__fmul_rn(b, sin));
  y = fmaf(b, cos, __fmul_rn(a, sin));
}
