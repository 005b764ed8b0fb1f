// Ops on rows one by one: norms, sums, activations, gathers, lookups. All are bound by memory: each number is read and written
// once. A row belongs to one block (norms) or is spread over threads (elementwise); its arithmetic never depends on the others.
//
// Ops whose result is the input of a matmul also write its 16-bit operand (common.cuh), so that no pass over memory is spent on
// the conversion.
#include "common.cuh"
#include "fragments.cuh"

struct NormArgs {
  float* out; const float* x; const float* weight; const float* bias; float* residual; const float* added;
  Operand operand;
  i64 outStride, xStride, residualStride, addedStride;
  int cols; float eps;
};

#define NORM_THREADS 1024
#define NORM_KEPT 4  // pairs of columns a thread keeps in registers: rows of up to 8192 columns are read once

// One block per row, a thread per pair of columns: a decode has one row, whose time is the latency of each thing in turn, so it is spread
// over many threads, and the weights, no kernel's result, are asked for first. MODE 0: rms; 1: residual += added, then rms; 2: mean and
// variance. The order of the sums depends on the number of columns alone.
template <int MODE>
__device__ __forceinline__ void norm_row(const NormArgs& a) {
  __shared__ float scratch[32];
  const int t = blockIdx.x, cols = a.cols;
  float* residual = MODE == 1 ? a.residual + t * a.residualStride : nullptr;
  const float* x = MODE == 1 ? residual : a.x + t * a.xStride;
  const float* added = MODE == 1 ? a.added + t * a.addedStride : nullptr;
  auto is_kept = [&](int i) { return i < NORM_KEPT; };
  auto each = [&](auto body) {  // body(index of the pair in this thread, its first column)
#pragma unroll
    for (int i = 0; i < NORM_KEPT; i++) {
      const int c = 2 * (threadIdx.x + i * NORM_THREADS);
      if (c < cols) body(i, c);
    }
    for (int i = NORM_KEPT; 2 * (threadIdx.x + i * NORM_THREADS) < cols; i++) body(i, 2 * (threadIdx.x + i * NORM_THREADS));
  };
  float v[NORM_KEPT][2], w[NORM_KEPT][2];
  each([&](int i, int c) {
    if (is_kept(i)) { w[i][0] = a.weight[c]; w[i][1] = c + 1 < cols ? a.weight[c + 1] : 0.f; }
  });
  wait_for_others();
  auto read = [&](int c, float* to) {
    to[0] = x[c];
    to[1] = c + 1 < cols ? x[c + 1] : 0.f;
  };
  float sum = 0.f;
  each([&](int i, int c) {
    float own[2];
    float* to = is_kept(i) ? v[i] : own;
    read(c, to);
    if (MODE == 1) {
      to[0] += added[c];
      residual[c] = to[0];
      if (c + 1 < cols) residual[c + 1] = to[1] += added[c + 1];
    }
    if (MODE == 2) sum += to[0] + to[1];
    else sum = fmaf(to[1], to[1], fmaf(to[0], to[0], sum));
  });
  sum = block_sum(sum, scratch);
  float mean = 0.f;
  if (MODE == 2) {
    mean = sum / cols;
    float squares = 0.f;
    each([&](int i, int c) {
      float own[2];
      float* from = is_kept(i) ? v[i] : own;
      if (!is_kept(i)) read(c, own);
      const float d0 = from[0] - mean, d1 = c + 1 < cols ? from[1] - mean : 0.f;
      squares = fmaf(d1, d1, fmaf(d0, d0, squares));
    });
    sum = block_sum(squares, scratch);
  }
  const float factor = 1.f / sqrtf(sum / cols + a.eps);
  float* out = a.out + t * a.outStride;
  each([&](int i, int c) {
    float own[2], scale[2];
    float* from = is_kept(i) ? v[i] : own;
    float* by = is_kept(i) ? w[i] : scale;
    if (!is_kept(i)) {
      read(c, own);
      scale[0] = a.weight[c];
      scale[1] = c + 1 < cols ? a.weight[c + 1] : 0.f;
    }
    const bool isPair = c + 1 < cols;
    float y[2];
    for (int j = 0; j < 2; j++) y[j] = MODE == 2 ? fmaf((from[j] - mean) * factor, by[j], j == 0 || isPair ? a.bias[c + j] : 0.f) : from[j] * factor * by[j];
    out[c] = y[0];
    if (isPair) out[c + 1] = y[1];
    if (a.operand.data != nullptr) operand_put2(a.operand, t, c, y[0], y[1]);
  });
}

// rms, or mean and variance, of rows of up to QUADS * 1024 columns, in quads that are aligned. Few threads: of one row, each warp's instructions are
// time that all wait for.
#define SHORT_THREADS 256
template <int QUADS, bool IS_RMS>
__device__ __forceinline__ void short_row(const NormArgs& a) {
  __shared__ float scratch[32];
  const int t = blockIdx.x;
  const float* x = a.x + t * a.xStride;
  Quad v[QUADS], w[QUADS];
  auto column = [](int i) { return 4 * (int)(threadIdx.x + i * SHORT_THREADS); };
#pragma unroll
  for (int i = 0; i < QUADS; i++) w[i] = column(i) < a.cols ? *(const Quad*)(a.weight + column(i)) : Quad{{0.f, 0.f, 0.f, 0.f}};
  wait_for_others();
#pragma unroll
  for (int i = 0; i < QUADS; i++) v[i] = column(i) < a.cols ? *(const Quad*)(x + column(i)) : Quad{{0.f, 0.f, 0.f, 0.f}};
  float mean = 0.f, sum = 0.f;
  if (!IS_RMS) {
#pragma unroll
    for (int i = 0; i < QUADS; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) sum += v[i].v[j];  // zero behind the last column
    mean = block_sum(sum, scratch) / a.cols;
    sum = 0.f;
  }
#pragma unroll
  for (int i = 0; i < QUADS; i++) {
    if (column(i) >= a.cols) break;
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const float d = IS_RMS ? v[i].v[j] : v[i].v[j] - mean;
      sum = fmaf(d, d, sum);
    }
  }
  const float factor = 1.f / sqrtf(block_sum(sum, scratch) / a.cols + a.eps);
#pragma unroll
  for (int i = 0; i < QUADS; i++) {
    if (column(i) >= a.cols) break;
#pragma unroll
    for (int j = 0; j < 4; j++)
      v[i].v[j] = IS_RMS ? v[i].v[j] * factor * w[i].v[j] : fmaf((v[i].v[j] - mean) * factor, w[i].v[j], a.bias[column(i) + j]);
    *(Quad*)(a.out + t * a.outStride + column(i)) = v[i];
    if (a.operand.data != nullptr) operand_put4(a.operand, t, column(i), v[i]);
  }
}
EARLY_KERNEL(SHORT_THREADS, rms_norm_2, NormArgs) { short_row<2, true>(a); }
EARLY_KERNEL(SHORT_THREADS, rms_norm_4, NormArgs) { short_row<4, true>(a); }
EARLY_KERNEL(SHORT_THREADS, layer_norm_2, NormArgs) { short_row<2, false>(a); }
EARLY_KERNEL(SHORT_THREADS, layer_norm_4, NormArgs) { short_row<4, false>(a); }
EARLY_KERNEL(NORM_THREADS, rms_norm, NormArgs) { norm_row<0>(a); }
EARLY_KERNEL(NORM_THREADS, add_rms_norm, NormArgs) { norm_row<1>(a); }
EARLY_KERNEL(NORM_THREADS, layer_norm, NormArgs) { norm_row<2>(a); }

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

// Elementwise over [n, cols]: blockIdx.x is the row, of which a grid has more than of anything else.
struct MapArgs {
  float* out; const float* x; const float* y;
  Operand operand;
  i64 outStride, xStride, yStride;
  int cols; int kind; float factor, limit;
};
#define FOR_COLUMN                                                        \
  const int t = blockIdx.x, c = blockIdx.y * blockDim.x + threadIdx.x;   \
  if (c >= a.cols) return;                                               \
  float* out = a.out + t * a.outStride + c;                              \
  const float x = a.x[t * a.xStride + c];

__device__ __forceinline__ void put(const MapArgs& a, float* out, int t, int c, float v) {
  *out = v;
  if (a.operand.data != nullptr) a.operand.data[operand_index(a.operand, t, c)] = to_bits(v, a.operand.kind);
}
KERNEL(256, map_add, MapArgs) { FOR_COLUMN *out = fmaf(a.factor, a.y[t * a.yStride + c], x); }
KERNEL(256, map_scale, MapArgs) { FOR_COLUMN *out = x * a.factor; }
KERNEL(256, map_clamp, MapArgs) { FOR_COLUMN *out = x < a.factor ? a.factor : x > a.limit ? a.limit : x; }
KERNEL(256, map_scale_rows, MapArgs) { FOR_COLUMN *out = x * a.y[t * a.yStride]; }
KERNEL(256, map_softcap, MapArgs) { FOR_COLUMN *out = a.factor * tanhf(x / a.factor); }
KERNEL(256, map_activation, MapArgs) { FOR_COLUMN put(a, out, t, c, activate(a.kind, x)); }
KERNEL(256, map_gated, MapArgs) { FOR_COLUMN put(a, out, t, c, activate(a.kind, x) * a.y[t * a.yStride + c]); }

struct PositionScaleArgs {
  float* x; const int* positions; i64 xStride; int cols; float beta, period, shift;
};
KERNEL(256, scale_by_position, PositionScaleArgs) {
  const int t = blockIdx.x, c = blockIdx.y * blockDim.x + threadIdx.x;
  if (c >= a.cols) return;
  const float whole = floorf(((float)a.positions[t] + a.shift) / a.period);
  a.x[t * a.xStride + c] *= fmaf(a.beta, log1pf(whole), 1.f);
}

struct XieluArgs {
  float* x; i64 xStride; int cols; float alphaP, alphaN, beta, eps; int pad;
};
KERNEL(256, xielu, XieluArgs) {
  const int t = blockIdx.x, c = blockIdx.y * blockDim.x + threadIdx.x;
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
  int t = blockIdx.x, k = 2 * (blockIdx.y * blockDim.x + threadIdx.x);
  if (k >= a.paddedCols) return;
  const float* x = a.x + t * a.xStride;
  operand_put2(a.operand, t, k, k < a.cols ? x[k] : 0.f, k + 1 < a.cols ? x[k + 1] : 0.f);
}

struct GatherArgs {
  float* out; const float* x; const int* ids; Operand operand;
  i64 outStride, xStride; int cols, pad;
};
KERNEL(256, gather_rows, GatherArgs) {
  int t = blockIdx.x, c = blockIdx.y * blockDim.x + threadIdx.x;
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
  int t = blockIdx.x, at = blockIdx.y * blockDim.x + threadIdx.x;
  if (at >= a.numHeads * a.width) return;
  int h = at / a.width, i = at % a.width;
  a.out[t * a.outStride + h * a.outHead + a.outOffset + i] = a.x[t * a.xStride + h * a.inHead + a.inOffset + i];
}

// out[t] (+)= factor * table[ids[t]]. The table may be f32 rows (format 0) or strips (fragments.cuh). An id -(i + 1) is token i of the
// flight before, which only the device knows yet.
struct LookupArgs {
  float* out; const void* table; const int* ids; const int* previous;
  i64 outStride; int cols, paddedCols, rows, format, accumulate; float factor;
};
__device__ float table_value(const LookupArgs& a, int row, int c) {
  const u8* w = (const u8*)a.table;
  const int steps = a.paddedCols >> 6;
  switch (a.format) {
    case FORMAT_BF16: return weight_at<FORMAT_BF16>(w, steps, row, c);
    case FORMAT_F16: return weight_at<FORMAT_F16>(w, steps, row, c);
    case FORMAT_Q4: return weight_at<FORMAT_Q4>(w, steps, row, c);
    case FORMAT_Q4_MIN: return weight_at<FORMAT_Q4_MIN>(w, steps, row, c);
    case FORMAT_Q8: return weight_at<FORMAT_Q8>(w, steps, row, c);
    case FORMAT_Q8_MIN: return weight_at<FORMAT_Q8_MIN>(w, steps, row, c);
    case FORMAT_E4M3: return weight_at<FORMAT_E4M3>(w, steps, row, c);
    case FORMAT_E2M1: return weight_at<FORMAT_E2M1>(w, steps, row, c);
  }
  return ((const float*)a.table)[(i64)row * a.cols + c];
}
KERNEL(256, lookup_rows, LookupArgs) {
  int t = blockIdx.x, c = blockIdx.y * blockDim.x + threadIdx.x;
  if (c >= a.cols) return;
  int row = a.ids[t];
  if (row < 0 && a.previous != nullptr) row = a.previous[-row - 1];
  const float v = row >= 0 && row < a.rows ? a.factor * table_value(a, row, c) : 0.f;
  float* out = a.out + t * a.outStride + c;
  *out = a.accumulate ? *out + v : v;
}
