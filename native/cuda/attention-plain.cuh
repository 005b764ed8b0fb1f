// Attention with f32 arithmetic and no tensor cores: for f32 and i8 pages and for head sizes the fast kernels do not take. Any
// D, Dv up to 1024. The recipe is attention.cuh's, so results do not depend on the batch; it is a reference path, not a fast one.
//
// A block per (item, kv head); a warp per packed query row. Lanes first take a key each (scores), then a share of the value's
// dims each (sums over the unit's keys, ascending).
#pragma once
#include "attention.cuh"
#include "kv-fp8.cuh"

#define MAX_DIM_SHARE 32
#define PLAIN_WARPS 4

template <bool IS_FP8>
__device__ __forceinline__ float kv_value(const void* pool, i64 at, int c, int dtype) {
  if constexpr (IS_FP8) return *(const float*)((const u8*)pool + at) * fp8_value(((const u8*)pool)[at + 4 + c]);
  if (dtype == 0) return ((const float*)pool)[at + c];
  if (dtype == 1) return from_bits(((const u16*)pool)[at + c], KIND_F16);
  if (dtype == 2) return from_bits(((const u16*)pool)[at + c], KIND_BF16);
  const u8* bytes = (const u8*)pool + at;  // i8: an f32 scale, then the codes
  return *(const float*)bytes * ((const signed char*)bytes)[4 + c];
}

template <bool IS_FP8>
__device__ __forceinline__ void plain(const AttentionArgs& a) {
  __shared__ float weights[PLAIN_WARPS][UNIT];
  const Plan plan(a);
  const int i = blockIdx.x / a.numKvHeads, kvHead = blockIdx.x % a.numKvHeads, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (i >= plan.numItems) return;
  const Item item(plan, i);
  const int* pages = a.step + item.pagesAt;
  const int share = (a.valueDim + 31) / 32;
  const bool isPerChunk = item.partial >= 0 && plan.isPerChunk;
  for (int r = warp; r < item.rows; r += PLAIN_WARPS) {
    const int packed = item.packed0 + r, token = item.token0 + plan.token_of(packed), head = plan.head_of(packed, kvHead);
    const int from = visible_start(a.positions[token], plan), to = min(item.kvEnd, visible_end(a, plan, token));
    auto put_state = [&](int partial, float m, float d, const float* o) {
      const i64 state = state_of(a, plan, partial, kvHead, r);
      for (int j = 0; j < share; j++) {
        const int c = j * 32 + lane;
        if (c < a.valueDim) a.partialO[state * a.valueDim + c] = o[j];
      }
      if (lane == 0) a.partialMd[state] = make_float2(m, d);
    };
    const float* q = a.q + (i64)token * a.qStride + (i64)head * a.keyDim;
    float total[MAX_DIM_SHARE], o[MAX_DIM_SHARE], runningM = MINUS_INF, runningD = 0.f, m = MINUS_INF, d = 0.f;
    for (int j = 0; j < share; j++) total[j] = o[j] = 0.f;
    for (int unit = item.kvStart; unit < item.kvEnd; unit += UNIT) {
      const int first = max(unit, from), end = min(unit + UNIT, to);
      if (first < end) {
        float top = MINUS_INF;
        for (int key = first + lane; key < end; key += 32) {
          const i64 at = (i64)pages[key / a.pageSize] * a.pageStride + a.layerOffset + ((i64)kvHead * a.pageSize + key % a.pageSize) * a.keySlot;
          float dot = 0.f;
          for (int c = 0; c < a.keyDim; c++) dot = fmaf(q[c], kv_value<IS_FP8>(a.pool, at, c, a.dtype), dot);
          float s = score_of(dot, a.scale, a.softcap);
          weights[warp][key - unit] = s;
          top = fmaxf(top, s);
        }
        const float was = m;
        m = fmaxf(was, warp_max(top));
        const float factor = rescale(was, m);
        float sum = 0.f;
        for (int key = first + lane; key < end; key += 32) {
          float p = exp2_of(__fsub_rn(weights[warp][key - unit], m));
          weights[warp][key - unit] = p;
          // Lane and order of a key depend on its place in the unit alone when `first` is the unit's start; a window's start moves
          // with the row's position, which is the row's own.
          sum += p;
        }
        d = __fadd_rn(__fmul_rn(d, factor), warp_sum(sum));
        __syncwarp();
        for (int j = 0; j < share; j++) {
          const int c = j * 32 + lane;
          float v = __fmul_rn(o[j], factor);
          if (c < a.valueDim) {
            for (int key = first; key < end; key++) {
              const i64 at = (i64)pages[key / a.pageSize] * a.pageStride + a.layerOffset + a.valueOffset +
                             ((i64)kvHead * a.pageSize + key % a.pageSize) * a.valueSlot;
              v = fmaf(weights[warp][key - unit], kv_value<IS_FP8>(a.pool, at, c, a.dtype), v);
            }
          }
          o[j] = v;
        }
        __syncwarp();
      }
      if (unit + UNIT < item.kvEnd && !plan.ends_chunk(unit + UNIT)) continue;
      if (isPerChunk) put_state(item.partial + plan.chunk_of(unit, item.kvStart), m, d, o);
      const Fold fold(runningM, m);
      runningD = fold(runningD, d);
      runningM = fold.m;
      for (int j = 0; j < share; j++) {
        total[j] = fold(total[j], o[j]);
        o[j] = 0.f;
      }
      m = MINUS_INF;
      d = 0.f;
    }
    if (item.partial < 0) {
      const float factor = final_factor(runningM, runningD, a.sinks, head);
      for (int j = 0; j < share; j++) {
        const int c = j * 32 + lane;
        if (c < a.valueDim) put_out(a, token, head * a.valueDim + c, __fmul_rn(total[j], factor));
      }
    } else if (!isPerChunk) {
      put_state(item.partial, runningM, runningD, total);
    }
  }
}
