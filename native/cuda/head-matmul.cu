// Heads with a matrix each (latent attention): out[t, h][j] = sum over k of w_h[j, k] * x[t, h][k], all heads in one launch. x comes as f32 and is
// rounded to what the weights are multiplied by. All sums run over K in one order, whatever the count of tokens.
// Few tokens: a warp has a strip of 16 outputs of one head and 8 or 32 tokens, and asks for its weights before the kernel ahead has ended; bound
// by latencies. Many: a block has all outputs of a head for 64 tokens, rounded once to shared memory, each warp every 8th one or two strips; bound
// by the tensor cores, and by reading a head's weights from L2 once for every 64 tokens.
#include "common.cuh"
#include "fragments.cuh"

struct HeadArgs {
  float* out; const float* x; const u64* weights;  // [heads] addresses of matrices of one shape
  i64 outStride, xStride;
  int outHead, xHead;  // columns from one head to the next
  int n, rows, cols, steps;  // steps of 64 k's
};

// The sums of COUNT groups of 8 tokens from t0, as the tensor cores leave them.
template <int COUNT>
__device__ __forceinline__ void put_heads(const HeadArgs& a, float* out, const float (*sum)[4], int t0, int strip) {
  const int lane = threadIdx.x & 31, g = lane >> 2, q = 2 * (lane & 3);
#pragma unroll
  for (int i = 0; i < COUNT; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int t = t0 + 8 * i + q + (j & 1), o = strip * 16 + g + 8 * (j >> 1);
      if (t < a.n && o < a.rows) out[t * a.outStride + o] = sum[i][j];
    }
}

// WHOLE: K is a multiple of 64 and pairs of numbers are aligned.
template <int FORMAT, int NT, bool WHOLE>
__device__ __forceinline__ void head_strip(const HeadArgs& a) {
  typedef Fragments<FORMAT> F;
  constexpr int AHEAD = NT > 1 ? 4 : 8;  // steps of weights asked for together
  const int lane = threadIdx.x & 31, g = lane >> 2, q = 2 * (lane & 3), head = blockIdx.z;
  const int strip = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
  const bool isMine = strip * 16 < a.rows;
  const u8* w = (const u8*)a.weights[head] + (i64)(isMine ? strip : 0) * a.steps * F::STEP_BYTES;
  const float* x = a.x + (i64)head * a.xHead;
  float* out = a.out + (i64)head * a.outHead;
  F ahead[AHEAD];
  auto ask = [&](int from) {
#pragma unroll
    for (int i = 0; i < AHEAD; i++) if (from + i < a.steps) ahead[i].load(w + (i64)(from + i) * F::STEP_BYTES, lane);
  };
  ask(0);
  wait_for_others();
  if (!isMine) return;
  for (int t0 = blockIdx.y * 8 * NT; t0 < a.n; t0 += gridDim.y * 8 * NT) {
    float sum[NT][4];
#pragma unroll
    for (int i = 0; i < NT; i++) sum[i][0] = sum[i][1] = sum[i][2] = sum[i][3] = 0.f;
    for (int from = 0; from < a.steps; from += AHEAD) {
      if (from > 0 || (t0 != (int)blockIdx.y * 8 * NT && a.steps > AHEAD)) ask(from);
#pragma unroll
      for (int s = 0; s < AHEAD; s++) {
        if (from + s >= a.steps) break;
#pragma unroll
        for (int k = 0; k < 4; k++) {
          u32 weights[4];
          ahead[s].get(k, weights);
          const int at = (from + s) * 64 + k * 16 + q;
#pragma unroll
          for (int i = 0; i < NT; i++) {
            const int t = t0 + 8 * i + g;
            const float* row = x + t * a.xStride;
            auto pair = [&](int c) {
              float2 v = {0.f, 0.f};
              if (WHOLE) { if (t < a.n) v = *(const float2*)(row + c); }
              else if (t < a.n) v = {c < a.cols ? row[c] : 0.f, c + 1 < a.cols ? row[c + 1] : 0.f};
              return round2<F::KIND>(v.x, v.y);
            };
            mma16816<F::KIND>(sum[i], weights, pair(at), pair(at + 8));
          }
        }
      }
    }
    put_heads<NT>(a, out, sum, t0, strip);
  }
}
template <int FORMAT, int NT>
__device__ __forceinline__ void head_matmul(const HeadArgs& a) {
  const bool isWhole = a.cols % 64 == 0 && ((u64)a.x & 7) == 0 && ((a.xStride | a.xHead) & 1) == 0;
  if (isWhole) head_strip<FORMAT, NT, true>(a);
  else head_strip<FORMAT, NT, false>(a);
}

#define TILE_TOKENS 64
#define TILE_WARPS 8
// STRIPS: that a warp has at a time, so that it reads a token's numbers for both.
template <int FORMAT, int STRIPS>
__device__ __forceinline__ void head_tile(const HeadArgs& a) {
  typedef Fragments<FORMAT> F;
  constexpr int GROUPS = TILE_TOKENS / 8;
  DYNAMIC_SHARED(tile);  // [token][padded k], rows 16 bytes apart from a multiple of 128, so that eight of them meet no bank twice
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, head = blockIdx.y, t0 = blockIdx.x * TILE_TOKENS;
  const int strips = (a.rows + 15) / 16, pitch = a.steps * 128 + 16, quads = a.steps * 16;
  const u8* w = (const u8*)a.weights[head];
  F next[STRIPS];
  auto ask = [&](int strip0, int step) {
#pragma unroll
    for (int i = 0; i < STRIPS; i++) next[i].load(w + ((i64)min(strip0 + i, strips - 1) * a.steps + step) * F::STEP_BYTES, lane);
  };
  ask(min(warp * STRIPS, strips - 1), 0);
  wait_for_others();
  const float* x = a.x + (i64)head * a.xHead;
  const bool isWide = (((u64)a.x | a.xStride * 4 | a.xHead * 4) & 15) == 0;
  for (int c = lane; c < quads; c += 32) {
    Quad v[TILE_TOKENS / TILE_WARPS];
#pragma unroll
    for (int i = 0; i < TILE_TOKENS / TILE_WARPS; i++) {
      const int t = t0 + i * TILE_WARPS + warp;
      const float* row = x + t * a.xStride + 4 * c;
      v[i] = Quad{{0.f, 0.f, 0.f, 0.f}};
      if (t >= a.n) continue;
      if (isWide && 4 * c + 3 < a.cols) v[i] = *(const Quad*)row;
      else for (int j = 0; j < 4; j++) if (4 * c + j < a.cols) v[i].v[j] = row[j];
    }
#pragma unroll
    for (int i = 0; i < TILE_TOKENS / TILE_WARPS; i++)
      *(uint2*)(tile + (i * TILE_WARPS + warp) * pitch + 8 * c) = {round2<F::KIND>(v[i].v[0], v[i].v[1]), round2<F::KIND>(v[i].v[2], v[i].v[3])};
  }
  __syncthreads();
  float* out = a.out + (i64)head * a.outHead;
  // Four matrices of 8 tokens x 8 k's: two groups of tokens, the low and the high k's of each.
  const u8* operand = tile + (8 * (lane >> 4) + (lane & 7)) * pitch + (lane >> 3 & 1) * 16;
  for (int strip0 = warp * STRIPS; strip0 < strips; strip0 += TILE_WARPS * STRIPS) {
    float sum[STRIPS][GROUPS][4];
#pragma unroll
    for (int s = 0; s < STRIPS; s++)
#pragma unroll
      for (int i = 0; i < GROUPS; i++) sum[s][i][0] = sum[s][i][1] = sum[s][i][2] = sum[s][i][3] = 0.f;
    for (int step = 0; step < a.steps; step++) {
      F here[STRIPS];
#pragma unroll
      for (int s = 0; s < STRIPS; s++) here[s] = next[s];
      const bool isLast = step + 1 == a.steps;
      ask(isLast ? min(strip0 + TILE_WARPS * STRIPS, strips - 1) : strip0, isLast ? 0 : step + 1);
#pragma unroll
      for (int k = 0; k < 4; k++) {
        u32 weights[STRIPS][4];
#pragma unroll
        for (int s = 0; s < STRIPS; s++) here[s].get(k, weights[s]);
#pragma unroll
        for (int i = 0; i < GROUPS; i += 2) {
          u32 b[4];
          ldmatrix_x4(b, operand + 8 * i * pitch + step * 128 + k * 32);
#pragma unroll
          for (int s = 0; s < STRIPS; s++) {
            mma16816<F::KIND>(sum[s][i], weights[s], b[0], b[1]);
            mma16816<F::KIND>(sum[s][i + 1], weights[s], b[2], b[3]);
          }
        }
      }
    }
#pragma unroll
    for (int s = 0; s < STRIPS; s++) if (strip0 + s < strips) put_heads<GROUPS>(a, out, sum[s], t0, strip0 + s);
  }
}
#define HEADS(FORMAT, name)                                                             \
  EARLY_KERNEL(128, head_matmul_##name##_1, HeadArgs) { head_matmul<FORMAT, 1>(a); } \
  EARLY_KERNEL(128, head_matmul_##name##_4, HeadArgs) { head_matmul<FORMAT, 4>(a); } \
  EARLY_KERNEL(32 * TILE_WARPS, head_tile_##name##_1, HeadArgs) { head_tile<FORMAT, 1>(a); } \
  EARLY_KERNEL(32 * TILE_WARPS, head_tile_##name##_2, HeadArgs) { head_tile<FORMAT, 2>(a); }
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
