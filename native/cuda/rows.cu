// Ops on rows one by one: norms, sums, activations, gathers, lookups. All are bound by memory: each number is read and written
// once. A row belongs to one block (norms) or is spread over threads (elementwise); its arithmetic never depends on the others.
//
// Ops whose result is the input of a matmul also write its 16-bit operand (common.cuh), so that no pass over memory is spent on
// the conversion.
#include "common.cuh"

struct NormArgs {
  float* out; const float* x; const float* weight; const float* bias; float* residual; const float* added;
  Operand operand;
  i64 outStride, xStride, residualStride, addedStride;
  int cols; float eps;
};

#define NORM_THREADS 256
#define NORM_KEPT 16

// One block per row. MODE 0: rms; 1: residual += added, then rms; 2: mean and variance.
template <int MODE>
__device__ void norm_row(const NormArgs& a) {
  __shared__ float scratch[32];
  const int t = blockIdx.x, cols = a.cols;
  const float* x = a.x + t * a.xStride;
  float* out = a.out + t * a.outStride;
  float sum = 0.f;
  if (MODE == 1) {
    float* r = a.residual + t * a.residualStride;
    const float* y = a.added + t * a.addedStride;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
      float v = r[c] + y[c];
      r[c] = v;
      sum = fmaf(v, v, sum);
    }
    x = r;  // a thread reads back only what it wrote
  } else if (MODE == 0) {
    for (int c = threadIdx.x; c < cols; c += blockDim.x) sum = fmaf(x[c], x[c], sum);
  } else {
    for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += x[c];
  }
  sum = block_sum(sum, scratch);
  float mean = 0.f;
  if (MODE == 2) {
    mean = sum / cols;
    float squares = 0.f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) { float d = x[c] - mean; squares = fmaf(d, d, squares); }
    sum = block_sum(squares, scratch);
  }
  const float factor = 1.f / sqrtf(sum / cols + a.eps);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    float v = MODE == 2 ? fmaf((x[c] - mean) * factor, a.weight[c], a.bias[c]) : x[c] * factor * a.weight[c];
    out[c] = v;
    if (a.operand.data != nullptr) a.operand.data[operand_index(a.operand, t, c)] = to_bits(v, a.operand.kind);
  }
}
// rms of up to 4096 columns: everything is loaded at once and stays in registers, so a row of a decode waits for memory once. The
// order of the sum is norm_row's.
__device__ void short_rms_row(const NormArgs& a) {
  __shared__ float scratch[32];
  const int t = blockIdx.x, cols = a.cols;
  const float* x = a.x + t * a.xStride;
  float v[NORM_KEPT], w[NORM_KEPT];
#pragma unroll
  for (int i = 0; i < NORM_KEPT; i++) {
    const int c = threadIdx.x + i * NORM_THREADS;
    v[i] = c < cols ? x[c] : 0.f;
    w[i] = c < cols ? a.weight[c] : 0.f;
  }
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < NORM_KEPT; i++) sum = fmaf(v[i], v[i], sum);
  const float factor = 1.f / sqrtf(block_sum(sum, scratch) / cols + a.eps);
  float* out = a.out + t * a.outStride;
#pragma unroll
  for (int i = 0; i < NORM_KEPT; i++) {
    const int c = threadIdx.x + i * NORM_THREADS;
    if (c >= cols) continue;
    const float y = v[i] * factor * w[i];
    out[c] = y;
    if (a.operand.data != nullptr) a.operand.data[operand_index(a.operand, t, c)] = to_bits(y, a.operand.kind);
  }
}
KERNEL(NORM_THREADS, rms_norm, NormArgs) {
  if (a.cols <= NORM_KEPT * NORM_THREADS) short_rms_row(a);
  else norm_row<0>(a);
}
KERNEL(NORM_THREADS, add_rms_norm, NormArgs) { norm_row<1>(a); }
KERNEL(NORM_THREADS, layer_norm, NormArgs) { norm_row<2>(a); }

struct GroupNormArgs {
  float* out; const float* x; const float* weight; const float* bias;  // bias null: rms, else mean and variance
  i64 outStride, xStride;
  int n, groups, groupCols, weightStep;  // weightStep: 0 where all runs share their weights, else groupCols
  float eps; int pad;
};
// The norm of each run of groupCols columns: a warp per (row, run).
KERNEL(256, group_norm, GroupNormArgs) {
  int at = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  if (at >= a.n * a.groups) return;
  int t = at / a.groups, g = at % a.groups;
  const float* x = a.x + t * a.xStride + g * a.groupCols;
  float* out = a.out + t * a.outStride + g * a.groupCols;
  const float* weight = a.weight + g * a.weightStep;
  float mean = 0.f, sum = 0.f;
  if (a.bias != nullptr) {
    for (int c = lane; c < a.groupCols; c += 32) mean += x[c];
    mean = warp_sum(mean) / a.groupCols;
  }
  for (int c = lane; c < a.groupCols; c += 32) { float d = x[c] - mean; sum = fmaf(d, d, sum); }
  const float factor = 1.f / sqrtf(warp_sum(sum) / a.groupCols + a.eps);
  for (int c = lane; c < a.groupCols; c += 32) {
    const float v = (x[c] - mean) * factor * weight[c];
    out[c] = a.bias == nullptr ? v : v + a.bias[g * a.weightStep + c];
  }
}

// Elementwise over [n, cols]: blockIdx.y is the row.
struct MapArgs {
  float* out; const float* x; const float* y;
  Operand operand;
  i64 outStride, xStride, yStride;
  int cols; int kind; float factor; int pad;
};
#define FOR_COLUMN                                                        \
  const int t = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;   \
  if (c >= a.cols) return;                                               \
  float* out = a.out + t * a.outStride + c;                              \
  const float x = a.x[t * a.xStride + c];

__device__ __forceinline__ void put(const MapArgs& a, float* out, int t, int c, float v) {
  *out = v;
  if (a.operand.data != nullptr) a.operand.data[operand_index(a.operand, t, c)] = to_bits(v, a.operand.kind);
}
KERNEL(256, map_add, MapArgs) { FOR_COLUMN *out = fmaf(a.factor, a.y[t * a.yStride + c], x); }
KERNEL(256, map_scale, MapArgs) { FOR_COLUMN *out = x * a.factor; }
KERNEL(256, map_scale_rows, MapArgs) { FOR_COLUMN *out = x * a.y[t * a.yStride]; }
KERNEL(256, map_softcap, MapArgs) { FOR_COLUMN *out = a.factor * tanhf(x / a.factor); }
KERNEL(256, map_activation, MapArgs) { FOR_COLUMN put(a, out, t, c, activate(a.kind, x)); }
KERNEL(256, map_gated, MapArgs) { FOR_COLUMN put(a, out, t, c, activate(a.kind, x) * a.y[t * a.yStride + c]); }

struct PositionScaleArgs {
  float* x; const int* positions; i64 xStride; int cols; float beta, period, shift;
};
KERNEL(256, scale_by_position, PositionScaleArgs) {
  const int t = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= a.cols) return;
  const float whole = floorf(((float)a.positions[t] + a.shift) / a.period);
  a.x[t * a.xStride + c] *= fmaf(a.beta, log1pf(whole), 1.f);
}

struct XieluArgs {
  float* x; i64 xStride; int cols; float alphaP, alphaN, beta, eps; int pad;
};
KERNEL(256, xielu, XieluArgs) {
  const int t = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= a.cols) return;
  float* at = a.x + t * a.xStride + c;
  const float x = *at;
  *at = x > 0.f ? x * (a.alphaP * x + a.beta) : a.alphaN * (expm1f(fminf(x, a.eps)) - x) + a.beta * x;
}

// The f32 rows of x as a matmul's operand, zero beyond the last column: for inputs no producer wrote one for.
struct PackArgs {
  const float* x; Operand operand; i64 xStride; int n, cols, paddedCols, pad;
};
KERNEL(256, pack_operand, PackArgs) {
  int t = blockIdx.y, k = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (k >= a.paddedCols) return;
  const float* x = a.x + t * a.xStride;
  operand_put2(a.operand, t, k, k < a.cols ? x[k] : 0.f, k + 1 < a.cols ? x[k + 1] : 0.f);
}

struct GatherArgs {
  float* out; const float* x; const int* ids; Operand operand;
  i64 outStride, xStride; int cols, pad;
};
KERNEL(256, gather_rows, GatherArgs) {
  int t = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= a.cols) return;
  float v = a.x[(i64)a.ids[t] * a.xStride + c];
  a.out[t * a.outStride + c] = v;
  if (a.operand.data != nullptr) a.operand.data[operand_index(a.operand, t, c)] = to_bits(v, a.operand.kind);
}

struct CopyHeadsArgs {
  float* out; const float* x; i64 outStride, xStride;
  int numHeads, width, outHead, outOffset, inHead, inOffset;
};
KERNEL(256, copy_heads, CopyHeadsArgs) {
  int t = blockIdx.y, at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= a.numHeads * a.width) return;
  int h = at / a.width, i = at % a.width;
  a.out[t * a.outStride + h * a.outHead + a.outOffset + i] = a.x[t * a.xStride + h * a.inHead + a.inOffset + i];
}

// out[t] (+)= factor * table[ids[t]]. The table may be f32 rows or 16-bit fragments (weights.cu). An id -(i + 1) is token i of the
// flight before, which only the device knows yet.
struct LookupArgs {
  float* out; const void* table; const int* ids; const int* previous;
  i64 outStride; int cols, paddedCols, rows, kind, accumulate; float factor;
};
KERNEL(256, lookup_rows, LookupArgs) {
  int t = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= a.cols) return;
  int row = a.ids[t];
  if (row < 0 && a.previous != nullptr) row = a.previous[-row - 1];
  float v = 0.f;
  if (row >= 0 && row < a.rows) {
    if (a.kind == KIND_NONE) v = ((const float*)a.table)[(i64)row * a.cols + c];
    else {
      int r = row & 15, kk = c & 15;
      int lane = (r & 7) * 4 + ((kk & 7) >> 1);
      int j = ((kk >> 3) << 2) | ((r >> 3) << 1) | (kk & 1);
      i64 block = (i64)(row >> 4) * (a.paddedCols >> 4) + (c >> 4);
      v = from_bits(((const u16*)a.table)[block * 256 + lane * 8 + j], a.kind);
    }
  }
  v *= a.factor;
  float* out = a.out + t * a.outStride + c;
  *out = a.accumulate ? *out + v : v;
}
