// What the attention kernels share: the step's work list, the rule of what a token sees, the algebra of softmax states, the merge.
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
  const int* positions; const int* visibleEnd;
  float* partialO;        // [partial][kvHead][stateRows][Dv]
  float2* partialMd;      // [partial][kvHead][stateRows] (m, d)
  int* arrivals;          // [split tile][kvHead] blocks that have written their states; zero between launches
  int* taken;             // of the decode kernel, then of the extend kernel: work that blocks took, blocks that ended; zero between launches
  Operand operand;        // of `out`
  i64 outStride, qStride, pageStride, layerOffset, valueOffset;
  int planAt;             // where step[] holds the offset of the plan
  int numKvHeads, keyDim, valueDim, keySlot, valueSlot, pageSize, pageShift, dtype;  // pageShift: log2 of pageSize where the tensor-core kernels run
  int isAlone;            // no other attention kernel follows this one on the same batch
  float scale, softcap;
};

// The plan as staged (src/device/cuda/staged-plan.ts): a header, then the items, those of the decode kernel first.
#define PLAN_HEADER 8
#define ITEM_INTS 16
#define ITEM_END 4  // kvEnd in an item's record
#define ITEM_LO 5
struct Plan {
  const int* at;
  int window, group, stateRows, isPerUnit, mostAhead, numItems, chunk, numDecodes;
  u32 inverse;  // 2^32 / group, rounded up; 0 of group 1
  __device__ __forceinline__ Plan(const AttentionArgs& a) {
    at = a.step + a.step[a.planAt];
    read();
  }
  // Of a header elsewhere, without the items.
  __device__ __forceinline__ Plan(const int* header) : at(header) { read(); }
  __device__ __forceinline__ void read() {
    const uint4 x = *(const uint4*)at, y = *(const uint4*)(at + 4);
    window = x.x; group = x.y; stateRows = x.z; isPerUnit = x.w & 1; mostAhead = (int)(x.w >> 1);
    numItems = y.x; chunk = y.y; numDecodes = y.z; inverse = y.w;
  }
  // A packed row's token, counted from the batch row's first; and its head, of a kv head's group.
  __device__ __forceinline__ int token_of(int packed) const { return inverse == 0 ? packed : (int)__umulhi((u32)packed, inverse); }
  __device__ __forceinline__ int head_of(int packed, int kvHead) const { return kvHead * group + packed - token_of(packed) * group; }
};

// A block's work for one kv head: keys [kvStart, kvEnd) for up to 128 packed query rows (token * G + head in group) of a batch row.
// partial -1: all keys of the tile, the output is written. Else some of them: states go to partials `partial`, `partial` + 1, ...,
// one for each unit of a decode (isPerUnit) or one in all, and the tile's last block to come folds all of its states.
struct Item {
  int token0, packed0, rows;          // the batch row's first token; the tile's first packed row and how many
  int kvStart, kvEnd, lo;             // lo: the first key that any row of the tile sees
  int pagesAt;                        // of the batch row's page ids in step[]
  int partial, tile, blocks, firstPartial, numPartials;
  int newStart;                       // the first key that this step writes
  __device__ __forceinline__ Item(const Plan& plan, int i) : Item(plan.at + PLAN_HEADER + i * ITEM_INTS) {}
  __device__ __forceinline__ Item(const int* numbers) {
    const uint4* from = (const uint4*)numbers;
    const uint4 x = from[0], y = from[1], z = from[2], w = from[3];
    token0 = x.x; packed0 = x.y; rows = x.z; kvStart = x.w;
    kvEnd = y.x; lo = y.y; pagesAt = y.z; partial = y.w;
    tile = z.x; blocks = z.y; firstPartial = z.z; numPartials = z.w; newStart = w.x;
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

// Factors that bring a running state and a unit's state to their common maximum.
struct Fold {
  float m, mine, theirs;
  __device__ __forceinline__ Fold(float running, float unit) : Fold(running, unit, fmaxf(running, unit)) {}
  __device__ __forceinline__ Fold(float running, float unit, float top) {
    m = top;
    mine = m == MINUS_INF ? 1.f : exp2_of(__fsub_rn(running, m));
    theirs = m == MINUS_INF ? 0.f : exp2_of(__fsub_rn(unit, m));
  }
  __device__ __forceinline__ float operator()(float running, float unit) const {
    return __fadd_rn(__fmul_rn(running, mine), __fmul_rn(unit, theirs));
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

// Whether this block is the last of its split tile to have written its states. Its first `threads` threads come here.
__device__ __forceinline__ bool comes_last(const AttentionArgs& a, const Item& item, int kvHead, int threads) {
  __shared__ int isLast;
  __threadfence();
  group_wait(1, threads);
  if (threadIdx.x == 0) {
    int* count = a.arrivals + item.tile * a.numKvHeads + kvHead;
    isLast = atomicAdd(count, 1) == item.blocks - 1;
    if (isLast) *count = 0;
  }
  group_wait(1, threads);
  if (isLast) __threadfence();
  return isLast;
}

// Folds row r's partial states, ascending, and writes its output: by one warp, a lane for four dims. A part's factors need the maximum of
// the parts up to it alone, so lanes find those of 32 parts at once; the sums over parts are chains whose loads do not wait for each other.
// ROOMS: sets of parts that are on their way to shared memory while one is summed (`room`, a warp's own, ROOM_BYTES each); 0: to registers.
#define MERGED 8        // parts that are asked for at once: into registers,
#define MERGED_STAGED 16  // into shared memory
#define ROOM_BYTES (MERGED_STAGED * 512)
template <int ROOMS>
__device__ __noinline__ void merge_row(const AttentionArgs& a, const Plan& plan, const Item& item, int kvHead, int r, u8* room) {
  constexpr int AT_ONCE = ROOMS > 0 ? MERGED_STAGED : MERGED;
  const int lane = threadIdx.x & 31, packed = item.packed0 + r, parts = item.numPartials;
  const int token = item.token0 + plan.token_of(packed), head = plan.head_of(packed, kvHead);
  const i64 first = state_of(a, plan, item.firstPartial, kvHead, r), stride = (i64)a.numKvHeads * plan.stateRows;
  for (int c0 = 0; c0 < a.valueDim; c0 += 128) {
    const int c = c0 + 4 * lane;
    const bool isAligned = (a.valueDim & 3) == 0;  // else dims are read one by one
    auto part_at = [&](int p) { return a.partialO + (first + min(p, parts - 1) * stride) * a.valueDim; };
    auto staged_at = [&](int p) { return room + ((p % (ROOMS > 0 ? ROOMS * AT_ONCE : 1)) * 32 + lane) * 16; };
    auto ask = [&](int p) {  // a lane copies what it will read itself
      if (p < parts) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) copy16(staged_at(p + i), part_at(p + i) + min(c, a.valueDim - 4));
      }
      copy_commit();
    };
    if (ROOMS > 0) for (int i = 0; i < ROOMS; i++) ask(i * AT_ONCE);
    float o[4] = {0.f, 0.f, 0.f, 0.f}, m = MINUS_INF, d = 0.f, top = MINUS_INF, mine = 1.f, theirs = 0.f;
    auto md_of = [&](int p) {
      const float* at = (const float*)(a.partialMd + first + p * stride);
      return p < parts ? make_float2(load_past_l1(at), load_past_l1(at + 1)) : make_float2(MINUS_INF, 0.f);
    };
    float2 md, next = md_of(lane);  // of this lane's part of 32, and of the 32 behind them
#pragma unroll 1
    for (int p = 0; p < parts; p += AT_ONCE) {
      Quad v[ROOMS > 0 ? 1 : AT_ONCE];
      if constexpr (ROOMS == 0) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
          if (isAligned) load_past_l1(v[i].v, part_at(p + i) + min(c, a.valueDim - 4));
          else for (int j = 0; j < 4; j++) v[i].v[j] = load_past_l1(part_at(p + i) + min(c + j, a.valueDim - 1));
        }
      }
      if (p % 32 == 0) {
        md = next;
        next = md_of(p + 32 + lane);
        top = fmaxf(md.x, m);
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
      if constexpr (ROOMS > 0) copy_wait<ROOMS - 1>();
#pragma unroll
      for (int i = 0; i < AT_ONCE; i++) {
        const int from = (p + i) % 32;
        const float x = __shfl_sync(0xffffffffu, mine, from), y = __shfl_sync(0xffffffffu, theirs, from);
        const float sum = __shfl_sync(0xffffffffu, md.y, from);
        const Quad part = ROOMS > 0 ? *(const Quad*)staged_at(p + i) : v[ROOMS > 0 ? 0 : i];
        if (p + i < parts) {
          d = __fadd_rn(__fmul_rn(d, x), __fmul_rn(sum, y));
#pragma unroll
          for (int j = 0; j < 4; j++) o[j] = __fadd_rn(__fmul_rn(o[j], x), __fmul_rn(part.v[j], y));
        }
      }
      if (ROOMS > 0) ask(p + ROOMS * AT_ONCE);
    }
    const float factor = final_factor(m, d, a.sinks, head);
#pragma unroll
    for (int j = 0; j < 4; j++)
      if (c + j < a.valueDim) put_out(a, token, head * a.valueDim + c + j, __fmul_rn(o[j], factor));
  }
}

// The end of a split tile's block: whoever comes last merges. The block's first `threads` threads come here; with ROOMS, each of their warps
// has that many rooms in `shared`, and value dims are a multiple of 4.
template <int ROOMS = 0>
__device__ __forceinline__ void merge_if_last(const AttentionArgs& a, const Plan& plan, const Item& item, int kvHead, int threads, u8* shared = nullptr) {
  if (!comes_last(a, item, kvHead, threads)) return;
  const int warp = threadIdx.x >> 5;
#pragma unroll 1
  for (int r = warp; r < item.rows; r += threads >> 5) merge_row<ROOMS>(a, plan, item, kvHead, r, shared + warp * ROOMS * ROOM_BYTES);
}
