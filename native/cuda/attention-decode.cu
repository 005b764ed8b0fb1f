// Attention of tiles with at most 16 packed query rows: decodes, with the GQA group as the rows of one tensor-core tile. Bound by
// reading K and V.
//
// A block of 4 warps takes an item for one kv head and walks its units together, so that a single unit is done as fast as a
// multiprocessor can and a long row streams. Per unit: warp w scores keys 32w..32w+31; the warps' maxima meet in shared memory;
// probabilities go there as the fragments they are; then warp w sums all keys for its quarter of the value's dims. Chains over dims
// and over keys are those of the extend kernels, bit for bit.
// K and V of a unit are a slot each of a ring: with 96 KB a block and two blocks, 128 KB and more are on their way per SM. From Hopper
// on, warp 0 asks for pages by bulk copies (ids read a unit ahead); before, all threads copy.
#include "attention-bulk.cuh"

#define WARPS 4

template <int KIND, int DK, int DV, int SLOTS, bool IS_BULK>
__device__ void decode(const AttentionArgs& a) {
  constexpr int SLOT = UNIT * (DK > DV ? DK : DV) * 2, TILES = DV / (8 * WARPS);
  DYNAMIC_SHARED(shared);
  u8* qs = shared + SLOTS * SLOT;                       // [16][DK]
  uint4* ps = (uint4*)(qs + 16 * DK * 2);               // [UNIT / 16][lane]: A fragments of the probabilities
  float2* sums = (float2*)(ps + UNIT / 16 * 32);        // [WARPS][lane]
  float* tops = (float*)(sums + WARPS * 32);            // [WARPS][16]
  __shared__ u64 full[SLOTS];
  __shared__ int ids[32];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, q = lane & 3;
  if (IS_BULK && threadIdx.x == 0) {
    for (int s = 0; s < SLOTS; s++) barrier_init(&full[s], 1);
    barrier_init_done();
  }
  if (a.isAlone) let_others_begin();
  // The plan, page ids and the keys of earlier steps were there before the kernels ahead began: only what this step writes is waited for.
  if (!IS_BULK) wait_for_others();
  const Plan plan(a);
  const int i = blockIdx.x / a.numKvHeads, kvHead = blockIdx.x % a.numKvHeads;
  if (i >= plan.numDecodes) return;
  const Item item(plan, i);
  const int lo = item.lo, hi = item.kvEnd;
  const bool isPerUnit = item.partial >= 0 && plan.isPerUnit;
  const int first = item.kvStart + max(0, lo - item.kvStart) / UNIT * UNIT;
  const int units = max(0, (hi - first + UNIT - 1) / UNIT);
  const int* pages = a.step + item.pagesAt;
  const HeadPages keys(a, kvHead, false), values(a, kvHead, true);
  if (IS_BULK) __syncthreads();

  // Chunk 2u is the keys of unit u, 2u + 1 its values; chunk c lies in slot c % SLOTS.
  const UnitPages unitPages(a, item, ids);
  int page = -1, nextPage = IS_BULK && warp == 0 ? unitPages.of(first) : -1;
  auto unit_of = [&](int c) { return first + (c >> 1) * UNIT; };
  auto ask = [&](int c, int id) {
    HeadPages from = keys;
    if (c & 1) from = values;
    unitPages.copy<true>(shared + c % SLOTS * SLOT, from, unit_of(c), id, &full[c % SLOTS]);
  };
  auto expect = [&](int c) {
    if ((c & 1) == 0) {
      page = nextPage;
      nextPage = unitPages.of(unit_of(c) + UNIT);
    }
    unitPages.expect(&full[c % SLOTS], page, (c & 1) ? a.valueDim : a.keyDim);
  };
  auto fill = [&](int c) {
    if (IS_BULK) {
      if (warp != 0 || c >= 2 * units) return;
      expect(c);
      ask(c, page);
    } else {
      HeadPages from = keys;
      if (c & 1) from = values;
      for (int at = threadIdx.x; at < UNIT / 8 * from.dim && c < 2 * units; at += 32 * WARPS) {
        const int key = unit_of(c) + at / from.dim * 8;
        if (key < hi && key + 8 > lo) copy16(shared + c % SLOTS * SLOT + at * 16, from.at(pages[key >> a.pageShift], key) + at % from.dim * 8);
      }
      copy_commit();
    }
  };
  // Keys are waited for with SLOTS - 2 later chunks asked for, values with SLOTS - 1.
  auto wait = [&](int c) {
    if (IS_BULK) {
      barrier_wait(&full[c % SLOTS], c / SLOTS & 1);
    } else {
      if (c & 1) copy_wait<SLOTS - 1>();
      else copy_wait<SLOTS - 2>();
      __syncthreads();
    }
  };
  if (IS_BULK) {
    auto isNew = [&](int c) { return unit_of(c) + (lane + 1) * unitPages.copyKeys > item.newStart; };
    if (warp == 0) {
#pragma unroll 1
      for (int c = 0; c < SLOTS && c < 2 * units; c++) {
        expect(c);
        ask(c, isNew(c) ? -1 : page);
      }
    }
    wait_for_others();
    if (warp == 0) {
#pragma unroll 1
      for (int c = 0; c < SLOTS && c < 2 * units; c++)
        if (unit_of(c) + UNIT > item.newStart) ask(c, isNew(c) ? unitPages.of(unit_of(c)) : -1);
    }
  } else {
#pragma unroll
    for (int c = 0; c < SLOTS; c++) fill(c);
  }
  if (!a.isAlone) let_others_begin();  // the extend kernel relies on this one's having waited
  load_q<KIND, DK>(qs, a, plan, item, kvHead, 0, threadIdx.x, 32 * WARPS);
  const Rows rows = rows_of(a, plan, item, 0);
  const int steps = a.keyDim / 16, keyGroup = a.keyDim * 16, valueGroup = a.valueDim * 16, column0 = warp * (DV / WARPS);
  __syncthreads();

  float total[TILES][4], m[2] = {MINUS_INF, MINUS_INF}, d[2] = {0.f, 0.f};
#pragma unroll
  for (int n = 0; n < TILES; n++) for (int j = 0; j < 4; j++) total[n][j] = 0.f;
  for (int u = 0; u < units; u++) {
    const int unit = first + u * UNIT, c = 2 * u, mine = unit + warp * 32;
    float s[4][4], um[2], ud[2];
#pragma unroll
    for (int n = 0; n < 4; n++) for (int j = 0; j < 4; j++) s[n][j] = 0.f;
    wait(c);
    if (mine < hi && mine + 32 > lo) score_keys<KIND, DK, 32>(s, qs, shared + c % SLOTS * SLOT, warp * 32, keyGroup, steps);
    scores_of<4>(s, rows, mine, a.scale, a.softcap, um);
#pragma unroll
    for (int r = 0; r < 2; r++) {
      um[r] = quad_max(um[r]);
      if (q == 0) tops[warp * 16 + g + 8 * r] = um[r];
    }
    __syncthreads();  // all are past the values of the unit before
    if (u > 0) fill(c - 1 + SLOTS);
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
      for (int w = 0; w < WARPS; w++) um[r] = fmaxf(um[r], tops[w * 16 + g + 8 * r]);
    float sum[2];
    probabilities_of(s, um, sum);
    sums[warp * 32 + lane] = make_float2(sum[0], sum[1]);
#pragma unroll
    for (int h = 0; h < 2; h++) {
      u32 p[4];
      probability_fragment<KIND>(p, s + 2 * h);
      ps[(2 * warp + h) * 32 + lane] = {p[0], p[1], p[2], p[3]};
    }
    __syncthreads();  // all are past the keys
    fill(c + SLOTS);
    const float2 s0 = sums[lane], s1 = sums[32 + lane], s2 = sums[64 + lane], s3 = sums[96 + lane];
    ud[0] = unit_sum(s0.x, s1.x, s2.x, s3.x);
    ud[1] = unit_sum(s0.y, s1.y, s2.y, s3.y);

    wait(c + 1);
    u8* v = shared + (c + 1) % SLOTS * SLOT;
    if (unit < lo || unit + UNIT > hi) {
      // Slots of a page that hold no key of the row may hold anything, and 0 * NaN is NaN: zeros, where 16 keys are not all seen.
#pragma unroll 1
      for (int at = threadIdx.x; at < UNIT * (a.valueDim / 8); at += 32 * WARPS) {
        const int key = at / (a.valueDim / 8), column = at % (a.valueDim / 8);
        if (unit + key < lo || unit + key >= hi) *(uint4*)(v + tile_at(key, column, valueGroup)) = {0, 0, 0, 0};
      }
      __syncthreads();
    }
    float o[TILES][4];
#pragma unroll
    for (int n = 0; n < TILES; n++) for (int j = 0; j < 4; j++) o[n][j] = 0.f;
#pragma unroll
    for (int k = 0; k < UNIT / 16; k++) {
      if (unit + k * 16 < hi && unit + k * 16 + 16 > lo) {
        const uint4 f = ps[k * 32 + lane];
        const u32 p[4] = {f.x, f.y, f.z, f.w};
#pragma unroll
        for (int n = 0; n < TILES; n += 2)
          if (column0 + n * 8 < a.valueDim) add_values<KIND>(o + n, p, v, k * 16, column0 / 8 + n, valueGroup);
      }
    }
    if (isPerUnit) {
      put_state<TILES>(a, plan, item, kvHead, item.partial + u, 0, o, um, ud, column0 + 2 * q, warp == 0 && q == 0);
    } else {
      const Fold fold0(m[0], um[0]), fold1(m[1], um[1]);
      m[0] = fold0.m; m[1] = fold1.m;
      d[0] = fold0(d[0], ud[0]); d[1] = fold1(d[1], ud[1]);
#pragma unroll
      for (int n = 0; n < TILES; n++) {
        total[n][0] = fold0(total[n][0], o[n][0]);
        total[n][1] = fold0(total[n][1], o[n][1]);
        total[n][2] = fold1(total[n][2], o[n][2]);
        total[n][3] = fold1(total[n][3], o[n][3]);
      }
    }
  }
  if (!IS_BULK) copy_wait<0>();
  if (item.partial < 0) {
    put_rows<TILES, false>(a, plan, item, kvHead, 0, total, m, d, column0 + 2 * q);
    return;
  }
  if (!isPerUnit) put_state<TILES>(a, plan, item, kvHead, item.partial, 0, total, m, d, column0 + 2 * q, warp == 0 && q == 0);
  merge_if_last(a, plan, item, kvHead, 32 * WARPS);
}

#define DECODE(DK, DV, SLOTS, PER_SM, HOW, IS_BULK)                                                                              \
  OPEN_KERNEL(32 * WARPS, PER_SM, decode_##HOW##_bf16_##DK##_##DV, AttentionArgs) { decode<KIND_BF16, DK, DV, SLOTS, IS_BULK>(a); } \
  OPEN_KERNEL(32 * WARPS, PER_SM, decode_##HOW##_f16_##DK##_##DV, AttentionArgs) { decode<KIND_F16, DK, DV, SLOTS, IS_BULK>(a); }
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
DECODE(64, 64, 6, 2, bulk, true)
DECODE(128, 128, 3, 2, bulk, true)
DECODE(192, 128, 4, 1, bulk, true)
DECODE(256, 256, 3, 1, bulk, true)
#endif
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 900
DECODE(64, 64, 3, 2, copy, false)
DECODE(128, 128, 2, 1, copy, false)
DECODE(192, 128, 2, 1, copy, false)
DECODE(256, 256, 2, 1, copy, false)
#endif
