// Recurrent layers: short convolutions, decay gates, linear attention with decay. Tokens are taken one by one in one order, so that
// every cut of a sequence gives the same bits. A row's state is the numbers from `offset` on of the slot the batch gives it; a row
// that begins its sequence starts from zeros whatever the slot holds.
#include "common.cuh"

#define MAX_TAPS 16

struct ConvArgs {
  float* out; const float* x; const float* weight; const float* bias; float* states;
  const int* stateOf; const int* positions; const int* qoIndptr;
  i64 outStride, xStride, weightStride, slotStride, offset;
  int cols, taps, activation, pad;
};
// A thread per (row, column); the window of inputs stays in registers over the row's tokens.
KERNEL(256, short_conv, ConvArgs) {
  const int row = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x, taps = a.taps;
  const int first = a.qoIndptr[row], end = a.qoIndptr[row + 1];
  if (c >= a.cols || first >= end) return;
  float* state = a.states + (i64)a.stateOf[row] * a.slotStride + a.offset + c;
  const bool begins = a.positions[first] == 0;
  float window[MAX_TAPS], weight[MAX_TAPS];
#pragma unroll
  for (int j = 0; j < MAX_TAPS; j++) {
    window[j] = j < taps - 1 && !begins ? state[(i64)j * a.cols] : 0.f;
    weight[j] = j < taps ? a.weight[j * a.weightStride + c] : 0.f;
  }
  const float bias = a.bias == nullptr ? 0.f : a.bias[c];
  for (int t = first; t < end; t++) {
    const float input = a.x[t * a.xStride + c];
    float sum = bias;
#pragma unroll
    for (int j = 0; j < MAX_TAPS; j++) {
      if (j == taps - 1) window[j] = input;
      if (j < taps) sum = fmaf(weight[j], window[j], sum);
    }
    a.out[t * a.outStride + c] = activate(a.activation, sum);
#pragma unroll
    for (int j = 0; j + 1 < MAX_TAPS; j++) window[j] = window[j + 1];
  }
#pragma unroll
  for (int j = 0; j < MAX_TAPS; j++) if (j < taps - 1) state[(i64)j * a.cols] = window[j];
}

struct GateArgs {
  float* decay; float* step; const float* x; const float* bias; const float* rate;
  i64 decayStride, stepStride, xStride;
  int heads; float least, most; int pad;
};
KERNEL(256, decay_gates, GateArgs) {
  const int t = blockIdx.y, h = blockIdx.x * blockDim.x + threadIdx.x;
  if (h >= a.heads) return;
  const float raised = a.x[t * a.xStride + h] + a.bias[h];
  const float softplus = raised > 20.f ? raised : log1pf(expf(raised));
  const float step = fminf(fmaxf(softplus, a.least), a.most);
  a.step[t * a.stepStride + h] = step;
  a.decay[t * a.decayStride + h] = expf(a.rate[h] * step);
}

struct LinearArgs {
  float* out; const float* q; const float* k; const float* v; const float* decay; const float* rate; const float* skip; float* states;
  const int* stateOf; const int* positions; const int* qoIndptr;
  i64 outStride, qStride, kStride, vStride, decayStride, rateStride, slotStride, offset;
  int numHeads, numKeyHeads, keyDim, valueDim, isDelta, pad;
};

#define MAX_KEY_DIM 512

// A block per (row, head), a thread per value column; column c of the state [keyDim, valueDim] is read and written by thread c alone.
// Bound by L1 and L2, where the state stays over a row's tokens.
KERNEL(1024, linear_attention, LinearArgs) {
  __shared__ float keys[MAX_KEY_DIM], queries[MAX_KEY_DIM];
  const int row = blockIdx.x, h = blockIdx.y, c = threadIdx.x, K = a.keyDim, V = a.valueDim;
  const int first = a.qoIndptr[row], end = a.qoIndptr[row + 1];
  if (first >= end) return;
  float* S = a.states + (i64)a.stateOf[row] * a.slotStride + a.offset + (i64)h * K * V + c;
  if (c < V && a.positions[first] == 0) for (int i = 0; i < K; i++) S[(i64)i * V] = 0.f;
  const int keyHead = h / (a.numHeads / a.numKeyHeads) * K;
  const float skip = a.skip == nullptr ? 0.f : a.skip[h];
  for (int t = first; t < end; t++) {
    __syncthreads();
    for (int i = threadIdx.x; i < K; i += blockDim.x) {
      keys[i] = a.k[t * a.kStride + keyHead + i];
      queries[i] = a.q[t * a.qStride + keyHead + i];
    }
    __syncthreads();
    if (c >= V) continue;
    const float g = a.decay[t * a.decayStride + h], r = a.rate[t * a.rateStride + h], value = a.v[t * a.vStride + h * V + c];
    float known = 0.f;
    if (a.isDelta) for (int i = 0; i < K; i++) known = fmaf(S[(i64)i * V], keys[i], known);
    const float u = r * (value - g * known);
    float sum = 0.f;
    for (int i = 0; i < K; i++) {
      const float s = fmaf(g, S[(i64)i * V], keys[i] * u);
      S[(i64)i * V] = s;
      sum = fmaf(s, queries[i], sum);
    }
    a.out[t * a.outStride + h * V + c] = fmaf(skip, value, sum);
  }
}
