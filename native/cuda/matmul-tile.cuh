// Many tokens: out[t, o] = sum over k of x[t, k] * w[o, k] on wgmma (sm_90a). Bound by the tensor cores, or below some hundreds of
// tokens by reading the weights.
//
// A block computes 64 * GROUPS outputs (weights are the M operand, from registers) x BN tokens (the N operand, from shared memory).
// A warpgroup is set aside for copies by bulk: one warp brings weights, W_STEPS times 64 k's at a time (a strip's bytes for them are
// contiguous, fragments.cuh), another the operand, BN * 128 bytes for 64 k's in tile order (common.cuh; contiguous, swizzled already). Weights
// travel in larger pieces because each strip needs a copy of its own, and are asked for before the kernel ahead has ended. Each of the
// GROUPS warpgroups multiplies its 64 rows: K chain by chain of k16 steps in f32, as in the strip kernel, so the bits are the strip
// kernel's. Sums of earlier chains stay in registers, for which tiles of 256 tokens have no room: they have one chain. Where tiles are few,
// chains run side by side, a block each (blockIdx.y): sums go to memory, and the block that comes last adds them in order.
// The sums go out through shared memory, so that rows are written whole and the code stays short: a block runs it once, and would wait
// for instructions longer than for memory.
// Traffic from L2 per block and 64 k's: GROUPS * 8 KB + BN * 128 bytes for 64 * GROUPS * BN * 128 FLOPs.
#pragma once
#include "bulk.cuh"
#include "epilogue.cuh"
#include "fragments.cuh"
#include "wgmma.cuh"

struct TileArgs {
  const u16* x;          // operand in tile order
  const u8* w;           // strips
  float* parts;          // chains side by side: [tile][chain] their sums, as threads have them; null: one after the other
  int* arrived;          // [tile] chains whose sums are there; zero between launches
  Epilogue epilogue;
  Gate gate;             // gated: the second warpgroup has the up projection's strips
  int n, tokens8, rows, strips;  // gated: rows and strips of the gate alone
  int steps;             // padded K / 64
  int tokenTiles;        // of BN tokens
  int chain, pad;        // steps of a chain, a multiple of 4
};

// Blocks that run at the same time share rows and tokens: groups of 16 row tiles, tokens outside, rows inside.
#define RASTER 16

// Rows of a tile's sums, 4 outputs a thread: out = scale * (sum + bias), or out += that.
template <int QUADS, int PITCH>
__device__ __forceinline__ void finish_rows(const TileArgs& a, const float* sums, int first, int count, int o0) {
  const Epilogue& e = a.epilogue;
  const int c = threadIdx.x % QUADS * 4, o = o0 + c;
  const bool isWide = (((u64)e.out | (u64)e.outStride * 4) & 15) == 0 && o + 3 < a.rows;
  Quad bias;
  for (int j = 0; j < 4; j++) bias.v[j] = o + j < a.rows ? bias_of(e, o + j) : 0.f;
  constexpr int AT_ONCE = 4, STEP = 8;  // tokens a thread asks for together; tokens that the threads take in one turn
  for (int t = threadIdx.x / QUADS; t < count; t += AT_ONCE * STEP) {
    Quad old[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      if (!e.accumulate || t + i * STEP >= count) continue;
      const float* from = e.out + (first + t + i * STEP) * e.outStride + o;
      if (isWide) old[i] = *(const Quad*)from;
      else for (int j = 0; j < 4; j++) old[i].v[j] = o + j < a.rows ? from[j] : 0.f;
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      if (t + i * STEP >= count) break;
      Quad sum = *(const Quad*)(sums + (t + i * STEP) * PITCH + c);
      float* out = e.out + (first + t + i * STEP) * e.outStride + o;
#pragma unroll
      for (int j = 0; j < 4; j++) {
        if (e.bias != nullptr) sum.v[j] += bias.v[j];
        sum.v[j] = e.accumulate ? fmaf(e.scale, sum.v[j], old[i].v[j]) : e.scale * sum.v[j];
      }
      if (isWide) *(Quad*)out = sum;
      else for (int j = 0; j < 4; j++) if (o + j < a.rows) out[j] = sum.v[j];
    }
  }
}

// act(gate) * up, whose sums lie side by side: whole strips, so no row is beyond the matrix. A thread has four tokens in hand at a time, none
// of whose instructions waits for another's: two warps a scheduler cannot hide a chain of an exponential and a reciprocal.
template <int PITCH, bool IS_SILU>
__device__ __forceinline__ void gate_rows(const TileArgs& a, const float* sums, int first, int count, int o0) {
  const int c = threadIdx.x % 16 * 4;
  constexpr int AT_ONCE = 4, STEP = 16;
  for (int t = threadIdx.x / 16; t < count; t += AT_ONCE * STEP) {
    Quad v[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {  // tokens behind the last: whatever lies there
      const float* from = sums + (t + i * STEP) * PITCH + c;
      Quad gate = *(const Quad*)from, up = *(const Quad*)(from + 64);
#pragma unroll
      for (int j = 0; j < 4; j++) {
        if (!IS_SILU && a.epilogue.bias != nullptr) {
          gate.v[j] += a.epilogue.bias[o0 + c + j];
          up.v[j] += a.epilogue.bias[a.rows + o0 + c + j];
        }
        v[i].v[j] = IS_SILU ? silu_of(gate.v[j]) * up.v[j] : gated(a.gate.activation, gate.v[j], up.v[j]);
      }
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      const int token = t + i * STEP;
      if (token >= count) break;
      if (a.epilogue.out != nullptr) *(Quad*)(a.epilogue.out + (first + token) * a.epilogue.outStride + o0 + c) = v[i];
      if (a.gate.operand.data != nullptr) operand_put4(a.gate.operand, first + token, o0 + c, v[i]);
    }
  }
}

// Sums of the chains of a tile, COUNT a thread, added in order by the block that comes last; false: this one did not.
template <int COUNT, int THREADS>
__device__ __forceinline__ bool fold_chains(const TileArgs& a, const float* sum, float* total) {
  __shared__ int isLast;
  const int chains = gridDim.y;
  float* const parts = a.parts + ((i64)blockIdx.x * chains * COUNT * THREADS + threadIdx.x * 4);
  wait_for_others();  // an earlier product may use the same memory
#pragma unroll
  for (int i = 0; i < COUNT; i += 4)
    *(Quad*)(parts + (blockIdx.y * COUNT + i) * THREADS) = Quad{{sum[i], sum[i + 1], sum[i + 2], sum[i + 3]}};
  __threadfence();
  group_sync(THREADS);
  if (threadIdx.x == 0) {
    isLast = atomicAdd(a.arrived + blockIdx.x, 1) == chains - 1;
    if (isLast) a.arrived[blockIdx.x] = 0;
    __threadfence();
  }
  group_sync(THREADS);
  if (!isLast) return false;
#pragma unroll
  for (int i = 0; i < COUNT; i++) total[i] = 0.f;
  for (int c = 0; c < chains; c++) {
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
      float part[4];
      load_past_l1(part, parts + (c * COUNT + i) * THREADS);
#pragma unroll
      for (int j = 0; j < 4; j++) total[i + j] += part[j];
    }
  }
  return true;
}

// A tile's place: its rows, its tokens, and the groups of 8 tokens that are copied for them.
struct TilePlace { int rowTile, first, count, groups; };

template <int BN>
__device__ __forceinline__ TilePlace tile_place(const TileArgs& a, int perTile) {
  const int rowTiles = (a.strips + perTile - 1) / perTile;
  const int perGroup = RASTER * a.tokenTiles, group = blockIdx.x / perGroup, in = blockIdx.x % perGroup;
  const int width = min(RASTER, rowTiles - group * RASTER), tokenTile = in / width;
  // Behind the operand: whatever lies there, dropped later.
  return {group * RASTER + in % width, tokenTile * BN, min(BN, a.n - tokenTile * BN), min(BN / 8, a.tokens8 - tokenTile * (BN / 8))};
}

// `find(perTile)` says which tile the block computes.
template <int FORMAT, int BN, int GROUPS, int W_STEPS, int W_STAGES, int X_STAGES, class Find>
__device__ __forceinline__ void tile_matmul(const TileArgs& a, Find find) {
  typedef Fragments<FORMAT> F;
  constexpr int STRIPS = 4 * GROUPS, W_STAGE = W_STEPS * STRIPS * F::STEP_BYTES, X_STAGE = BN * 128;
  DYNAMIC_SHARED(shared);  // [X_STAGES][X_STAGE], then [W_STAGES][STRIPS][W_STEPS][STEP_BYTES]
  __shared__ u64 fullW[W_STAGES], emptyW[W_STAGES], fullX[X_STAGES], emptyX[X_STAGES];
  u8* const weights = shared + X_STAGES * X_STAGE;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;

  const bool isGated = GROUPS == 2 && a.gate.isGated != 0;
  const int perTile = isGated ? STRIPS / 2 : STRIPS;
  const TilePlace place = find(perTile);
  const int strip0 = place.rowTile * perTile;
  const bool isPart = BN <= 128 && a.parts != nullptr;
  const int firstStep = isPart ? blockIdx.y * a.chain : 0, endStep = isPart ? min(firstStep + a.chain, a.steps) : a.steps;

  if (threadIdx.x == 0) {
    for (int s = 0; s < W_STAGES; s++) {
      barrier_init(&fullW[s], 1);
      barrier_init(&emptyW[s], 32 * STRIPS);
    }
    for (int s = 0; s < X_STAGES; s++) {
      barrier_init(&fullX[s], 1);
      barrier_init(&emptyX[s], STRIPS);
    }
    barrier_init_done();
  }
  __syncthreads();

  // 128 sums, fragments of two steps and addresses need more registers than 384 threads can have alike.
  constexpr bool HAS_CHAINS = BN < 256, REBALANCES = BN >= 128 && GROUPS == 2;
  if (warp >= STRIPS) {
    if (REBALANCES) give_registers<24>();
    if (warp == STRIPS && is_elected()) {  // weights
      int s = 0, parity = 1;  // the first time around all stages are free
      for (int step = firstStep; step < endStep; step += W_STEPS) {
        const int count = min(W_STEPS, endStep - step);
        barrier_wait(&emptyW[s], parity);
        barrier_expect(&fullW[s], count * STRIPS * F::STEP_BYTES);
#pragma unroll 1
        for (int i = 0; i < STRIPS; i++) {
          const bool isUp = i >= perTile;
          const int strip = min(strip0 + i % perTile, a.strips - 1) + (isUp ? a.strips : 0);  // beyond the matrix: any rows, dropped later
          const u8* from = a.w + ((i64)strip * a.steps + step) * F::STEP_BYTES;
          bulk_copy(weights + s * W_STAGE + i * W_STEPS * F::STEP_BYTES, from, count * F::STEP_BYTES, &fullW[s]);
        }
        if (++s == W_STAGES) { s = 0; parity ^= 1; }
      }
    } else if (warp == STRIPS + 1 && is_elected()) {  // the operand
      wait_for_others();
      const u16* x = a.x + (i64)(place.first >> 3) * 512;
      const int bytes = place.groups * 1024;
      int s = 0, parity = 1;
      for (int step = firstStep; step < endStep; step++) {
        barrier_wait(&emptyX[s], parity);
        barrier_expect(&fullX[s], bytes);
        bulk_copy(shared + s * X_STAGE, x + (i64)step * a.tokens8 * 512, bytes, &fullX[s]);
        if (++s == X_STAGES) { s = 0; parity ^= 1; }
      }
    }
    return;
  }
  if (REBALANCES) take_registers<240>();

  float sum[BN / 2], total[HAS_CHAINS ? BN / 2 : 1];
  if constexpr (HAS_CHAINS) {
#pragma unroll
    for (int i = 0; i < BN / 2; i++) total[i] = 0.f;
  }
  // A step's registers are free once the step after it is issued and the wait leaves no more than that one in flight: two sets in turns,
  // indexed by constants.
  u32 fragments[2][4][4];
  int sw = 0, parityW = 0, sx = 0, parityX = 0, last = -1;
  auto multiply = [&](int i, u32 (*f)[4]) {
    barrier_wait(&fullX[sx], parityX);
    F step;
    step.load(weights + sw * W_STAGE + (warp * W_STEPS + i) * F::STEP_BYTES, lane);
#pragma unroll
    for (int k = 0; k < 4; k++) step.get(k, f[k]);
    const u64 b = describe_b(shared + sx * X_STAGE);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++) Wgmma<F::KIND, BN>::run(sum, f[k], b + 2 * k);
    wgmma_commit();
    wgmma_wait<1>();
    if (last >= 0 && lane == 0) barrier_arrive(&emptyX[last]);
    last = sx;
    if (++sx == X_STAGES) { sx = 0; parityX ^= 1; }
  };
  auto sum_chain = [&](int steps) {
#pragma unroll
    for (int i = 0; i < BN / 2; i++) sum[i] = 0.f;
    const int whole = steps / W_STEPS, rest = steps % W_STEPS;
    for (int stage = 0; stage < whole; stage++) {
      barrier_wait(&fullW[sw], parityW);
#pragma unroll
      for (int i = 0; i < W_STEPS; i++) multiply(i, fragments[i & 1]);
      __syncwarp();
      barrier_arrive(&emptyW[sw]);  // every lane for its own reads, so that racecheck can follow it
      if (++sw == W_STAGES) { sw = 0; parityW ^= 1; }
    }
    wgmma_wait<0>();
    if (rest > 0) barrier_wait(&fullW[sw], parityW);
    for (int i = 0; i < rest; i++) {  // a last stage of fewer steps
      multiply(i, fragments[0]);
      wgmma_wait<0>();
    }
  };
  if constexpr (HAS_CHAINS) {
    for (int first = firstStep; first < endStep; first += a.chain) {
      sum_chain(min(a.chain, a.steps - first));
#pragma unroll
      for (int i = 0; i < BN / 2; i++) total[i] += sum[i];
    }
    if (isPart) {
      if (!fold_chains<BN / 2, 128 * GROUPS>(a, total, sum)) return;
#pragma unroll
      for (int i = 0; i < BN / 2; i++) total[i] = sum[i];
    }
  } else sum_chain(a.steps);
  constexpr int PITCH = 64 * GROUPS + 4;  // the threads of a warp write to 32 banks
  float* const sums = (float*)shared;     // [BN][PITCH]: the rings are free once all warps are here
  group_sync(128 * GROUPS);
  float* to = sums + 2 * (lane & 3) * PITCH + warp * 16 + (lane >> 2);
#pragma unroll
  for (int i = 0; i < BN / 8; i++) {
#pragma unroll
    for (int j = 0; j < 4; j++) to[(i * 8 + (j & 1)) * PITCH + (j >> 1) * 8] = HAS_CHAINS ? total[HAS_CHAINS ? 4 * i + j : 0] : sum[4 * i + j];
  }
  group_sync(128 * GROUPS);
  wait_for_others();  // what the sums are added to may be another kernel's result
  const int first = place.first, count = place.count;
  if (isGated && a.gate.activation == 0 && a.epilogue.bias == nullptr) gate_rows<PITCH, true>(a, sums, first, count, strip0 * 16);
  else if (isGated) gate_rows<PITCH, false>(a, sums, first, count, strip0 * 16);
  else finish_rows<16 * GROUPS, PITCH>(a, sums, first, count, strip0 * 16);
}

#define TILE(FORMAT, name, BN, GROUPS, W_STEPS, W_STAGES, X_STAGES)             \
  EARLY_KERNEL(128 * GROUPS + 128, tile_##name##_##BN##_##GROUPS, TileArgs) {   \
    tile_matmul<FORMAT, BN, GROUPS, W_STEPS, W_STAGES, X_STAGES>(a, [&](int perTile) { return tile_place<BN>(a, perTile); }); \
  }
// As the table in src/device/cuda/matmul.ts has them.
#define TILES(FORMAT, name)                                                                                                \
  TILE(FORMAT, name, 256, 2, 2, 3, 4) TILE(FORMAT, name, 192, 2, 2, 3, 5) TILE(FORMAT, name, 128, 2, 2, 3, 6)              \
  TILE(FORMAT, name, 128, 1, 4, 3, 6)                                                                                      \
  TILE(FORMAT, name, 64, 2, 2, 4, 6) TILE(FORMAT, name, 64, 1, 4, 3, 6) TILE(FORMAT, name, 32, 1, 4, 3, 6)
