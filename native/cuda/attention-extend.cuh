// Attention of tiles with more than 16 packed query rows on mma.sync: prompts on GPUs before Hopper, and the head sizes that
// attention-wgmma.cu does not take.
//
// A block of 4 warps takes 64 packed rows of an item for one kv head (blockIdx.y: which 64); a warp has 16 rows and their running
// state in registers (o, DV/2 numbers per lane; m, d). Per unit of 128 keys: K arrives while the values of the unit before are added,
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
  Item item(plan, i);
  item.blocks *= (item.rows + 63) / 64;
  const int first = blockIdx.y * 64 + warp * 16;
  if (blockIdx.y * 64 >= item.rows) return;
  const int lo = item.lo, hi = item.kvEnd;
  load_q<KIND, DK>(qs + warp * 16 * DK * 2, a, plan, item, kvHead, first, lane, 32);
  const Rows rows = rows_of(a, plan, item, first);
  const int warpTo = __reduce_max_sync(0xffffffffu, max(rows.to[0], rows.to[1]));
  const int steps = a.keyDim / 16;
  const HeadPages<PAGES> keys(a, kvHead, false), values(a, kvHead, true);
  const int* pages = a.step + item.pagesAt;

  float o[DV / 8][4], m[2] = {MINUS_INF, MINUS_INF}, d[2] = {0.f, 0.f};
#pragma unroll
  for (int n = 0; n < DV / 8; n++) for (int j = 0; j < 4; j++) o[n][j] = 0.f;

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
    float s[UNIT / 8][4], um[2], ud[2];
    if (isSeen) {
#pragma unroll
      for (int n = 0; n < UNIT / 8; n++) for (int j = 0; j < 4; j++) s[n][j] = 0.f;
#pragma unroll
      for (int n = 0; n < UNIT / 64; n++)
        if (unit + n * 64 < warpTo) score_keys<KIND, DK, 64>(s + 8 * n, qs + warp * 16 * DK * 2, ks, n * 64, DK * 16, steps);
    }
    __syncthreads();
    if (!IS_FP8) { if (unit + UNIT < hi) load_k(unit + UNIT, nextPage); else copy_commit(); }
    if (isSeen) softmax_unit(s, rows, unit, a.scale, a.softcap, um, ud);
    copy_wait<1>();   // V is here
    __syncthreads();
    if constexpr (IS_FP8) {
      widen_codes<DV, true, UNIT, 128>(vs, valueCodes, threadIdx.x, a.valueDim, unit, lo, hi);
      __syncthreads();
      if (unit + UNIT < hi) load_v(unit + UNIT, nextPage); else copy_commit();
    }
    if (isSeen) {
      const Fold fold0(m[0], um[0]), fold1(m[1], um[1]);
      d[0] = fold0(d[0], ud[0]); d[1] = fold1(d[1], ud[1]);
      m[0] = fold0.m; m[1] = fold1.m;
      u32 p[UNIT / 16][4];
#pragma unroll
      for (int n = 0; n < UNIT / 16; n++) probability_fragment<KIND>(p[n], s + 2 * n);
      // 64 dims at a time: eight sums that do not wait for one another.
#pragma unroll
      for (int c = 0; c < DV / 64; c++) {
        float sum[8][4];
#pragma unroll
        for (int h = 0; h < 8; h++) for (int j = 0; j < 4; j++) sum[h][j] = 0.f;
#pragma unroll
        for (int n = 0; n < UNIT / 16; n++) {
          if (unit + n * 16 < warpTo) {
#pragma unroll
            for (int h = 0; h < 4; h++) add_values<KIND>(sum + 2 * h, p[n], vs, n * 16, 8 * c + 2 * h, DV * 16);
          }
        }
#pragma unroll
        for (int h = 0; h < 8; h++) {
          o[8 * c + h][0] = fold0(o[8 * c + h][0], sum[h][0]);
          o[8 * c + h][1] = fold0(o[8 * c + h][1], sum[h][1]);
          o[8 * c + h][2] = fold1(o[8 * c + h][2], sum[h][2]);
          o[8 * c + h][3] = fold1(o[8 * c + h][3], sum[h][3]);
        }
      }
    }
    __syncthreads();
    if (!IS_FP8) { if (unit + UNIT < hi) load_v(unit + UNIT, nextPage); else copy_commit(); }
  }
  copy_wait<0>();
  if (item.partial < 0) {
    put_rows<DV / 8, false>(a, plan, item, kvHead, first, o, m, d, 2 * (lane & 3));
    return;
  }
  put_state<DV / 8>(a, plan, item, kvHead, item.partial, first, o, m, d, 2 * (lane & 3), (lane & 3) == 0);
  merge_if_last(a, plan, item, kvHead, 128);
}

// The forms of one kind of pages.
#define EXTEND(PAGES, name, DK, DV) \
  KERNEL(128, extend_##name##_##DK##_##DV, AttentionArgs) { extend<PAGES, DK, DV>(a); }
#define EXTENDS(PAGES, name) \
  EXTEND(PAGES, name, 64, 64) EXTEND(PAGES, name, 128, 128) EXTEND(PAGES, name, 192, 128) EXTEND(PAGES, name, 256, 256)
