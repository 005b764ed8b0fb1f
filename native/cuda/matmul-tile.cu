// Many tokens: out[t, o] = sum over k of x[t, k] * w[o, k] on wgmma (sm_90a). Bound by the tensor cores, or below some hundreds of
// tokens by reading the weights.
//
// A block computes 64 * GROUPS outputs (weights are the M operand, from registers) x BN tokens (the N operand, from shared memory).
// A warpgroup is set aside for copies by bulk: one warp brings weights, W_STEPS times 64 k's at a time (a strip's 2 KB for each are
// contiguous, weights.cu), another the operand, BN * 128 bytes for 64 k's in tile order (common.cuh; contiguous, swizzled already). Weights
// travel in larger pieces because each strip needs a copy of its own, and are asked for before the kernel ahead has ended. Each of the
// GROUPS warpgroups multiplies its 64 rows: one chain of k16 steps over all of K in f32, as in the strip kernel, so the bits are the strip
// kernel's.
// Traffic from L2 per block and 64 k's: GROUPS * 8 KB + BN * 128 bytes for 64 * GROUPS * BN * 128 FLOPs.
#include "bulk.cuh"
#include "epilogue.cuh"
#include "wgmma.cuh"

struct TileArgs {
  const u16* x;          // operand in tile order
  const u16* w;          // fragments
  Epilogue epilogue;
  int n, tokens8, rows, strips;
  int steps;             // padded K / 64
  int tokenTiles;        // of BN tokens
};

// Blocks that run at the same time share rows and tokens: groups of 16 row tiles, tokens outside, rows inside.
#define RASTER 16

template <int KIND, int BN, int GROUPS, int W_STEPS, int W_STAGES, int X_STAGES>
__device__ __forceinline__ void tile_matmul(const TileArgs& a) {
  constexpr int STRIPS = 4 * GROUPS, W_STAGE = W_STEPS * STRIPS * 2048, X_STAGE = BN * 128;
  DYNAMIC_SHARED(shared);  // [X_STAGES][X_STAGE], then [W_STAGES][STRIPS][W_STEPS][2048]
  __shared__ u64 fullW[W_STAGES], emptyW[W_STAGES], fullX[X_STAGES], emptyX[X_STAGES];
  u8* const weights = shared + X_STAGES * X_STAGE;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;

  const int rowTiles = (a.strips + STRIPS - 1) / STRIPS;
  const int perGroup = RASTER * a.tokenTiles, group = blockIdx.x / perGroup, in = blockIdx.x % perGroup;
  const int width = min(RASTER, rowTiles - group * RASTER);
  const int rowTile = group * RASTER + in % width, tokenTile = in / width;
  const int strip0 = rowTile * STRIPS;

  if (threadIdx.x == 0) {
    for (int s = 0; s < W_STAGES; s++) {
      barrier_init(&fullW[s], 1);
      barrier_init(&emptyW[s], STRIPS);
    }
    for (int s = 0; s < X_STAGES; s++) {
      barrier_init(&fullX[s], 1);
      barrier_init(&emptyX[s], STRIPS);
    }
    barrier_init_done();
  }
  __syncthreads();

  // 128 sums, fragments of two steps and addresses need more registers than 384 threads can have alike.
  constexpr bool REBALANCES = BN == 256;
  if (warp >= STRIPS) {
    if (REBALANCES) give_registers<24>();
    if (warp == STRIPS && is_elected()) {  // weights
      int s = 0, parity = 1;  // the first time around all stages are free
      for (int step = 0; step < a.steps; step += W_STEPS) {
        const int count = min(W_STEPS, a.steps - step);
        barrier_wait(&emptyW[s], parity);
        barrier_expect(&fullW[s], count * STRIPS * 2048);
#pragma unroll 1
        for (int i = 0; i < STRIPS; i++) {
          const int strip = min(strip0 + i, a.strips - 1);  // beyond the matrix: any rows, their results are dropped
          const u16* from = a.w + ((i64)strip * a.steps + step) * 1024;
          bulk_copy(weights + s * W_STAGE + i * W_STEPS * 2048, from, count * 2048, &fullW[s]);
        }
        if (++s == W_STAGES) { s = 0; parity ^= 1; }
      }
    } else if (warp == STRIPS + 1 && is_elected()) {  // the operand
      wait_for_others();
      const u16* x = a.x + (i64)tokenTile * (BN / 8) * 512;
      int s = 0, parity = 1;
      for (int step = 0; step < a.steps; step++) {
        barrier_wait(&emptyX[s], parity);
        barrier_expect(&fullX[s], X_STAGE);
        bulk_copy(shared + s * X_STAGE, x + (i64)step * a.tokens8 * 512, X_STAGE, &fullX[s]);
        if (++s == X_STAGES) { s = 0; parity ^= 1; }
      }
    }
    return;
  }
  if (REBALANCES) take_registers<240>();

  float sum[BN / 2];
#pragma unroll
  for (int i = 0; i < BN / 2; i++) sum[i] = 0.f;
  // A step's registers are free once the step after it is issued and the wait leaves no more than that one in flight: two sets in turns,
  // indexed by constants.
  u32 fragments[2][4][4];
  int sw = 0, parityW = 0, sx = 0, parityX = 0, last = -1;
  auto multiply = [&](int i, u32 (*f)[4]) {
    const u8* from = weights + sw * W_STAGE + (warp * W_STEPS + i) * 2048 + lane * 16;
    barrier_wait(&fullX[sx], parityX);
#pragma unroll
    for (int k = 0; k < 4; k++) {
      uint4 v = *(const uint4*)(from + k * 512);
      f[k][0] = v.x; f[k][1] = v.y; f[k][2] = v.z; f[k][3] = v.w;
    }
    const u64 b = describe_b(shared + sx * X_STAGE);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++) Wgmma<KIND, BN>::run(sum, f[k], b + 2 * k);
    wgmma_commit();
    wgmma_wait<1>();
    if (last >= 0 && lane == 0) barrier_arrive(&emptyX[last]);
    last = sx;
    if (++sx == X_STAGES) { sx = 0; parityX ^= 1; }
  };
  const int whole = a.steps / W_STEPS, rest = a.steps % W_STEPS;
  for (int stage = 0; stage < whole; stage++) {
    barrier_wait(&fullW[sw], parityW);
#pragma unroll
    for (int i = 0; i < W_STEPS; i++) multiply(i, fragments[i & 1]);
    __syncwarp();
    if (lane == 0) barrier_arrive(&emptyW[sw]);
    if (++sw == W_STAGES) { sw = 0; parityW ^= 1; }
  }
  wgmma_wait<0>();
  if (rest > 0) barrier_wait(&fullW[sw], parityW);
  for (int i = 0; i < rest; i++) {
    multiply(i, fragments[0]);
    wgmma_wait<0>();
  }
  wait_for_others();  // what the sums are added to may be another kernel's result
  const int strip = strip0 + warp;
  if (strip < a.strips) finish_strip<BN / 8>(a.epilogue, sum, (i64)tokenTile * BN, strip * 16, a.n, a.rows);
}

// As the table in src/device/cuda/matmul.ts has them.
#define TILE(BN, GROUPS, W_STEPS, W_STAGES, X_STAGES)                         \
  EARLY_KERNEL(128 * GROUPS + 128, tile_bf16_##BN##_##GROUPS, TileArgs) {     \
    tile_matmul<KIND_BF16, BN, GROUPS, W_STEPS, W_STAGES, X_STAGES>(a);       \
  }                                                                           \
  EARLY_KERNEL(128 * GROUPS + 128, tile_f16_##BN##_##GROUPS, TileArgs) {      \
    tile_matmul<KIND_F16, BN, GROUPS, W_STEPS, W_STAGES, X_STAGES>(a);        \
  }
TILE(256, 2, 2, 3, 4)
TILE(128, 2, 2, 3, 6)
TILE(128, 1, 4, 2, 3)
TILE(64, 2, 2, 4, 6)
TILE(64, 1, 4, 3, 6)
TILE(32, 1, 4, 3, 6)
