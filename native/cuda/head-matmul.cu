// Heads with a matrix each (latent attention): out[t, h][j] = sum over k of w_h[j, k] * x[t, h][k], all heads in one launch. A warp has a strip of
// 16 outputs of one head and 8 or 32 tokens; it reads the strip as it lies (fragments.cuh) and x as f32, which it rounds to what the weights are
// multiplied by. All sums run over K in one order, whatever the count of tokens. Bound by reading the weights where there are few tokens.
#include "common.cuh"
#include "fragments.cuh"

struct HeadArgs {
  float* out; const float* x; const u64* weights;  // [heads] addresses of matrices of one shape
  i64 outStride, xStride;
  int outHead, xHead;  // columns from one head to the next
  int n, rows, cols, steps;  // steps of 64 k's
};

template <int FORMAT, int NT>
__device__ __forceinline__ void head_matmul(const HeadArgs& a) {
  typedef Fragments<FORMAT> F;
  const int lane = threadIdx.x & 31, g = lane >> 2, q = 2 * (lane & 3), head = blockIdx.z;
  const int strip = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
  if (strip * 16 >= a.rows) return;
  const u8* w = (const u8*)a.weights[head] + (i64)strip * a.steps * F::STEP_BYTES;
  const float* x = a.x + (i64)head * a.xHead;
  float* out = a.out + (i64)head * a.outHead;
  for (int t0 = blockIdx.y * 8 * NT; t0 < a.n; t0 += gridDim.y * 8 * NT) {
    float sum[NT][4];
#pragma unroll
    for (int i = 0; i < NT; i++) sum[i][0] = sum[i][1] = sum[i][2] = sum[i][3] = 0.f;
    for (int step = 0; step < a.steps; step++) {
      F fragments;
      fragments.load(w + (i64)step * F::STEP_BYTES, lane);
#pragma unroll
      for (int k = 0; k < 4; k++) {
        u32 weights[4];
        fragments.get(k, weights);
        const int at = step * 64 + k * 16 + q;
#pragma unroll
        for (int i = 0; i < NT; i++) {
          const int t = t0 + 8 * i + g;
          const float* row = x + t * a.xStride;
          auto pair = [&](int c) {
            const bool isThere = t < a.n;
            return round2<F::KIND>(isThere && c < a.cols ? row[c] : 0.f, isThere && c + 1 < a.cols ? row[c + 1] : 0.f);
          };
          mma16816<F::KIND>(sum[i], weights, pair(at), pair(at + 8));
        }
      }
    }
#pragma unroll
    for (int i = 0; i < NT; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const int t = t0 + 8 * i + q + (j & 1), o = strip * 16 + g + 8 * (j >> 1);
        if (t < a.n && o < a.rows) out[t * a.outStride + o] = sum[i][j];
      }
  }
}
#define HEADS(FORMAT, name)                                                       \
  KERNEL(128, head_matmul_##name##_1, HeadArgs) { head_matmul<FORMAT, 1>(a); } \
  KERNEL(128, head_matmul_##name##_4, HeadArgs) { head_matmul<FORMAT, 4>(a); }
HEADS(FORMAT_BF16, bf16) HEADS(FORMAT_F16, f16)
HEADS(FORMAT_Q4, q4) HEADS(FORMAT_Q4_MIN, q4_min) HEADS(FORMAT_Q8, q8) HEADS(FORMAT_Q8_MIN, q8_min)
HEADS(FORMAT_E4M3, e4m3) HEADS(FORMAT_E2M1, e2m1)

// f32 matrices keep their numbers: a warp has one output of one head and 8 tokens at a time, lanes every 32nd k (as matmul-f32.cu).
KERNEL(256, head_matmul_f32, HeadArgs) {
  constexpr int TOKENS = 8;
  const int lane = threadIdx.x & 31, o = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), head = blockIdx.z;
  if (o >= a.rows) return;
  const float* w = (const float*)a.weights[head] + (i64)o * a.cols;
  const float* x = a.x + (i64)head * a.xHead;
  for (int t0 = blockIdx.y * TOKENS; t0 < a.n; t0 += gridDim.y * TOKENS) {
    float sum[TOKENS];
#pragma unroll
    for (int i = 0; i < TOKENS; i++) sum[i] = 0.f;
    for (int k = lane; k < a.cols; k += 32) {
      const float v = w[k];
#pragma unroll
      for (int i = 0; i < TOKENS; i++) sum[i] = fmaf(x[min(t0 + i, a.n - 1) * a.xStride + k], v, sum[i]);
    }
#pragma unroll
    for (int i = 0; i < TOKENS; i++) {
      const float total = warp_sum(sum[i]);
      if (lane == 0 && t0 + i < a.n) a.out[(t0 + i) * a.outStride + (i64)head * a.outHead + o] = total;
    }
  }
}
