// Up to 32 tokens of a matrix of few rows on Hopper: the chains of a strip run side by side.
//
// One chain of k16 steps takes 24 clocks a step, or what unpacking its codes takes, whatever the memory could bring: a matrix that gives a
// multiprocessor one strip or two would wait for it. So K is cut into CHAINS chains (src/device/cuda/matmul.ts says of which matrices:
// those of few rows, in every kernel and for every number of tokens), each a warp's with a ring of its own; their sums are added in order.
// Up to K = 2048 the rings hold a strip's weights whole, asked for before the kernel ahead has ended.
#pragma once
#include "matmul-stream.cuh"

#define CHAINS 4

template <int FORMAT, int NT, int STEPS, int STAGES>
__device__ __forceinline__ void stream_chains(const StreamArgs& a) {
  typedef Fragments<FORMAT> F;
  constexpr int W_BYTES = STEPS * F::STEP_BYTES, STAGE = W_BYTES + STEPS * NT * 1024, RING = STAGES * STAGE;
  DYNAMIC_SHARED(rings);  // [CHAINS][STAGES]: weights, operand
  __shared__ u64 full[CHAINS][STAGES], empty[CHAINS][STAGES];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, strip = blockIdx.x;
  auto steps_of = [&](int chain) { return max(0, min(a.chain, a.steps - chain * a.chain)); };
  if (threadIdx.x == 0) {
    for (int c = 0; c < CHAINS; c++) {
      for (int s = 0; s < STAGES; s++) {
        barrier_init(&full[c][s], 1);
        barrier_init(&empty[c][s], 32);
      }
    }
    barrier_init_done();
  }
  __syncthreads();

  if (warp == CHAINS) {  // copies
    if (is_elected()) {
      const int numStages = (steps_of(0) + STEPS - 1) / STEPS, ahead = min(STAGES, numStages);
      auto steps_in = [&](int c, int g) { return min(STEPS, steps_of(c) - g * STEPS); };
      auto copy_weights = [&](int c, int g, int s) {
        const int count = steps_in(c, g);
        if (count <= 0) return;
        barrier_expect(&full[c][s], count * (F::STEP_BYTES + NT * 1024));
        const u8* from = a.w + ((i64)strip * a.steps + c * a.chain + g * STEPS) * F::STEP_BYTES;
        bulk_copy_once(rings + c * RING + s * STAGE, from, count * F::STEP_BYTES, &full[c][s]);
      };
      auto copy_operand = [&](int c, int g, int s) {
        const int count = steps_in(c, g);
        if (count <= 0) return;
        bulk_copy(rings + c * RING + s * STAGE + W_BYTES, a.x + (i64)(c * a.chain + g * STEPS) * NT * 512, count * NT * 1024, &full[c][s]);
      };
      for (int s = 0; s < ahead; s++) for (int c = 0; c < CHAINS; c++) copy_weights(c, s, s);
      wait_in_turn(a);
      for (int s = 0; s < ahead; s++) for (int c = 0; c < CHAINS; c++) copy_operand(c, s, s);
      int s = 0, parity = 0;
      for (int g = ahead; g < numStages; g++) {
        for (int c = 0; c < CHAINS; c++) {
          if (steps_in(c, g) <= 0) continue;
          barrier_wait(&empty[c][s], parity);
          copy_weights(c, g, s);
          copy_operand(c, g, s);
        }
        if (++s == STAGES) { s = 0; parity ^= 1; }
      }
    }
    return;
  }

  // A warp adds up the chains of every CHAINS-th group of 8 tokens; what the result is added to comes while the sums are made.
  constexpr int OWN = (NT + CHAINS - 1) / CHAINS;
  const int o0 = strip * 16 + (lane >> 2), t0 = 2 * (lane & 3);
  float old[OWN][4], bias[2];
  wait_in_turn(a);
#pragma unroll
  for (int i = 0; i < OWN; i++) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int o = o0 + (j >> 1) * 8, group = warp + i * CHAINS, t = group * 8 + t0 + (j & 1);
      old[i][j] = group < NT && o < a.rows && t < a.n ? before(a.epilogue, t, o) : 0.f;
      bias[j >> 1] = o < a.rows ? bias_of(a.epilogue, o) : 0.f;
    }
  }
  float sum[NT][4];
#pragma unroll
  for (int i = 0; i < NT; i++) for (int j = 0; j < 4; j++) sum[i][j] = 0.f;
  u8* const ring = rings + warp * RING;
  RingPlace at = {0, 0};
  if (steps_of(warp) > 0) sum_chain<FORMAT, NT, STEPS, STAGES, STAGE, NT * 512>(sum, ring, ring + W_BYTES, full[warp], empty[warp], at, steps_of(warp));
  __syncwarp();  // the ring is free
#pragma unroll
  for (int i = 0; i < NT; i++) *(Quad*)(ring + (i * 32 + lane) * 16) = Quad{{sum[i][0], sum[i][1], sum[i][2], sum[i][3]}};
  group_wait(1, 32 * CHAINS);
#pragma unroll
  for (int i = 0; i < OWN; i++) {
    const int group = warp + i * CHAINS;
    if (group >= NT) break;
    float total[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int c = 0; c < CHAINS; c++) {
      const Quad part = *(const Quad*)(rings + c * RING + (group * 32 + lane) * 16);
#pragma unroll
      for (int j = 0; j < 4; j++) total[j] += part.v[j];
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int o = o0 + (j >> 1) * 8, t = group * 8 + t0 + (j & 1);
      if (o < a.rows && t < a.n) finish(a.epilogue, t, o, total[j], bias[j >> 1], old[i][j]);
    }
  }
}

#define STREAM_CHAINS(FORMAT, name, NT, STEPS, STAGES) \
  OPEN_KERNEL(32 * CHAINS + 32, 1, chains_##name##_##NT, StreamArgs) { \
    begin_in_turn(a);                                  \
    stream_chains<FORMAT, NT, STEPS, STAGES>(a);       \
  }
