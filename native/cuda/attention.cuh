// What the attention kernels share: the step's integers, the rule of what a token sees, and the algebra of softmax states.
//
// A unit is UNIT keys that begin at an absolute multiple of UNIT (the plan's kvChunk). It is summed from an empty state (o, m, d):
// all scores of the unit, their maximum m, then d = sum 2^(s-m) and o = sum 2^(s-m) v. Unit states are folded left to right. That
// is the whole recipe, for decodes and for prompts, split or not: a row's bits depend on its position alone. Folding an empty
// state changes nothing, so a unit that a row does not see may be visited or not.
//
// Arithmetic is written with rounding intrinsics, so that the compiler cannot contract it differently in two kernels.
#pragma once
#include "common.cuh"

#define UNIT 128

struct AttentionArgs {
  float* out; const float* q; const void* pool; const float* sinks;
  const int* step;        // staged integers: src/device/cuda/staged-batch.ts
  const int* positions; const int* visibleEnd; const int* qoIndptr; const int* kvIndptr;
  float* partialO;        // [partial][kvHead][qTile][Dv]
  float2* partialMd;      // [partial][kvHead][qTile] (m, d)
  Operand operand;        // of `out`
  i64 outStride, qStride, pageStride, layerOffset, valueOffset;
  int planAt, kvIndicesAt;  // where step[] holds the offsets of the plan and of the page ids
  int numHeads, numKvHeads, keyDim, valueDim, keySlot, valueSlot, pageSize, pageShift, dtype, pad;  // pageShift: log2 of pageSize where the tensor-core kernels run
  float scale, softcap;
};

// The plan as staged: a header, then the item and merge columns (src/device/cuda/staged-plan.ts).
#define PLAN_HEADER 8
struct Plan {
  const int* at;
  int window, group, qTile, kvChunk, numItems, chunk, numMerges;
  __device__ __forceinline__ Plan(const AttentionArgs& a) {
    at = a.step + a.step[a.planAt];
    window = at[0]; group = at[1]; qTile = at[2]; kvChunk = at[3]; numItems = at[4]; chunk = at[5]; numMerges = at[6];
  }
  __device__ __forceinline__ int item(int column, int i) const { return at[PLAN_HEADER + column * numItems + i]; }
  __device__ __forceinline__ int row(int i) const { return item(0, i); }
  __device__ __forceinline__ int qStart(int i) const { return item(1, i); }
  __device__ __forceinline__ int kvStart(int i) const { return item(2, i); }
  __device__ __forceinline__ int kvEnd(int i) const { return item(3, i); }
  __device__ __forceinline__ int partial(int i) const { return item(4, i); }
  __device__ __forceinline__ int merge(int column, int i) const { return at[PLAN_HEADER + 5 * numItems + column * numMerges + i]; }
};

// The first key that a token sees: of a sliding window, of its own chunk (Llama 4), or of all.
__device__ __forceinline__ int visible_start(int position, const Plan& plan) {
  if (plan.window > 0) return max(0, position - plan.window + 1);
  return plan.chunk > 0 ? position - position % plan.chunk : 0;
}

// The first key that a token does not see any more: a window reaches as far ahead as back, where the batch lets it see ahead.
__device__ __forceinline__ int visible_end(const AttentionArgs& a, const Plan& plan, int token) {
  const int end = a.visibleEnd[token], position = a.positions[token];
  return plan.window > 0 && end - position > plan.window ? position + plan.window : end;
}

// A raw dot product as a score in units of log2.
__device__ __forceinline__ float score_of(float dot, float scale, float softcap) {
  if (softcap > 0.f) return __fmul_rn(__fmul_rn(softcap, tanhf(__fdiv_rn(__fmul_rn(dot, scale), softcap))), LOG2E);
  return __fmul_rn(dot, __fmul_rn(scale, LOG2E));
}

#define MINUS_INF __int_as_float(0xff800000)

// Factors that bring a running state and a unit's state to their common maximum.
struct Fold {
  float m, mine, theirs;
  __device__ __forceinline__ Fold(float running, float unit) {
    m = fmaxf(running, unit);
    mine = m == MINUS_INF ? 1.f : exp2_of(__fsub_rn(running, m));
    theirs = m == MINUS_INF ? 0.f : exp2_of(__fsub_rn(unit, m));
  }
  __device__ __forceinline__ float operator()(float running, float unit) const {
    return __fadd_rn(__fmul_rn(running, mine), __fmul_rn(unit, theirs));
  }
};

// What o is multiplied by at the end: 1/d, or with a sink in the denominator. A row that saw no key gives zeros.
__device__ __forceinline__ float final_factor(float m, float d, const float* sinks, int head) {
  if (d == 0.f) return 0.f;
  if (sinks == nullptr) return __fdiv_rn(1.f, d);
  float sink = __fmul_rn(sinks[head], LOG2E), top = fmaxf(m, sink), mine = exp2_of(__fsub_rn(m, top));
  return __fdiv_rn(mine, __fadd_rn(__fmul_rn(d, mine), exp2_of(__fsub_rn(sink, top))));
}

__device__ __forceinline__ void put_out(const AttentionArgs& a, int token, int column, float v) {
  a.out[(i64)token * a.outStride + column] = v;
  if (a.operand.data != nullptr) a.operand.data[operand_index(a.operand, token, column)] = to_bits(v, a.operand.kind);
}
