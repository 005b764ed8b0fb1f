// Attention over latent pages (DeepSeek's: one key of 576 numbers for all heads, whose first 512 are its value) on mma.sync, where a block
// has 192 KB of shared memory. Decodes and prompts alike: the packed rows of a token are its heads.
//
// A block of 8 warps takes 32 packed rows of an item (blockIdx.y: which 32): two sets of four warps, 16 rows each. Of a unit of 128 keys a warp
// computes the scores of 16 keys of either half, and adds up a quarter of the values' dims over all keys; probabilities go from warp to warp
// through shared memory. A half of the unit's keys is also its values: it is read once, and the next unit's arrives when its values are added.
// Units and chunks are summed as everywhere (attention.cuh); a split row writes a state for each chunk, so its bits do not depend on the split.
// Traffic: 1,152 bytes a key for each 32 packed rows, from L2 mostly. FLOPs: 2 * rows * keys * (576 + 512).
#pragma once
#include "attention-mma.cuh"

#define LATENT_ROWS 32
#define LATENT_THREADS 256

// 64 keys from `base` on into rows of a tile, by all threads, 8 keys a warp, which lie in page `page`; keys outside [lo, hi) become zeros: their slots may hold anything.
template <int DK, int KIND>
__device__ __forceinline__ void copy_64_keys(u8* tile, const HeadPages<KIND>& from, int page, int base, int lo, int hi) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, key = base + warp * 8;
  const u16* source = from.at(page, key);
#pragma unroll 6
  for (int j = 0; j < DK / 32; j++) {
    const int at = j * 32 + lane, row = at & 7;
    const bool isWanted = key + row >= lo && key + row < hi;
    copy16(tile + warp * DK * 16 + at * 16, source + (isWanted ? at * 8 : 0), isWanted);
  }
}

template <int KIND, int DK, int DV>
__device__ __forceinline__ void latent(const AttentionArgs& a) {
  constexpr int HALF = UNIT / 2, HALF_BYTES = HALF * DK * 2, GROUP = DK * 16;  // of 8 keys
  DYNAMIC_SHARED(shared);
  u8* const halves = shared;                               // [2][HALF][DK]
  u8* const qs = halves + 2 * HALF_BYTES;                  // [2][16][DK]
  u32* const ps = (u32*)(qs + LATENT_ROWS * DK * 2);       // [2][UNIT / 16][32 lanes][4]
  float* const tops = (float*)(ps + 2 * UNIT / 16 * 128);  // [2][4 warps][16 rows]
  float* const sums = tops + 2 * 4 * 16;
  const Plan plan(a);
  const int i = blockIdx.x;
  if (i >= plan.numItems) return;
  const Item item(plan, i);
  if ((int)blockIdx.y * LATENT_ROWS >= item.rows) return;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, set = warp >> 2, quarter = warp & 3, g = lane >> 2;
  const int first = blockIdx.y * LATENT_ROWS + set * 16;
  const bool isActive = first < item.rows, isPerChunk = item.partial >= 0 && plan.isPerChunk;
  const HeadPages<KIND> keys(a, 0, false);
  const int* const pages = a.step + item.pagesAt;
  const int lo = item.lo, hi = item.kvEnd;
  // Page ids are read a unit ahead.
  auto page_of = [&](int half, int unit) {
    const int key = unit + half * HALF + warp * 8;
    return key + 8 > lo && key < hi ? pages[key >> a.pageShift] : 0;
  };
  int ids[2];
  auto load = [&](int half, int unit) {
    copy_64_keys<DK, KIND>(halves + half * HALF_BYTES, keys, ids[half], unit + half * HALF, lo, hi);
    ids[half] = page_of(half, unit + UNIT);
    copy_commit();
  };
  const int from = item.kvStart + max(0, lo - item.kvStart) / UNIT * UNIT;
  for (int half = 0; half < 2; half++) ids[half] = page_of(half, from);
  if (from < hi) { load(0, from); load(1, from); }
  for (int s = 0; s < 2; s++) load_q<KIND, DK>(qs + s * 16 * DK * 2, a, plan, item, 0, blockIdx.y * LATENT_ROWS + s * 16, threadIdx.x, LATENT_THREADS);
  const Rows rows = rows_of(a, plan, item, first);

  constexpr int TILES = DV / 4 / 8;  // of a warp's dims
  RunningMd running;
  alignas(16) float total[TILES][4];
  float o[TILES][4], m[2] = {MINUS_INF, MINUS_INF}, d[2] = {0.f, 0.f};
  clear_rows<TILES>(total);
  clear_rows<TILES>(o);
  const int column = quarter * (DV / 4) + 2 * (lane & 3);
  for (int unit = from; unit < hi; unit += UNIT) {
    const bool isLast = unit + UNIT >= hi;
    float s[4][4];
    clear_rows<4>(s);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      if (half == 0) copy_wait<1>(); else copy_wait<0>();
      __syncthreads();
      if (isActive) score_keys<KIND, DK, 16>(s + 2 * half, qs + set * 16 * DK * 2, halves + half * HALF_BYTES, quarter * 16, GROUP, DK / 16);
    }
    float top[2], other[2], factor[2], sum[2];
    scores_of<2>(s, rows, unit + quarter * 16, a.scale, a.softcap, top);
    scores_of<2>(s + 2, rows, unit + HALF + quarter * 16, a.scale, a.softcap, other);
#pragma unroll
    for (int r = 0; r < 2; r++) {
      top[r] = quad_max(fmaxf(top[r], other[r]));
      if ((lane & 3) == 0) tops[(set * 4 + quarter) * 16 + g + 8 * r] = top[r];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const float was = m[r];
      for (int w = 0; w < 4; w++) m[r] = fmaxf(m[r], tops[(set * 4 + w) * 16 + g + 8 * r]);
      factor[r] = rescale(was, m[r]);
    }
    probabilities_of(s, score_factor(a.scale, a.softcap), m, sum);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      u32 p[4];
      probability_fragment<KIND>(p, s + 2 * half);
      *(uint4*)(ps + ((set * (UNIT / 16) + half * 4 + quarter) * 32 + lane) * 4) = {p[0], p[1], p[2], p[3]};
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
      sum[r] = quad_sum(sum[r]);
      if ((lane & 3) == 0) sums[(set * 4 + quarter) * 16 + g + 8 * r] = sum[r];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const float* of = sums + set * 64 + g + 8 * r;
      d[r] = __fadd_rn(__fmul_rn(d[r], factor[r]), __fadd_rn(__fadd_rn(__fadd_rn(of[0], of[16]), of[32]), of[48]));
    }
    if (isActive) scale_rows<TILES>(o, factor);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      if (isActive) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
          const uint4 bits = *(const uint4*)(ps + ((set * (UNIT / 16) + half * 4 + k) * 32 + lane) * 4);
          const u32 p[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
          for (int n = 0; n < TILES; n += 2) add_values<KIND>(o + n, p, halves + half * HALF_BYTES, k * 16, quarter * (DV / 32) + n, GROUP);
        }
      }
      __syncthreads();  // these keys, of the last half also the probabilities, are not needed any more
      if (!isLast) load(half, unit + UNIT);
    }
    if (isLast || plan.ends_chunk(unit + UNIT)) {
      if (!isPerChunk) fold_chunk<TILES>(total, running, o, m, d);
      else if (isActive) put_state<TILES>(a, plan, item, 0, item.partial + plan.chunk_of(unit, item.kvStart), first, o, m, d, column, quarter == 0 && (lane & 3) == 0);
      clear_rows<TILES>(o);
      m[0] = m[1] = MINUS_INF;
      d[0] = d[1] = 0.f;
    }
  }
  copy_wait<0>();
  if (!isActive) return;
  if (item.partial < 0) put_rows<TILES, false>(a, plan, item, 0, first, total, running.m, running.d, column);
  else if (!isPerChunk) put_state<TILES>(a, plan, item, 0, item.partial, first, total, running.m, running.d, column, quarter == 0 && (lane & 3) == 0);
}

#define LATENT(PAGES, name, DK, DV) \
  KERNEL(LATENT_THREADS, latent_##name##_##DK##_##DV, AttentionArgs) { latent<PAGES, DK, DV>(a); }
