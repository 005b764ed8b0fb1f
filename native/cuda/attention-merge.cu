// Folds the states of split tiles, ascending, and writes their outputs: a warp for 128 dims of a packed row, a lane for four.
// A part's factors need the maximum of the parts up to it alone, so lanes find those of 32 parts at once; the sums over parts are chains
// whose loads do not wait for each other. A launch of its own: in a block that comes last, states would go to memory and back in turn,
// behind a fence, and few blocks would have all the work.
// Bound by reading the states: 4 * Dv bytes for each row and part.
#include "attention.cuh"

#define MERGE_WARPS 4
#define MERGED 16  // parts that are asked for at once

EARLY_KERNEL(32 * MERGE_WARPS, attention_merge, AttentionArgs) {
  // The plan was there before the kernels ahead began.
  const Plan plan(a);
  const int tile = blockIdx.x / a.numKvHeads, kvHead = blockIdx.x % a.numKvHeads;
  const int r = blockIdx.y * MERGE_WARPS + (threadIdx.x >> 5), lane = threadIdx.x & 31, c = blockIdx.z * 128 + 4 * lane;
  const bool isTile = tile < plan.at[PLAN_MERGES];
  const Item item(plan, plan.numItems + (isTile ? tile : 0));
  wait_for_others();
  if (!isTile || r >= item.rows) return;
  const int packed = item.packed0 + r, parts = item.numPartials;
  const int token = item.token0 + plan.token_of(packed), head = plan.head_of(packed, kvHead);
  const i64 first = state_of(a, plan, item.firstPartial, kvHead, r), stride = (i64)a.numKvHeads * plan.stateRows;
  const bool isAligned = (a.valueDim & 3) == 0;  // else dims are read one by one
  auto part_at = [&](int p) { return a.partialO + (first + min(p, parts - 1) * stride) * a.valueDim; };
  auto md_of = [&](int p) { return p < parts ? a.partialMd[first + p * stride] : make_float2(MINUS_INF, 0.f); };
  float o[4] = {0.f, 0.f, 0.f, 0.f}, m = MINUS_INF, d = 0.f, mine = 1.f, theirs = 0.f;
  float2 md, next = md_of(lane);  // of this lane's part of 32, and of the 32 behind them
#pragma unroll 1
  for (int p = 0; p < parts; p += MERGED) {
    Quad v[MERGED];
#pragma unroll
    for (int i = 0; i < MERGED; i++) {
      if (isAligned) v[i] = *(const Quad*)(part_at(p + i) + min(c, a.valueDim - 4));
      else for (int j = 0; j < 4; j++) v[i].v[j] = part_at(p + i)[min(c + j, a.valueDim - 1)];
    }
    if (p % 32 == 0) {
      md = next;
      next = md_of(p + 32 + lane);
      float top = fmaxf(md.x, m);
#pragma unroll
      for (int step = 1; step < 32; step <<= 1) {
        const float other = __shfl_up_sync(0xffffffffu, top, step);
        if (lane >= step) top = fmaxf(top, other);
      }
      const float last = __shfl_up_sync(0xffffffffu, top, 1);
      const Fold fold(lane == 0 ? m : last, md.x, top);
      mine = fold.mine;
      theirs = fold.theirs;
      m = __shfl_sync(0xffffffffu, top, 31);
    }
#pragma unroll
    for (int i = 0; i < MERGED; i++) {
      const int from = (p + i) % 32;
      const float x = __shfl_sync(0xffffffffu, mine, from), y = __shfl_sync(0xffffffffu, theirs, from);
      const float sum = __shfl_sync(0xffffffffu, md.y, from);
      if (p + i < parts) {
        d = __fadd_rn(__fmul_rn(d, x), __fmul_rn(sum, y));
#pragma unroll
        for (int j = 0; j < 4; j++) o[j] = __fadd_rn(__fmul_rn(o[j], x), __fmul_rn(v[i].v[j], y));
      }
    }
  }
  const float factor = final_factor(m, d, a.sinks, head);
#pragma unroll
  for (int j = 0; j < 4; j++) o[j] = __fmul_rn(o[j], factor);
  const int column = head * a.valueDim + c;
  if (isAligned && (a.outStride & 1) == 0) {
    if (c >= a.valueDim) return;
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
      *(float2*)(a.out + (i64)token * a.outStride + column + j) = make_float2(o[j], o[j + 1]);
      if (a.operand.data != nullptr) operand_put2(a.operand, token, column + j, o[j], o[j + 1]);
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < 4; j++)
    if (c + j < a.valueDim) put_out(a, token, column + j, o[j]);
}
