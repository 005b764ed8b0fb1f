// Few tokens: out[t, o] = sum over k of x[t, k] * w[o, k], 16-bit weights and operands, f32 sums. Bound by reading the weights.
//
// Weights are the M operand of mma.sync m16n8k16, tokens the N operand. A warp owns a strip of 16 outputs and sums K in chains of k16
// steps, whose number the matrix decides (src/device/cuda/matmul.ts), and adds the chains' sums in order: so the bits do not depend on the
// number of tokens, and they are those of the wgmma kernel (matmul-tile.cu), whose chains are the same.
//
// A stage is 64 k's: a step of each warp's strip (fragments.cuh) and tokens/8 KB of the operand, which the block's warps share. cp.async
// fills a ring of STAGES stages.
#pragma once
#include "epilogue.cuh"
#include "fragments.cuh"

struct StripArgs {
  const u16* x;          // operand in strip order
  const u8* w;           // strips
  Epilogue epilogue;
  Gate gate;
  int n, tokens8, rows, strips;  // gated: rows and strips of the gate alone
  int steps;             // padded K / 64
  int chain;             // steps of a chain
};

// EARLY: the operand is another kernel's result still to come, and is waited for once the first weights are on their way.
template <int FORMAT, int NT, int STAGES, bool EARLY>
__device__ __forceinline__ void strip_block(const u8* w, const u16* x, int tokens8, int firstTile, int steps, int chain, int strip, bool isMine,
                                            u8* ring, float (*total)[4]) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
  typedef Fragments<FORMAT> F;
  const int stageBytes = warps * F::STEP_BYTES + NT * 1024;
  const u8* mine = w + (i64)strip * steps * F::STEP_BYTES;
  auto fill_weights = [&](int step) {
    u8* stage = ring + (step % STAGES) * stageBytes;
    if (!isMine) return;
#pragma unroll
    for (int i = 0; i < F::STEP_BYTES; i += 512) {
      const int at = i + lane * 16;
      if (at < F::STEP_BYTES) copy16(stage + warp * F::STEP_BYTES + at, mine + (i64)step * F::STEP_BYTES + at);
    }
  };
  auto fill_operand = [&](int step) {  // [K/32][tokens8][lane][8]: two k32 blocks of NT tiles each
    u8* stage = ring + (step % STAGES) * stageBytes;
    for (int p = threadIdx.x; p < NT * 64; p += blockDim.x) {
      int half = p / (NT * 32), at = p % (NT * 32);
      copy16(stage + warps * F::STEP_BYTES + p * 16, x + (((i64)(2 * step + half) * tokens8 + firstTile) * 32 + at) * 8);
    }
  };
  if (EARLY) {
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) if (s < steps) fill_weights(s);
    wait_for_others();
  }
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) {
    if (s < steps) {
      if (!EARLY) fill_weights(s);
      fill_operand(s);
    }
    copy_commit();
  }
  float sum[NT][4];
  auto fold = [&] {
#pragma unroll
    for (int i = 0; i < NT; i++) for (int j = 0; j < 4; j++) { total[i][j] += sum[i][j]; sum[i][j] = 0.f; }
  };
#pragma unroll
  for (int i = 0; i < NT; i++) for (int j = 0; j < 4; j++) total[i][j] = sum[i][j] = 0.f;
  int left = chain;
  for (int step = 0; step < steps; step++) {
    copy_wait<STAGES - 2>();
    __syncthreads();
    if (step + STAGES - 1 < steps) {
      fill_weights(step + STAGES - 1);
      fill_operand(step + STAGES - 1);
    }
    copy_commit();
    if (!isMine) continue;
    const u8* stage = ring + (step % STAGES) * stageBytes;
    const u8* xs = stage + warps * F::STEP_BYTES;
    F weights;
    weights.load(stage + warp * F::STEP_BYTES, lane);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      uint4 b[NT];
#pragma unroll
      for (int i = 0; i < NT; i++) b[i] = *(const uint4*)(xs + ((half * NT + i) * 32 + lane) * 16);
#pragma unroll
      for (int k = 0; k < 2; k++) {
        u32 f[4];
        weights.get(2 * half + k, f);
#pragma unroll
        for (int i = 0; i < NT; i++) mma16816<F::KIND>(sum[i], f, k ? b[i].z : b[i].x, k ? b[i].w : b[i].y);
      }
    }
    if (--left == 0) { fold(); left = chain; }
  }
  fold();
  copy_wait<0>();
}

template <int FORMAT, int NT, int STAGES>
__device__ __forceinline__ void strip_matmul(const StripArgs& a) {
  DYNAMIC_SHARED(ring);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5, firstTile = blockIdx.y * NT;
  // Gated: the first half of the warps has strips of the gate, the second half those of the up projection, `strips` further on.
  const bool isGated = a.gate.isGated != 0, isUp = isGated && warp >= warps / 2;
  const int strip = isGated ? blockIdx.x * (warps / 2) + warp % (warps / 2) : blockIdx.x * warps + warp;
  const bool isMine = strip < a.strips;
  float sum[NT][4];
  const int from = isMine ? strip + (isUp ? a.strips : 0) : 0;
  strip_block<FORMAT, NT, STAGES, true>(a.w, a.x, a.tokens8, firstTile, a.steps, a.chain, from, isMine, ring, sum);
  if (!isGated) {
    if (isMine) finish_strip<NT>(a.epilogue, sum[0], firstTile * 8, strip * 16, a.n, a.rows);
    return;
  }
  __syncthreads();  // the ring is free
  float* ups = (float*)ring + ((warp % (warps / 2)) * 32 + lane) * NT * 4;
  if (isUp) for (int i = 0; i < NT; i++) for (int j = 0; j < 4; j++) ups[i * 4 + j] = sum[i][j];
  __syncthreads();
  if (isUp || !isMine) return;
  const int g = lane >> 2, q = lane & 3;
#pragma unroll
  for (int i = 0; i < NT; i++) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int o = strip * 16 + g + (j >> 1) * 8, t = (firstTile + i) * 8 + 2 * q + (j & 1);
      if (o < a.rows && t < a.n) finish_gated(a.epilogue, a.gate, t, o, sum[i][j], ups[i * 4 + j]);
    }
  }
}

// Experts: blockIdx.z is the expert. Its tokens are [range[e], range[e+1]) of a list sorted by expert and padded to 8s, in whose
// order the operand lies.
struct ExpertStripArgs {
  const u16* x; const u64* weights; const int* range; const int* count;
  Epilogue epilogue; i64 biasStride;
  int tokens8, rows, strips, steps;
};
template <int FORMAT, int NT, int STAGES>
__device__ void expert_strip(const ExpertStripArgs& a) {
  DYNAMIC_SHARED(ring);
  const int e = blockIdx.z, first = a.range[e], end = first + a.count[e];
  const int warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  const int strip = blockIdx.x * warps + warp;
  const bool isMine = strip < a.strips;
  for (int t0 = first + blockIdx.y * NT * 8; t0 < end; t0 += gridDim.y * NT * 8) {
    float sum[NT][4];
    strip_block<FORMAT, NT, STAGES, false>((const u8*)a.weights[e], a.x, a.tokens8, t0 >> 3, a.steps, a.steps, isMine ? strip : 0, isMine, ring, sum);
    Epilogue epilogue = a.epilogue;
    if (epilogue.bias != nullptr) epilogue.bias += e * a.biasStride;
    if (isMine) finish_strip<NT>(epilogue, sum[0], t0, strip * 16, end, a.rows);
    __syncthreads();
  }
}

#define STRIP(FORMAT, name, NT, STAGES) \
  EARLY_KERNEL(256, strip_##name##_##NT##_##STAGES, StripArgs) { strip_matmul<FORMAT, NT, STAGES>(a); }
#define EXPERTS(FORMAT, name) \
  KERNEL(256, expert_strip_##name, ExpertStripArgs) { expert_strip<FORMAT, 1, 8>(a); }
