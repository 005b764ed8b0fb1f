// out[t, o] = sum over k of x[t, k] * w[o, k] with f32 weights and f32 activations: for f32 checkpoints, whose numbers it keeps.
// Plain FMAs, no tensor cores: a reference path on the GPU, not a fast one.
//
// A warp owns one output o and a tile of 8 tokens: lanes take k = lane, lane + 32, ... and the 32 partial sums are added by
// halving distance: one order for every t, o and n. Traffic: w is read once per 8 tokens (L2 serves the repeats).
#include "epilogue.cuh"

#define TOKENS 8

struct MatmulF32Args {
  const float* x; const float* w;
  Epilogue epilogue;
  i64 xStride;
  int n, rows, cols, pad;
};

__device__ void matmul_f32_block(const MatmulF32Args& a, const float* w, const float* bias, int first, int end) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, o = blockIdx.x * (blockDim.x >> 5) + warp;
  if (o >= a.rows) return;
  for (int t0 = first + blockIdx.y * TOKENS; t0 < end; t0 += gridDim.y * TOKENS) {
    float sum[TOKENS];
    const float* x[TOKENS];
    for (int i = 0; i < TOKENS; i++) {
      int t = min(t0 + i, end - 1);
      sum[i] = 0.f;
      x[i] = a.x + (i64)t * a.xStride;
    }
    for (int k = lane; k < a.cols; k += 32) {
      float v = w[(i64)o * a.cols + k];
#pragma unroll
      for (int i = 0; i < TOKENS; i++) sum[i] = fmaf(x[i][k], v, sum[i]);
    }
#pragma unroll
    for (int i = 0; i < TOKENS; i++) {
      float total = warp_sum(sum[i]);
      if (lane == 0 && t0 + i < end) {
        Epilogue e = a.epilogue;
        e.bias = bias;
        finish(e, t0 + i, o, total, bias_of(e, o), before(e, t0 + i, o));
      }
    }
  }
}

KERNEL(256, matmul_f32, MatmulF32Args) {
  matmul_f32_block(a, a.w, a.epilogue.bias, 0, a.n);
}

// The same for experts: blockIdx.z is the expert, its rows of x are count[e] from range[e] on (experts.cu).
struct ExpertF32Args {
  MatmulF32Args base; const u64* weights; const int* range; const int* count; i64 biasStride;
};
KERNEL(256, expert_matmul_f32, ExpertF32Args) {
  int e = blockIdx.z;
  const float* bias = a.base.epilogue.bias == nullptr ? nullptr : a.base.epilogue.bias + e * a.biasStride;
  matmul_f32_block(a.base, (const float*)a.weights[e], bias, a.range[e], a.range[e] + a.count[e]);
}
