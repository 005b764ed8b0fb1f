// Attention of tiles with more than 16 packed query rows on mma.sync: prompts on GPUs before Hopper, and the head sizes that
// attention-wgmma.cu does not take.
//
// A block of 4 warps takes 64 packed rows of an item for one kv head (blockIdx.y: which 64); a warp has 16 rows, and the state of their chunk
// in registers (o, DV/2 numbers per lane; m, d), with the running state of heads up to 128, that of others in local memory. Per unit of 128 keys: K arrives while the values of the unit before are added,
// V while scores are computed: one buffer each, two blocks per SM. fp8 pages arrive as they are, in two buffers of codes, and take turns in
// one tile of bf16.
// Traffic: K and V of the item's keys once per 64 packed rows, from L2 mostly. FLOPs: 4 * rows * keys * D.
#pragma once
#include "attention-fp8.cuh"

// 32 keys' vectors from `base` on into rows of a tile, by one warp; lane h < 4 knows the page of the h-th 8 keys. Keys outside
// [lo, hi) and dims beyond the head's become zeros: their slots may hold anything.
template <int DIM, int PAGES>
__device__ __forceinline__ void copy_32_keys(u8* tile, const HeadPages<PAGES>& from, int pageIds, int base, int lo, int hi) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int group = 0; group < 4; group++) {
    const int key = base + group * 8;
    const u16* source = from.at(__shfl_sync(0xffffffffu, pageIds, group), key);
#pragma unroll
    for (int j = 0; j < DIM / 32; j++) {
      const int at = j * 32 + lane, row = at & 7;
      const bool isWanted = key + row >= lo && key + row < hi && at < from.dim;
      copy16(tile + group * DIM * 16 + at * 16, source + (isWanted ? at * 8 : 0), isWanted);
    }
  }
}

// The same of fp8 pages: codes and factors as they lie, 8 keys after the other. What is not seen is left out by widen_codes.
__device__ __forceinline__ void copy_32_codes(u8* codes, const HeadPages<KIND_FP8>& from, int pageIds, int base, int lo, int hi) {
  const int lane = threadIdx.x & 31, pieces = from.slot(from.dim) * 8 / from.PIECE;  // of 8 keys
#pragma unroll
  for (int group = 0; group < 4; group++) {
    const int key = base + group * 8;
    const u8* source = from.at(__shfl_sync(0xffffffffu, pageIds, group), key);
    if (key + 8 > lo && key < hi)
      for (int at = lane; at < pieces; at += 32) copy16(codes + (group * pieces + at) * 16, source + at * 16);
  }
}

template <int PAGES, int DK, int DV>
__device__ void extend(const AttentionArgs& a) {
  constexpr bool IS_FP8 = PAGES == KIND_FP8;
  constexpr int KIND = KIND_OF(PAGES), DIM = DK > DV ? DK : DV;
  DYNAMIC_SHARED(shared);
  u8* qs = shared;                           // [4 warps][16][DK]
  u8* ks = qs + 64 * DK * 2;                 // [UNIT][DK]
  u8* vs = IS_FP8 ? ks : ks + UNIT * DK * 2; // [UNIT][DV]
  u8* keyCodes = ks + UNIT * DIM * 2;        // fp8: [UNIT][DK + 2]
  u8* valueCodes = keyCodes + UNIT * (DK + 2);
  const Plan plan(a);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int i = plan.numDecodes + blockIdx.x / a.numKvHeads, kvHead = blockIdx.x % a.numKvHeads;
  if (i >= plan.numItems) return;
  const Item item(plan, i);
  const int first = blockIdx.y * 64 + warp * 16;
  if (blockIdx.y * 64 >= item.rows) return;
  const int lo = item.lo, hi = item.kvEnd;
  load_q<KIND, DK>(qs + warp * 16 * DK * 2, a, plan, item, kvHead, first, lane, 32);
  const Rows rows = rows_of(a, plan, item, first);
  const int warpTo = __reduce_max_sync(0xffffffffu, max(rows.to[0], rows.to[1]));
  const int steps = a.keyDim / 16;
  const HeadPages<PAGES> keys(a, kvHead, false), values(a, kvHead, true);
  const int* pages = a.step + item.pagesAt;

  const bool isPerChunk = item.partial >= 0 && plan.isPerChunk;
  RunningMd running;
  alignas(16) float room[DV / 8][4], (*total)[4] = room;
  float o[DV / 8][4], m[2] = {MINUS_INF, MINUS_INF}, d[2] = {0.f, 0.f};
  if (DV > 128) keep_in_memory(total);  // there are registers for one of them
  clear_rows<DV / 8>(o);
  clear_rows<DV / 8>(total);

  const int from = item.kvStart + max(0, lo - item.kvStart) / UNIT * UNIT;
  // Page ids are read a unit ahead (warps copy 32 keys of a unit each).
  auto pages_of = [&](int unit) {
    const int key = unit + warp * 32 + (lane & 3) * 8;
    return key + 8 > lo && key < hi ? pages[key >> a.pageShift] : 0;
  };
  int page = from < hi ? pages_of(from) : 0;
  auto load_k = [&](int unit, int ids) {
    if constexpr (IS_FP8) copy_32_codes(keyCodes + warp * 32 * keys.slot(a.keyDim), keys, ids, unit + warp * 32, lo, hi);
    else copy_32_keys<DK>(ks + warp * 32 * DK * 2, keys, ids, unit + warp * 32, lo, hi);
    copy_commit();
  };
  auto load_v = [&](int unit, int ids) {
    if constexpr (IS_FP8) copy_32_codes(valueCodes + warp * 32 * values.slot(a.valueDim), values, ids, unit + warp * 32, lo, hi);
    else copy_32_keys<DV>(vs + warp * 32 * DV * 2, values, ids, unit + warp * 32, lo, hi);
    copy_commit();
  };
  if (from < hi) { load_k(from, page); load_v(from, page); }
  for (int unit = from; unit < hi; unit += UNIT) {
    const int nextPage = unit + UNIT < hi ? pages_of(unit + UNIT) : 0;
    copy_wait<1>();   // K is here, V may be on its way
    __syncthreads();
    if constexpr (IS_FP8) {
      widen_codes<DK, false, UNIT, 128>(ks, keyCodes, threadIdx.x, a.keyDim, unit, lo, hi);
      __syncthreads();
      if (unit + UNIT < hi) load_k(unit + UNIT, nextPage); else copy_commit();
    }
    const bool isSeen = unit < warpTo;
    float s[UNIT / 8][4], factor[2];
    if (isSeen) {
      clear_rows<UNIT / 8>(s);
#pragma unroll
      for (int n = 0; n < UNIT / 64; n++)
        if (unit + n * 64 < warpTo) score_keys<KIND, DK, 64>(s + 8 * n, qs + warp * 16 * DK * 2, ks, n * 64, DK * 16, steps);
    }
    __syncthreads();
    if (!IS_FP8) { if (unit + UNIT < hi) load_k(unit + UNIT, nextPage); else copy_commit(); }
    if (isSeen) softmax_unit(s, rows, unit, a.scale, a.softcap, m, d, factor);
    copy_wait<1>();   // V is here
    __syncthreads();
    if constexpr (IS_FP8) {
      widen_codes<DV, true, UNIT, 128>(vs, valueCodes, threadIdx.x, a.valueDim, unit, lo, hi);
      __syncthreads();
      if (unit + UNIT < hi) load_v(unit + UNIT, nextPage); else copy_commit();
    }
    if (isSeen) {
      u32 p[UNIT / 16][4];
#pragma unroll
      for (int n = 0; n < UNIT / 16; n++) probability_fragment<KIND>(p[n], s + 2 * n);
      scale_rows<DV / 8>(o, factor);
      // 64 dims at a time: eight sums that do not wait for one another.
#pragma unroll
      for (int c = 0; c < DV / 64; c++) {
#pragma unroll
        for (int n = 0; n < UNIT / 16; n++) {
          if (unit + n * 16 < warpTo) {
#pragma unroll
            for (int h = 0; h < 4; h++) add_values<KIND>(o + 8 * c + 2 * h, p[n], vs, n * 16, 8 * c + 2 * h, DV * 16);
          }
        }
      }
    }
    if (unit + UNIT >= hi || plan.ends_chunk(unit + UNIT)) {
      if (isPerChunk)
        put_state<DV / 8>(a, plan, item, kvHead, item.partial + plan.chunk_of(unit, item.kvStart), first, o, m, d, 2 * (lane & 3), (lane & 3) == 0);
      else fold_chunk<DV / 8>(total, running, o, m, d);
      clear_rows<DV / 8>(o);
      m[0] = m[1] = MINUS_INF;
      d[0] = d[1] = 0.f;
    }
    __syncthreads();
    if (!IS_FP8) { if (unit + UNIT < hi) load_v(unit + UNIT, nextPage); else copy_commit(); }
  }
  copy_wait<0>();
  if (item.partial < 0) put_rows<DV / 8, false>(a, plan, item, kvHead, first, total, running.m, running.d, 2 * (lane & 3));
  else if (!isPerChunk)
    put_state<DV / 8>(a, plan, item, kvHead, item.partial, first, total, running.m, running.d, 2 * (lane & 3), (lane & 3) == 0);
}

// The forms of one kind of pages.
#define EXTEND(PAGES, name, DK, DV) \
  KERNEL(128, extend_##name##_##DK##_##DV, AttentionArgs) { extend<PAGES, DK, DV>(a); }
#define EXTENDS(PAGES, name) \
  EXTEND(PAGES, name, 64, 64) EXTEND(PAGES, name, 128, 128) EXTEND(PAGES, name, 192, 128) EXTEND(PAGES, name, 256, 256)
