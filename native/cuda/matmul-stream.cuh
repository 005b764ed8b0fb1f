// Up to 32 tokens on Hopper: the product and the order of matmul-strip.cuh, with less work per byte. Bound by reading the weights.
//
// A block has STRIPS strips of 16 outputs, each a warp's, which sums K chain by chain in k16 steps, and one warp that copies: a stage is STEPS times 64 k's, each a step of each strip (fragments.cuh) and NT KB of the
// operand, by one bulk copy each, which complete the stage's barrier. The first weights are asked for before the kernel ahead has ended; the operand, its result, after.
// Few strips with several chains have a kernel of their own, in which the chains run side by side (matmul-chains.cuh).
#pragma once
#include "bulk.cuh"
#include "epilogue.cuh"
#include "fragments.cuh"

struct StreamArgs {
  const u16* x;          // operand in strip order, NT groups of 8 tokens
  const u8* w;           // strips
  Epilogue epilogue;
  Gate gate;             // gated: the second half of a block's strips is the up projection's
  int n, rows, strips, steps;  // gated: rows and strips of the gate alone; steps: padded K / 64
  int chain;             // steps of a chain, a multiple of 4: sums of chains are added in order
  int holdsOthers;       // the launch behind this one may not begin before the one ahead has ended: it reads the same without waiting (low-rank.cu)
};

__device__ __forceinline__ void begin_in_turn(const StreamArgs& a) {
  if (!a.holdsOthers) let_others_begin();
}
__device__ __forceinline__ void wait_in_turn(const StreamArgs& a) {
  wait_for_others();
  if (a.holdsOthers) let_others_begin();
}

// A warp's place in its ring of STAGES stages.
struct RingPlace { int stage, parity; };

// One chain: a warp's strip times GROUPS groups of 8 tokens. `weights` and `operand` are the warp's in the first stage of the ring, STAGE
// bytes from one to the next; 32 k's of the operand are UNIT bytes. The next weights and the next 32 k's of the operand are loaded while the
// tensor cores work on these: dependent products of about 24 clocks for each 16 k's are all that it should take.
template <int FORMAT, int GROUPS, int STEPS, int STAGES, int STAGE, int UNIT>
__device__ __forceinline__ void sum_chain(float (*sum)[4], const u8* weights, const u8* operand, u64* full, u64* empty, RingPlace& at, int steps) {
  typedef Fragments<FORMAT> F;
  static_assert(STEPS % 2 == 0, "two sets of registers take turns");
  const int lane = threadIdx.x & 31;
  F taken[2];
  uint4 b[2][GROUPS];
  auto load_weights = [&](int slot, int s, int step) { taken[slot].load(weights + s * STAGE + step * F::STEP_BYTES, lane); };
  auto load_operand = [&](int slot, int s, int unit) {
    const u8* from = operand + s * STAGE + unit * UNIT + lane * 16;
#pragma unroll
    for (int i = 0; i < GROUPS; i++) b[slot][i] = *(const uint4*)(from + i * 512);
  };
  auto multiply = [&](int slot, int half) {
#pragma unroll
    for (int k = 0; k < 2; k++) {
      u32 a4[4];
      taken[slot].get(2 * half + k, a4);
#pragma unroll
      for (int i = 0; i < GROUPS; i++) {
        const uint4& x = b[half][i];
        mma16816<F::KIND>(sum[i], a4, k ? x.z : x.x, k ? x.w : x.y);
      }
    }
  };
  auto release = [&](int s) {
    __syncwarp();
    barrier_arrive(&empty[s]);  // every lane for its own reads, so that racecheck can follow it
  };
#pragma unroll
  for (int i = 0; i < GROUPS; i++) for (int j = 0; j < 4; j++) sum[i][j] = 0.f;
  int s = at.stage, parity = at.parity;
  barrier_wait(&full[s], parity);
  const int whole = steps / STEPS, rest = steps - whole * STEPS;
  if (whole > 0) {
    load_weights(0, s, 0);
    load_operand(0, s, 0);
  }
  for (int stage = 0; stage < whole; stage++) {
    const int here = s;
    if (++s == STAGES) { s = 0; parity ^= 1; }
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
      load_operand(1, here, 2 * step + 1);
      multiply(step & 1, 0);
      if (step + 1 < STEPS) {
        load_weights((step + 1) & 1, here, step + 1);
        load_operand(0, here, 2 * step + 2);
      } else {
        release(here);
        if (stage + 1 < whole || rest > 0) barrier_wait(&full[s], parity);
        if (stage + 1 < whole) {
          load_weights(0, s, 0);
          load_operand(0, s, 0);
        }
      }
      multiply(step & 1, 1);
    }
  }
  for (int step = 0; step < rest; step++) {  // a last stage of fewer steps
    load_weights(0, s, step);
    load_operand(0, s, 2 * step);
    load_operand(1, s, 2 * step + 1);
    multiply(0, 0);
    multiply(0, 1);
  }
  at = {s, parity};
}

template <int FORMAT, int NT, int STRIPS, int STEPS, int STAGES>
__device__ __forceinline__ void stream(const StreamArgs& a) {
  typedef Fragments<FORMAT> F;
  constexpr int STRIP_BYTES = STEPS * F::STEP_BYTES, X_BYTES = STEPS * NT * 1024, STAGE = STRIPS * STRIP_BYTES + X_BYTES;
  constexpr int HALF = STRIPS > 1 ? STRIPS / 2 : 1;
  DYNAMIC_SHARED(ring);
  __shared__ u64 full[STAGES], empty[STAGES];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const bool isGated = STRIPS > 1 && a.gate.isGated != 0;
  auto strip_of = [&](int i) { return isGated ? (int)blockIdx.x * HALF + i % HALF : (int)blockIdx.x * STRIPS + i; };
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) {
      barrier_init(&full[s], 1);
      barrier_init(&empty[s], 32 * STRIPS);
    }
    barrier_init_done();
  }
  __syncthreads();

  if (warp == STRIPS) {  // copies
    if (is_elected()) {
      const int numStages = (a.steps + STEPS - 1) / STEPS, ahead = min(STAGES, numStages);
      auto steps_in = [&](int g) { return min(STEPS, a.steps - g * STEPS); };
      auto copy_weights = [&](int g, int s) {
        barrier_expect(&full[s], steps_in(g) * (STRIPS * F::STEP_BYTES + NT * 1024));
#pragma unroll
        for (int i = 0; i < STRIPS; i++) {
          const int strip = min(strip_of(i), a.strips - 1) + (isGated && i >= HALF ? a.strips : 0);
          const u8* from = a.w + ((i64)strip * a.steps + g * STEPS) * F::STEP_BYTES;
          bulk_copy_once(ring + s * STAGE + i * STRIP_BYTES, from, steps_in(g) * F::STEP_BYTES, &full[s]);
        }
      };
      auto copy_operand = [&](int g, int s) {
        bulk_copy(ring + s * STAGE + STRIPS * STRIP_BYTES, a.x + (i64)g * STEPS * NT * 512, steps_in(g) * NT * 1024, &full[s]);
      };
      for (int s = 0; s < ahead; s++) copy_weights(s, s);
      wait_in_turn(a);
      for (int s = 0; s < ahead; s++) copy_operand(s, s);
      int s = 0, parity = 0;
      for (int g = ahead; g < numStages; g++) {
        barrier_wait(&empty[s], parity);
        copy_weights(g, s);
        copy_operand(g, s);
        if (++s == STAGES) { s = 0; parity ^= 1; }
      }
    }
    __syncwarp();
    if (isGated) { __syncthreads(); __syncthreads(); }
    return;
  }

  const int strip = strip_of(warp), g = lane >> 2, q = lane & 3;
  const bool isMine = strip < a.strips;
  wait_in_turn(a);
  // What the result is added to comes while the sums are made.
  float total[NT][4], old[NT][4], bias[2];
#pragma unroll
  for (int i = 0; i < NT; i++) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int o = strip * 16 + g + (j >> 1) * 8, t = i * 8 + 2 * q + (j & 1);
      total[i][j] = 0.f;
      old[i][j] = o < a.rows && t < a.n && !isGated ? before(a.epilogue, t, o) : 0.f;
      bias[j >> 1] = o < a.rows ? bias_of(a.epilogue, o + (isGated && warp >= HALF ? a.rows : 0)) : 0.f;
    }
  }
  RingPlace at = {0, 0};
  for (int first = 0; first < a.steps; first += a.chain) {
    float sum[NT][4];
    sum_chain<FORMAT, NT, STEPS, STAGES, STAGE, NT * 512>(sum, ring + warp * STRIP_BYTES, ring + STRIPS * STRIP_BYTES, full, empty, at, min(a.chain, a.steps - first));
#pragma unroll
    for (int i = 0; i < NT; i++) for (int j = 0; j < 4; j++) total[i][j] += sum[i][j];
  }

  if (isGated) {
    if (a.epilogue.bias != nullptr) for (int i = 0; i < NT; i++) for (int j = 0; j < 4; j++) total[i][j] += bias[j >> 1];
    float* ups = (float*)ring + (warp % HALF * 32 + lane) * NT * 4;
    __syncthreads();  // the ring is free
    if (warp >= HALF) for (int i = 0; i < NT; i++) for (int j = 0; j < 4; j++) ups[i * 4 + j] = total[i][j];
    __syncthreads();
    if (warp >= HALF) return;
    for (int i = 0; i < NT; i++) for (int j = 0; j < 4; j++) old[i][j] = ups[i * 4 + j];
  }
  if (!isMine) return;
#pragma unroll
  for (int i = 0; i < NT; i++) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int o = strip * 16 + g + (j >> 1) * 8, t = i * 8 + 2 * q + (j & 1);
      if (o >= a.rows || t >= a.n) continue;
      if (isGated) finish_gated(a.epilogue, a.gate, t, o, total[i][j], old[i][j]);
      else finish(a.epilogue, t, o, total[i][j], bias[j >> 1], old[i][j]);
    }
  }
}

#define STREAM(FORMAT, name, NT, STRIPS, STEPS, STAGES)                                                       \
  OPEN_KERNEL(32 * STRIPS + 32, 1, stream_##name##_##NT##_##STRIPS, StreamArgs) {          \
    begin_in_turn(a);                                                                                         \
    stream<FORMAT, NT, STRIPS, STEPS, STAGES>(a);                                                             \
  }
