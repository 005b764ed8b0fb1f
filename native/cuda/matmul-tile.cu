// Many tokens: out[t, o] = sum over k of x[t, k] * w[o, k] on wgmma (sm_90a). Bound by the tensor cores, or below some hundreds of
// tokens by reading the weights.
//
// A block computes 64 * GROUPS outputs (weights are the M operand, from registers) x BN tokens (the N operand, from shared memory).
// One warp copies (a warpgroup is set aside for it): a stage is 64 k's, GROUPS * 8 KB of weight fragments (weights.cu; a strip's 2 KB are contiguous) and BN * 128
// bytes of the operand in tile order (common.cuh; contiguous, swizzled already), all by bulk copies that complete a barrier. Each of
// the GROUPS warpgroups multiplies its 64 rows: one chain of k16 steps over all of K in f32, as in the strip kernel, so the bits are
// the strip kernel's.
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

template <int KIND, int BN, int GROUPS, int STAGES>
__device__ void tile_matmul(const TileArgs& a) {
  constexpr int W_BYTES = GROUPS * 8192, X_BYTES = BN * 128, STAGE = W_BYTES + X_BYTES;
  DYNAMIC_SHARED(shared);
  __shared__ u64 full[STAGES], empty[STAGES];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;

  const int rowTiles = (a.strips + 4 * GROUPS - 1) / (4 * GROUPS);
  const int perGroup = RASTER * a.tokenTiles, group = blockIdx.x / perGroup, in = blockIdx.x % perGroup;
  const int width = min(RASTER, rowTiles - group * RASTER);
  const int rowTile = group * RASTER + in % width, tokenTile = in / width;
  const int strip0 = rowTile * 4 * GROUPS;

  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) {
      barrier_init(&full[s], 1);
      barrier_init(&empty[s], 4 * GROUPS);
    }
    barrier_init_done();
  }
  __syncthreads();

  // 128 sums, fragments of two steps and addresses need more registers than 384 threads can have alike.
  constexpr bool REBALANCES = BN == 256;
  if (warp >= 4 * GROUPS) {
    if (REBALANCES) give_registers<24>();
    if (warp > 4 * GROUPS) return;
    // The copying warp: a lane for each strip, one for the operand.
    for (int step = 0; step < a.steps; step++) {
      const int s = step % STAGES;
      u8* stage = shared + s * STAGE;
      if (step >= STAGES) barrier_wait(&empty[s], (step / STAGES - 1) & 1);
      if (lane == 0) barrier_expect(&full[s], STAGE);
      __syncwarp();
      if (lane < 4 * GROUPS) {
        const int strip = min(strip0 + lane, a.strips - 1);  // beyond the matrix: any rows, their results are dropped
        bulk_copy(stage + lane * 2048, a.w + ((i64)strip * a.steps + step) * 1024, 2048, &full[s]);
      } else if (lane == 4 * GROUPS) {
        bulk_copy(stage + W_BYTES, a.x + ((i64)step * a.tokens8 + tokenTile * (BN / 8)) * 512, X_BYTES, &full[s]);
      }
    }
    return;
  }
  if (REBALANCES) take_registers<240>();

  float sum[BN / 2];
#pragma unroll
  for (int i = 0; i < BN / 2; i++) sum[i] = 0.f;
  u32 fragments[2][4][4];
  // Two steps at a time, so that fragments are indexed by constants: a step's registers are free once the step after it is issued
  // and the wait leaves no more than that one in flight.
  auto multiply = [&](int step, u32 (*f)[4]) {
    const int s = step % STAGES;
    const u8* stage = shared + s * STAGE;
    barrier_wait(&full[s], (step / STAGES) & 1);
#pragma unroll
    for (int k = 0; k < 4; k++) {
      uint4 v = *(const uint4*)(stage + warp * 2048 + k * 512 + lane * 16);
      f[k][0] = v.x; f[k][1] = v.y; f[k][2] = v.z; f[k][3] = v.w;
    }
    const u64 b = describe_b(stage + W_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++) Wgmma<KIND, BN>::run(sum, f[k], b + 2 * k);
    wgmma_commit();
    wgmma_wait<1>();
    if (step > 0 && lane == 0) barrier_arrive(&empty[(step - 1) % STAGES]);
  };
  int step = 0;
  for (; step + 1 < a.steps; step += 2) {
    multiply(step, fragments[0]);
    multiply(step + 1, fragments[1]);
  }
  if (step < a.steps) multiply(step, fragments[0]);
  wgmma_wait<0>();

  const int g = lane >> 2, q = lane & 3;
  const int strip = strip0 + warp;
  if (strip >= a.strips) return;
#pragma unroll
  for (int i = 0; i < BN / 8; i++) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int o = strip * 16 + g + (j >> 1) * 8, t = tokenTile * BN + i * 8 + 2 * q + (j & 1);
      if (o < a.rows && t < a.n) finish(a.epilogue, t, o, sum[4 * i + j]);
    }
  }
}

#define TILE(BN, GROUPS, STAGES)                                                                                        \
  KERNEL(128 * GROUPS + 128, tile_bf16_##BN##_##GROUPS, TileArgs) { tile_matmul<KIND_BF16, BN, GROUPS, STAGES>(a); }     \
  KERNEL(128 * GROUPS + 128, tile_f16_##BN##_##GROUPS, TileArgs) { tile_matmul<KIND_F16, BN, GROUPS, STAGES>(a); }
TILE(256, 2, 4)
TILE(128, 2, 6)
TILE(128, 1, 8)
TILE(64, 1, 8)
TILE(64, 2, 6)
