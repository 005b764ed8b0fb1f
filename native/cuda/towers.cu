// Ops that towers need beside those of text models.
#include "common.cuh"

// out = min(max(x, low), high) over [n, cols]: blockIdx.x is the row. NaN stays NaN.
struct ClampArgs {
  float* out; const float* x; i64 outStride, xStride; int cols; float low, high; int pad;
};
KERNEL(256, clamp_rows, ClampArgs) {
  const int t = blockIdx.x, c = blockIdx.y * blockDim.x + threadIdx.x;
  if (c >= a.cols) return;
  const float x = a.x[t * a.xStride + c];
  a.out[t * a.outStride + c] = x < a.low ? a.low : x > a.high ? a.high : x;
}
