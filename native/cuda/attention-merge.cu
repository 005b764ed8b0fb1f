// Folds the partial states of split tiles, ascending, and writes their outputs. A warp per packed row: the factors of all parts
// first (they form one short chain), then the sums over the parts, whose loads do not wait for each other.
#include "attention.cuh"

#define MAX_PARTS 1024

KERNEL(128, attention_merge, AttentionArgs) {
  __shared__ float2 factors[4][MAX_PARTS];
  const Plan plan(a);
  const int i = blockIdx.x, kvHead = blockIdx.y, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (i >= plan.numMerges) return;
  const int row = plan.merge(0, i), qStart = plan.merge(1, i), first = plan.merge(2, i), count = plan.merge(3, i);
  if (count == 0) return;
  const int token0 = a.qoIndptr[row];
  const int packedEnd = min(qStart + plan.qTile, (a.qoIndptr[row + 1] - token0) * plan.group);
  for (int packed = qStart + blockIdx.z * 4 + warp; packed < packedEnd; packed += gridDim.z * 4) {
    auto state = [&](int part) { return ((i64)(first + part) * a.numKvHeads + kvHead) * plan.qTile + (packed - qStart); };
    float m = MINUS_INF, d = 0.f;
    for (int p0 = 0; p0 < count; p0 += MAX_PARTS) {  // more parts than fit: fold in blocks
      const int parts = min(MAX_PARTS, count - p0);
      for (int p = lane; p < parts; p += 32) factors[warp][p] = a.partialMd[state(p0 + p)];
      __syncwarp();
      for (int p = 0; p < parts; p++) {
        float2 md = factors[warp][p];
        Fold fold(m, md.x);
        d = fold(d, md.y);
        m = fold.m;
        __syncwarp();
        if (lane == 0) factors[warp][p] = make_float2(fold.mine, fold.theirs);
      }
      __syncwarp();
    }
    const int token = token0 + packed / plan.group, head = kvHead * plan.group + packed % plan.group;
    const float factor = final_factor(m, d, a.sinks, head);
    for (int c = lane; c < a.valueDim; c += 32) {
      float o = 0.f;
#pragma unroll 8
      for (int p = 0; p < min(count, MAX_PARTS); p++) {
        float2 f = factors[warp][p];
        o = __fadd_rn(__fmul_rn(o, f.x), __fmul_rn(a.partialO[state(p) * a.valueDim + c], f.y));
      }
      put_out(a, token, head * a.valueDim + c, __fmul_rn(o, factor));
    }
    __syncwarp();
  }
}
