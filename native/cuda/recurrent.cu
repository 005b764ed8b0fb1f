// Recurrent layers: short convolutions, decay gates, linear attention with decay. A token's arithmetic depends on its sequence alone, so
// that every cut of a sequence gives the same bits. A row's state is the numbers from `offset` on of the slot the batch gives it; a row
// that begins its sequence starts from zeros whatever the slot holds.
#include "common.cuh"

struct ConvArgs {
  float* out; const float* x; const float* weight; const float* bias; float* states;
  const int* stateOf; const int* positions; const int* qoIndptr; const int* stateLens;
  i64 outStride, xStride, weightStride, slotStride, offset;
  int cols, taps, activation, n, rows, perBlock;  // perBlock: tokens of a block
};
// A thread has one column of `perBlock` neighbouring tokens, whatever rows they are of: of most, all inputs are tokens of the batch. A
// row's first taps - 1 tokens also read its state; all of them are taken by the block that has the first one, which writes the new state
// once it has read the old one. MOST: of taps.
template <int MOST>
__device__ __forceinline__ void short_conv(const ConvArgs& a) {
  const int c = blockIdx.y * blockDim.x + threadIdx.x, taps = a.taps, t0 = blockIdx.x * a.perBlock, last = min(t0 + a.perBlock, a.n);
  if (c >= a.cols) return;
  float weight[MOST];
#pragma unroll
  for (int j = 0; j < MOST; j++) weight[j] = j < taps ? a.weight[j * a.weightStride + c] : 0.f;
  const float bias = a.bias == nullptr ? 0.f : a.bias[c];
  auto put = [&](int t, const float* inputs) {
    float sum = bias;
#pragma unroll
    for (int j = 0; j < MOST; j++) if (j < taps) sum = fmaf(weight[j], inputs[j], sum);
    a.out[t * a.outStride + c] = activate(a.activation, sum);
  };
  int row = 0;  // of token t0: the last one that begins at it or before
  for (int end = a.rows; row + 1 < end;) {
    const int middle = (row + end) >> 1;
    if (a.qoIndptr[middle] <= t0) row = middle;
    else end = middle;
  }
  for (int t = t0; t < last;) {
    while (a.qoIndptr[row + 1] <= t) row++;  // rows without tokens
    const int first = a.qoIndptr[row], end = a.qoIndptr[row + 1];
    float inputs[MOST];
    if (t == first) {
      float* state = a.states + (i64)a.stateOf[row] * a.slotStride + a.offset + c;
      const bool begins = a.positions[first] == 0;
#pragma unroll
      for (int j = 0; j < MOST; j++) inputs[j] = j < taps - 1 && !begins ? state[(i64)j * a.cols] : 0.f;
      float kept[MOST];  // the last taps - 1 inputs before the row's guesses, of which a short row has some from before
#pragma unroll
      for (int j = 0; j < MOST; j++) {
        const int from = a.stateLens[row] + j - (taps - 1);  // counted from the row's first token
        float v = 0.f;
        if (j < taps - 1 && from >= 0) v = a.x[(first + from) * a.xStride + c];
#pragma unroll
        for (int i = 0; i < MOST; i++) if (from < 0 && i == from + taps - 1) v = inputs[i];
        kept[j] = v;
      }
      const int stop = min(end, first + max(taps - 1, 1));
      for (; t < stop; t++) {
        const float input = a.x[t * a.xStride + c];
#pragma unroll
        for (int j = 0; j < MOST; j++) if (j == taps - 1) inputs[j] = input;
        put(t, inputs);
#pragma unroll
        for (int j = 0; j + 1 < MOST; j++) inputs[j] = inputs[j + 1];
      }
#pragma unroll
      for (int j = 0; j < MOST; j++) if (j < taps - 1) state[(i64)j * a.cols] = kept[j];
      continue;
    }
    if (t - first >= taps - 1) {
#pragma unroll
      for (int j = 0; j < MOST; j++) if (j < taps) inputs[j] = a.x[(t - taps + 1 + j) * a.xStride + c];
      put(t, inputs);
    }
    t++;
  }
}
KERNEL(256, short_conv_4, ConvArgs) { short_conv<4>(a); }
KERNEL(256, short_conv_16, ConvArgs) { short_conv<16>(a); }

struct GateArgs {
  float* decay; float* step; const float* x; const float* bias; const float* rate;
  i64 decayStride, stepStride, xStride;
  int heads; float least, most; int pad;
};
KERNEL(256, decay_gates, GateArgs) {
  const int t = blockIdx.x, h = blockIdx.y * blockDim.x + threadIdx.x;
  if (h >= a.heads) return;
  const float raised = a.x[t * a.xStride + h] + a.bias[h];
  const float softplus = raised > 20.f ? raised : log1pf(expf(raised));
  const float step = fminf(fmaxf(softplus, a.least), a.most);
  a.step[t * a.stepStride + h] = step;
  a.decay[t * a.decayStride + h] = expf(a.rate[h] * step);
}

struct LinearArgs {
  float* out; const float* q; const float* k; const float* v; const float* decay; const float* rate; const float* skip; float* states;
  const int* stateOf; const int* positions; const int* qoIndptr; const int* stateLens;
  i64 outStride, qStride, kStride, vStride, decayStride, rateStride, slotStride, offset;
  int numHeads, numKeyHeads, keyDim, valueDim, isDelta, pad;
};

#define GROUP 8    // lanes that share a column of the state, and tokens that come together
#define COLUMNS 32  // of a block

// The state [keyDim, valueDim] of a head stays in registers over a row's tokens: a block has COLUMNS of its columns (blockIdx.z), a group of
// GROUP lanes one column, a lane every GROUP-th quad of its keys, 4 * QUADS numbers. Both products of a token, S^T k and S^T q, are made
// of the state before it, so that their sums run side by side:
//   u = r (v - g S^T k);  out = g S^T q + (k . q) u + skip v;  S = g S + k u^T
// k . q is made once for the block, by the warp that brings the token. Bound by the instructions of one token after the other; of single tokens by
// reading and writing the states.
template <int QUADS>
__device__ __forceinline__ void linear_attention(const LinearArgs& a) {
  constexpr int KEYS = 4 * GROUP * QUADS, EACH = (KEYS + 127) / 128;  // quads that a lane brings
  constexpr int BUFFERS = QUADS > 8 ? 1 : 2;  // in turns, as far as a block's own shared memory goes
  static_assert(COLUMNS * GROUP == 32 * GROUP, "a warp for each of the tokens that come together");
  __shared__ Quad keys[BUFFERS][GROUP][KEYS / 4], queries[BUFFERS][GROUP][KEYS / 4];
  __shared__ Quad gates[BUFFERS][GROUP];  // decay, rate, k . q
  const int row = blockIdx.x, h = blockIdx.y, K = a.keyDim, V = a.valueDim;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, l = lane % GROUP, c = blockIdx.z * COLUMNS + threadIdx.x / GROUP;
  const int first = a.qoIndptr[row], end = a.qoIndptr[row + 1], stateEnd = first + a.stateLens[row];
  if (first >= end) return;
  float* const state = a.states + (i64)a.stateOf[row] * a.slotStride + a.offset + (i64)h * K * V + c;
  const bool begins = a.positions[first] == 0, isMine = c < V;
  const int keyHead = h / (a.numHeads / a.numKeyHeads) * K;
  const float skip = a.skip == nullptr ? 0.f : a.skip[h];
  const bool isWide = (K & 3) == 0 && (((u64)a.q | (u64)a.k | a.qStride * 4 | a.kStride * 4) & 15) == 0;
  auto key_of = [&](int i, int j) { return 4 * (i * GROUP + l) + j; };
  float S[QUADS][4];
#pragma unroll
  for (int i = 0; i < QUADS; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) S[i][j] = isMine && !begins && key_of(i, j) < K ? state[(i64)key_of(i, j) * V] : 0.f;

  // What the next GROUP tokens need comes while these are computed: a warp brings one token's keys and queries, lane l its column's value of token l.
  Quad k[EACH], q[EACH];
  float value, g, r;
  auto quad_at = [&](const float* from, int key) {
    Quad v = {{0.f, 0.f, 0.f, 0.f}};
    if (isWide && key < K) v = *(const Quad*)(from + key);
    else for (int j = 0; j < 4; j++) if (key + j < K) v.v[j] = from[key + j];
    return v;
  };
  auto ask = [&](int t0) {
    const i64 mine = min(t0 + warp, end - 1);  // behind the last token: any, nobody uses it
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      k[i] = quad_at(a.k + mine * a.kStride + keyHead, 4 * (lane + 32 * i));
      q[i] = quad_at(a.q + mine * a.qStride + keyHead, 4 * (lane + 32 * i));
    }
    g = a.decay[mine * a.decayStride + h];
    r = a.rate[mine * a.rateStride + h];
    const int t = t0 + l;
    value = t < end && isMine ? a.v[t * a.vStride + (i64)h * V + c] : 0.f;
  };
  auto group_sum = [](float v) {
#pragma unroll
    for (int d = 1; d < GROUP; d <<= 1) v = __fadd_rn(v, __shfl_xor_sync(0xffffffffu, v, d));
    return v;
  };
  ask(first);
  int buffer = 0;
  for (int t0 = first; t0 < end; t0 += GROUP, buffer = (buffer + 1) % BUFFERS) {
    if (BUFFERS == 1) __syncthreads();
    float dot = 0.f;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      if (KEYS < 128 && 4 * lane >= KEYS) break;
      keys[buffer][warp][lane + 32 * i] = k[i];
      queries[buffer][warp][lane + 32 * i] = q[i];
#pragma unroll
      for (int j = 0; j < 4; j++) dot = fmaf(k[i].v[j], q[i].v[j], dot);
    }
    dot = warp_sum(dot);
    if (lane == 0) gates[buffer][warp] = Quad{{g, r, dot, 0.f}};
    const float values = value;
    __syncthreads();
    if (t0 + GROUP < end) ask(t0 + GROUP);
    float result = 0.f;
    const int count = min(GROUP, end - t0);
#pragma unroll 1
    for (int s = 0; s < count; s++) {
      const float v = __shfl_sync(0xffffffffu, values, (lane & ~(GROUP - 1)) | s);
      const Quad gate = gates[buffer][s];
      const float decay = gate.v[0], rate = gate.v[1];
      Quad kk[QUADS];
      float known[4] = {0.f, 0.f, 0.f, 0.f}, seen[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
      for (int i = 0; i < QUADS; i++) {
        kk[i] = keys[buffer][s][i * GROUP + l];
        const Quad qq = queries[buffer][s][i * GROUP + l];
#pragma unroll
        for (int j = 0; j < 4; j++) {
          known[j] = fmaf(S[i][j], kk[i].v[j], known[j]);
          seen[j] = fmaf(S[i][j], qq.v[j], seen[j]);
        }
      }
      auto quad_sum = [](const float* v) { return __fadd_rn(__fadd_rn(v[0], v[1]), __fadd_rn(v[2], v[3])); };
      const float stored = group_sum(quad_sum(known)), read = group_sum(quad_sum(seen));
      const float u = __fmul_rn(rate, a.isDelta ? fmaf(-decay, stored, v) : v);
#pragma unroll
      for (int i = 0; i < QUADS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) S[i][j] = fmaf(kk[i].v[j], u, __fmul_rn(decay, S[i][j]));
      const float sum = fmaf(skip, v, fmaf(gate.v[2], u, __fmul_rn(decay, read)));
      if (l == s) result = sum;
      if (t0 + s + 1 == stateEnd && isMine) {  // what comes behind it are guesses
#pragma unroll
        for (int i = 0; i < QUADS; i++)
#pragma unroll
          for (int j = 0; j < 4; j++) if (key_of(i, j) < K) state[(i64)key_of(i, j) * V] = S[i][j];
      }
    }
    if (l < count && isMine) a.out[(t0 + l) * a.outStride + (i64)h * V + c] = result;
  }
}

#define LINEAR_ATTENTION(QUADS) \
  KERNEL(COLUMNS * GROUP, linear_attention_##QUADS, LinearArgs) { linear_attention<QUADS>(a); }
LINEAR_ATTENTION(1) LINEAR_ATTENTION(2) LINEAR_ATTENTION(4) LINEAR_ATTENTION(8) LINEAR_ATTENTION(16)
