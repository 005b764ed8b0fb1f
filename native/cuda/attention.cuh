// What the attention kernels share: the step's work list, the rule of what a token sees, the algebra of softmax states.
//
// A chunk is keys that begin at an absolute multiple of its length (the plan's kvChunk, a power of two). It is summed from an empty state
// (o, m, d), a unit of UNIT keys after the other: m becomes the highest score so far, o and d are scaled to it, then d += sum 2^(s-m) and o += sum
// 2^(s-m) v, the products one chain over the chunk's keys. Chunk states are folded left to right. That is the whole recipe, for decodes and
// for prompts, split or not: a row's bits depend on its position alone. A unit that a row does not see leaves its state as it is, and so does
// folding an empty state, so such a unit may be visited or not. A split row's states are those of chunks: one for each unit would be as
// many bytes as the keys of 128 packed rows.
//
// Arithmetic is written with rounding intrinsics, so that the compiler cannot contract it differently in two kernels.
#pragma once
#include "common.cuh"

#define UNIT 128

struct AttentionArgs {
  float* out; const float* q; const void* pool; const float* sinks;
  const int* step;        // staged integers: src/device/cuda/staged-batch.ts
  const int* positions; const int* visibleEnd;
  float* partialO;        // [partial][kvHead][stateRows][Dv]: of chunks
  float2* partialMd;      // [partial][kvHead][stateRows] (m, d)
  int* taken;             // of the decode kernel, then of the extend kernel: work that blocks took, blocks that ended; zero between launches
  Operand operand;        // of `out`
  i64 outStride, qStride, pageStride, layerOffset, valueOffset;
  int planAt;             // where step[] holds the offset of the plan
  int numKvHeads, keyDim, valueDim, keySlot, valueSlot, pageSize, pageShift, dtype;  // pageShift: log2 of pageSize where the tensor-core kernels run
  int isAlone;            // no other attention kernel follows this one on the same batch
  float scale, softcap;
};

// The plan as staged (src/device/cuda/staged-plan.ts): a header, then the items, those of the decode kernel first; then an item of each split
// tile, for attention-merge.cu.
#define PLAN_HEADER 12
#define PLAN_MERGES 8  // split tiles, in the header
#define PLAN_CHUNK 9   // log2 of the keys of a chunk
#define ITEM_INTS 12
#define ITEM_END 4  // kvEnd in an item's record
#define ITEM_LO 5
#define ITEM_PARTIAL 7
struct Plan {
  const int* at;
  int window, group, stateRows, isPerChunk, mostAhead, numItems, chunk, numDecodes, chunkShift;
  u32 inverse;  // 2^32 / group, rounded up; 0 of group 1
  __device__ __forceinline__ Plan(const AttentionArgs& a) {
    at = a.step + a.step[a.planAt];
    read();
  }
  // Of a header elsewhere, without the items.
  __device__ __forceinline__ Plan(const int* header) : at(header) { read(); }
  __device__ __forceinline__ void read() {
    const uint4 x = *(const uint4*)at, y = *(const uint4*)(at + 4);
    window = x.x; group = x.y; stateRows = x.z; isPerChunk = x.w & 1; mostAhead = (int)(x.w >> 1);
    numItems = y.x; chunk = y.y; numDecodes = y.z; inverse = y.w;
    chunkShift = at[PLAN_CHUNK];
  }
  // Whether a unit that ends at this key is its chunk's last; a unit's chunk, counted from the item's first.
  __device__ __forceinline__ bool ends_chunk(int end) const { return (end & ((1 << chunkShift) - 1)) == 0; }
  __device__ __forceinline__ int chunk_of(int unit, int kvStart) const { return (unit - kvStart) >> chunkShift; }
  // A packed row's token, counted from the batch row's first; and its head, of a kv head's group.
  __device__ __forceinline__ int token_of(int packed) const { return inverse == 0 ? packed : (int)__umulhi((u32)packed, inverse); }
  __device__ __forceinline__ int head_of(int packed, int kvHead) const { return kvHead * group + packed - token_of(packed) * group; }
};

// A block's work for one kv head: keys [kvStart, kvEnd) for up to 128 packed query rows (token * G + head in group) of a batch row.
// partial -1: all keys of the tile, the output is written. Else some of them: states go to partials `partial`, `partial` + 1, ...,
// one for each chunk (isPerChunk) or one in all, and attention-merge.cu folds the tile's.
struct Item {
  int token0, packed0, rows;          // the batch row's first token; the tile's first packed row and how many
  int kvStart, kvEnd, lo;             // lo: the first key that any row of the tile sees
  int pagesAt;                        // of the batch row's page ids in step[]
  int partial, firstPartial, numPartials;
  int newStart;                       // the first key that this step writes
  __device__ __forceinline__ Item(const Plan& plan, int i) : Item(plan.at + PLAN_HEADER + i * ITEM_INTS) {}
  __device__ __forceinline__ Item(const int* numbers) {
    const uint4* from = (const uint4*)numbers;
    const uint4 x = from[0], y = from[1], z = from[2];
    token0 = x.x; packed0 = x.y; rows = x.z; kvStart = x.w;
    kvEnd = y.x; lo = y.y; pagesAt = y.z; partial = y.w;
    firstPartial = z.x; numPartials = z.y; newStart = z.z;
  }
};

// The first key that a token sees: of a sliding window, of its own chunk (Llama 4), or of all.
__device__ __forceinline__ int visible_start(int position, const Plan& plan) {
  if (plan.window > 0) return max(0, position - plan.window + 1);
  return plan.chunk > 0 ? position - position % plan.chunk : 0;
}

// The first key that a token does not see any more.
__device__ __forceinline__ int visible_end(const AttentionArgs& a, const Plan& plan, int token) {
  const int end = a.visibleEnd[token], position = a.positions[token];
  return end - position > plan.mostAhead ? position + plan.mostAhead : end;
}

// A raw dot product as a score in units of log2. What is seldom run or run once is not inlined: the kernels' code is fetched anew by
// every launch, and a short launch waits for it.
__device__ __noinline__ float capped_score(float dot, float scale, float softcap) {
  return __fmul_rn(__fmul_rn(softcap, tanhf(__fdiv_rn(__fmul_rn(dot, scale), softcap))), LOG2E);
}
__device__ __forceinline__ float score_of(float dot, float scale, float softcap) {
  return softcap > 0.f ? capped_score(dot, scale, softcap) : __fmul_rn(dot, __fmul_rn(scale, LOG2E));
}

#define MINUS_INF __int_as_float(0xff800000)

// What a chunk's o and d are multiplied by when its maximum rises to m.
__device__ __forceinline__ float rescale(float was, float m) { return m == MINUS_INF ? 1.f : exp2_of(__fsub_rn(was, m)); }

// Factors that bring a running state and a chunk's state to their common maximum.
struct Fold {
  float m, mine, theirs;
  __device__ __forceinline__ Fold(float running, float chunk) : Fold(running, chunk, fmaxf(running, chunk)) {}
  __device__ __forceinline__ Fold(float running, float chunk, float top) {
    m = top;
    mine = m == MINUS_INF ? 1.f : exp2_of(__fsub_rn(running, m));
    theirs = m == MINUS_INF ? 0.f : exp2_of(__fsub_rn(chunk, m));
  }
  __device__ __forceinline__ float operator()(float running, float chunk) const {
    return __fadd_rn(__fmul_rn(running, mine), __fmul_rn(chunk, theirs));
  }
};

// What o is multiplied by at the end: 1/d, or with a sink in the denominator. A row that saw no key gives zeros.
__device__ __noinline__ float final_factor(float m, float d, const float* sinks, int head) {
  if (d == 0.f) return 0.f;
  if (sinks == nullptr) return __fdiv_rn(1.f, d);
  float sink = __fmul_rn(sinks[head], LOG2E), top = fmaxf(m, sink), mine = exp2_of(__fsub_rn(m, top));
  return __fdiv_rn(mine, __fadd_rn(__fmul_rn(d, mine), exp2_of(__fsub_rn(sink, top))));
}

__device__ __noinline__ void put_out(const AttentionArgs& a, int token, int column, float v) {
  a.out[(i64)token * a.outStride + column] = v;
  if (a.operand.data != nullptr) a.operand.data[operand_index(a.operand, token, column)] = to_bits(v, a.operand.kind);
}
__device__ __noinline__ void put_pair(const Operand& o, int token, int column, float v, float w) { operand_put2(o, token, column, v, w); }

__device__ __forceinline__ i64 state_of(const AttentionArgs& a, const Plan& plan, int partial, int kvHead, int r) {
  return ((i64)partial * a.numKvHeads + kvHead) * plan.stateRows + r;
}
