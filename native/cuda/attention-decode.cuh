// Attention of tiles with at most 16 packed query rows: decodes, with the GQA group as the rows of one tensor-core tile. Bound by
// reading K and V.
//
// A block takes items for one kv head, one after the other (WorkList); 4 warps walk an item's units together, so that a single unit is done as fast as a multiprocessor
// can and a long row streams. Per unit: warp w scores keys 32w..32w+31; the warps' maxima meet in shared memory; probabilities go
// there as the fragments they are; then warp w sums all keys for its quarter of the value's dims. Chains over dims and over keys are
// those of the extend kernels, bit for bit. At a chunk's end its state is folded into the item's, or is a split row's next partial.
// K and V of a unit are a slot each of a ring. From Hopper on, a fifth warp asks for pages by bulk copies (ids read a unit ahead);
// before, all threads copy. fp8 pages: codes become fragments in the registers of the warp that multiplies them (attention-fp8.cuh).
#pragma once
#include "attention-fp8.cuh"
#include "attention-turned.cuh"

#define WARPS 4
#define COMPUTING (32 * WARPS)

// IS_EXACT: the head's dims are DK and DV, so that addresses are constants. IS_TURNED: queries are to be turned, and the step's keys and
// values are not in their pages yet (attention-turned.cuh).
template <int PAGES, int DK, int DV, int SLOTS, bool IS_BULK, bool IS_EXACT, bool IS_TURNED = false, class Args = AttentionArgs>
__device__ void decode(const Args& a) {
  constexpr bool IS_FP8 = PAGES == KIND_FP8;
  constexpr int KIND = KIND_OF(PAGES), DIM = DK > DV ? DK : DV, TILES = DV / (8 * WARPS);
  constexpr int SLOT = IS_FP8 ? UNIT * (DIM + 2) : UNIT * DIM * 2;
  DYNAMIC_SHARED(shared);
  u8* qs = shared + SLOTS * SLOT;                       // [16][DK]
  uint4* ps = (uint4*)(qs + 16 * DK * 2);               // [UNIT / 16][lane]: A fragments of the probabilities
  float2* sums = (float2*)(ps + UNIT / 16 * 32);        // [WARPS][lane]
  float* tops = (float*)(sums + WARPS * 32);            // [WARPS][16]
  __shared__ u64 full[SLOTS], empty[SLOTS], given[WORKS], done[WORKS];
  __shared__ Work slots[WORKS];
  __shared__ NewKey<IS_TURNED ? DK : 8, IS_TURNED ? DV : 8> fresh[2];  // of two items in turns
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, q = lane & 3;
  const int keyDim = IS_EXACT ? DK : a.keyDim, valueDim = IS_EXACT ? DV : a.valueDim;
  if (IS_BULK && threadIdx.x == 0) {
    for (int s = 0; s < SLOTS; s++) {
      barrier_init(&full[s], 1);
      barrier_init(&empty[s], COMPUTING);
    }
    for (int s = 0; s < WORKS; s++) {
      barrier_init(&given[s], 32);
      barrier_init(&done[s], COMPUTING);
    }
    barrier_init_done();
  }
  if (a.isAlone) let_others_begin();
  // The plan, page ids and the keys of earlier steps were there before the kernels ahead began: only what this step writes is waited for.
  if (!IS_BULK) wait_for_others();
  const Plan plan(a);
  const int total = plan.numDecodes * a.numKvHeads;
  if ((int)blockIdx.x >= total) return;
  if (IS_BULK) __syncthreads();

  // Chunk 2u is the keys of an item's unit u, 2u + 1 its values. Counted over all items, chunk c lies in slot c % SLOTS.
  auto first_of = [&](const Item& item) { return item.kvStart + max(0, item.lo - item.kvStart) / UNIT * UNIT; };
  auto units_of = [&](const Item& item) { return max(0, (item.kvEnd - first_of(item) + UNIT - 1) / UNIT); };
  WorkList works = {slots, given, done, 0};
  if (IS_BULK && warp == WARPS) {
    int work = blockIdx.x, chunks = 0;
    auto number_of = [&](int work) { return lane < ITEM_INTS && work < total ? plan.at[PLAN_HEADER + work / a.numKvHeads * ITEM_INTS + lane] : 0; };
    int number = number_of(work);
#pragma unroll 1
    while (work < total) {
      const bool isFirst = works.n == 0;
      const int kvHead = work % a.numKvHeads;
      works.give(number, kvHead);
      const Item item(slots[(works.n - 1) % WORKS].item);
      const int first = first_of(item), units = units_of(item);
      const HeadPages<PAGES> keys(a, kvHead, false), values(a, kvHead, true);
      const UnitPages<> unitPages(a, item);
      auto unit_of = [&](int c) { return first + (c >> 1) * UNIT; };
      int page = -1, nextPage = unitPages.of(first);
      auto ask = [&](int c, int id) {
        HeadPages<PAGES> from = keys;
        if (c & 1) from = values;
        const int slot = (chunks + c) % SLOTS;
        unitPages.template copy<true>(shared + slot * SLOT, from, unit_of(c), id, &full[slot]);
      };
      auto expect = [&](int c) {
        if ((c & 1) == 0) {
          page = nextPage;
          nextPage = unitPages.of(unit_of(c) + UNIT);
        }
        unitPages.template expect<PAGES>(&full[(chunks + c) % SLOTS], page, (c & 1) ? valueDim : keyDim);
      };
      int early = 0;
      if (isFirst) {
        auto isNew = [&](int c) { return !IS_TURNED && unit_of(c) + (lane + 1) * unitPages.copyKeys > item.newStart; };
        early = min(SLOTS, 2 * units);
#pragma unroll 1
        for (int c = 0; c < early; c++) {
          expect(c);
          ask(c, isNew(c) ? -1 : page);
        }
        wait_for_others();
        if (!a.isAlone) let_others_begin();  // the extend kernel relies on this one's having waited
#pragma unroll 1
        for (int c = 0; c < early; c++)
          if (!IS_TURNED && unit_of(c) + UNIT > item.newStart) ask(c, isNew(c) ? unitPages.of(unit_of(c)) : -1);
      }
      work = take_work(a.taken, total);
      number = number_of(work);
#pragma unroll 1
      for (int c = early; c < 2 * units; c++) {
        const int all = chunks + c;
        if (all >= SLOTS) barrier_wait(&empty[all % SLOTS], (all / SLOTS - 1) & 1);
        expect(c);
        ask(c, page);
      }
      chunks += 2 * units;
    }
    works.give(0, -1);
    end_work(a.taken, total);
    return;
  }
  if (IS_BULK) wait_for_others();
  else if (!a.isAlone) let_others_begin();

  const int column0 = warp * (DV / WARPS);
  // An item, whose chunks are counted from `chunks` on.
  auto take_item = [&](const Item& item, int kvHead, int chunks) {
    const int lo = item.lo, hi = item.kvEnd, first = first_of(item), units = units_of(item);
    const bool isPerChunk = item.partial >= 0 && plan.isPerChunk;
    const int* pages = a.step + item.pagesAt;
    auto slot_of = [&](int c) { return shared + (chunks + c) % SLOTS * SLOT; };
    auto hasNew = [&](int unit) { return IS_TURNED && item.newStart < hi && item.newStart - unit < UNIT; };
    auto fill = [&](int c) {
      if (IS_BULK) return;
      const HeadPages<PAGES> from(a, kvHead, (c & 1) != 0);
      const int pieces = from.slot(from.dim) * 8 / from.PIECE;  // of 8 keys
      for (int at = threadIdx.x; at < UNIT / 8 * pieces && c < 2 * units; at += COMPUTING) {
        const int key = first + (c >> 1) * UNIT + at / pieces * 8;
        if (key < hi && key + 8 > lo) copy16(slot_of(c) + at * 16, from.at(pages[key >> a.pageShift], key) + at % pieces * from.PIECE);
      }
      copy_commit();
    };
    // Without barriers, keys are waited for with SLOTS - 2 later chunks asked for, values with SLOTS - 1; those of fp8 earlier.
    auto wait = [&](int c) {
      if (IS_BULK) {
        barrier_wait(&full[(chunks + c) % SLOTS], (chunks + c) / SLOTS & 1);
      } else {
        if (!IS_FP8 && (c & 1)) copy_wait<SLOTS - 1>();
        else copy_wait<SLOTS - 2>();
        __syncthreads();
      }
    };
    auto release = [&](int c) {
      if (!IS_BULK) return;
      __syncwarp();
      barrier_arrive(&empty[(chunks + c) % SLOTS]);  // every lane for its own reads: as fast as one for its warp, and racecheck can follow it
    };
#pragma unroll
    for (int c = 0; c < SLOTS; c++) fill(c);
    if constexpr (IS_TURNED) load_turned<KIND, DK, DV, COMPUTING>(qs, fresh[works.n & 1], a, plan, item, kvHead);
    else load_q<KIND, DK, IS_FP8 ? QUERY_SHIFT : 0>(qs, a, plan, item, kvHead, 0, threadIdx.x, COMPUTING);
    const Rows rows = IS_TURNED ? rows_of_one(plan, item) : rows_of(a, plan, item, 0);
    group_wait(1, COMPUTING);

    RunningMd running;
    alignas(16) float total[TILES][4];
    float o[TILES][4], m[2] = {MINUS_INF, MINUS_INF}, d[2] = {0.f, 0.f};
    clear_rows<TILES>(total);
    clear_rows<TILES>(o);
#pragma unroll 1
    for (int u = 0; u < units; u++) {
      const int unit = first + u * UNIT, c = 2 * u;
      float s[4][4], top[2], factor[2];
      clear_rows<4>(s);
      wait(c);
      if constexpr (IS_FP8) {
        const u8* codes = slot_of(c) + warp * 32 * fp8_slot(keyDim);
        float factors[4][2];
        factors_of<4>(factors, codes, keyDim);
        score_codes<DK, 4>(s, qs, codes, keyDim, keyDim / 16);
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
          for (int j = 0; j < 4; j++) s[n][j] = __fmul_rn(s[n][j], __fmul_rn(factors[n][j & 1], POWER_OF_TWO(-QUERY_SHIFT)));
      } else {
        if (hasNew(unit) && warp == (item.newStart - unit) / 32)
          put_new(slot_of(c), fresh[works.n & 1].key, item.newStart - unit, 0, DK / 8, DK * 16);
        score_keys<KIND, DK, 32>(s, qs, slot_of(c), warp * 32, keyDim * 16, keyDim / 16);
      }
      scores_of<4>(s, rows, unit + warp * 32, a.scale, a.softcap, top);
      release(c);
#pragma unroll
      for (int r = 0; r < 2; r++) {
        top[r] = quad_max(top[r]);
        if (q == 0) tops[warp * 16 + g + 8 * r] = top[r];
      }
      group_wait(1, COMPUTING);  // all are past the values of the unit before
      if (u > 0) fill(c - 1 + SLOTS);
#pragma unroll
      for (int r = 0; r < 2; r++) {
        const float was = m[r];
#pragma unroll
        for (int w = 0; w < WARPS; w++) m[r] = fmaxf(m[r], tops[w * 16 + g + 8 * r]);
        factor[r] = rescale(was, m[r]);
      }
      float sum[2];
      probabilities_of(s, score_factor(a.scale, a.softcap), m, sum);
      if constexpr (IS_FP8) {
        // Slots of a page that hold no key of the row may hold any factor, and 0 * NaN is NaN; their codes are finite, whatever they are.
        wait(c + 1);
        float factors[4][2];
        factors_of<4>(factors, slot_of(c + 1) + warp * 32 * fp8_slot(valueDim), valueDim);
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
          for (int j = 0; j < 4; j++) {
            const int key = unit + warp * 32 + n * 8 + 2 * q + (j & 1);
            s[n][j] = __fmul_rn(s[n][j], key < lo || key >= hi ? 0.f : factors[n][j & 1]);
          }
      }
      sums[warp * 32 + lane] = make_float2(sum[0], sum[1]);
#pragma unroll
      for (int h = 0; h < 2; h++) {
        u32 p[4];
        probability_fragment<KIND>(p, s + 2 * h);
        ps[(2 * warp + h) * 32 + lane] = {p[0], p[1], p[2], p[3]};
      }
      group_wait(1, COMPUTING);  // all are past the keys
      fill(c + SLOTS);

      if (!IS_FP8) wait(c + 1);
      u8* v = slot_of(c + 1);
      if (hasNew(unit)) put_new(v, fresh[works.n & 1].value, item.newStart - unit, column0 / 8, DV / 8 / WARPS, DV * 16);
      if (!IS_FP8 && (unit < lo || unit + UNIT > hi)) {
        // Slots of a page that hold no key of the row may hold anything, and 0 * NaN is NaN.
#pragma unroll 1
        for (int at = threadIdx.x; at < UNIT * (valueDim / 8); at += COMPUTING) {
          const int key = at / (valueDim / 8), column = at % (valueDim / 8);
          if (unit + key < lo || unit + key >= hi) *(uint4*)(v + tile_at(key, column, valueDim * 16)) = {0, 0, 0, 0};
        }
        if (IS_BULK) fence_stores();  // the next copy to this slot comes after them
        group_wait(1, COMPUTING);
      }
      scale_rows<TILES>(o, factor);
#pragma unroll
      for (int k = 0; k < UNIT / 16; k++) {
        const uint4 f = ps[k * 32 + lane];
        const u32 p[4] = {f.x, f.y, f.z, f.w};
#pragma unroll
        for (int n = 0; n < TILES; n += 2)
          if (IS_EXACT || column0 + n * 8 < valueDim) {
            if (IS_FP8) add_codes(o + n, p, v + k * 16 * fp8_slot(valueDim) + (column0 / 16 + n / 2) * 128, valueDim);
            else add_values<KIND>(o + n, p, v, k * 16, column0 / 8 + n, valueDim * 16);
          }
      }
      const float2 s0 = sums[lane], s1 = sums[32 + lane], s2 = sums[64 + lane], s3 = sums[96 + lane];
      d[0] = __fadd_rn(__fmul_rn(d[0], factor[0]), unit_sum(s0.x, s1.x, s2.x, s3.x));
      d[1] = __fadd_rn(__fmul_rn(d[1], factor[1]), unit_sum(s0.y, s1.y, s2.y, s3.y));
      if (u + 1 == units || plan.ends_chunk(unit + UNIT)) {
        if (isPerChunk)
          put_state<TILES>(a, plan, item, kvHead, item.partial + plan.chunk_of(unit, item.kvStart), 0, o, m, d, column0 + 2 * q, warp == 0 && q == 0);
        else fold_chunk<TILES>(total, running, o, m, d);
        clear_rows<TILES>(o);
        m[0] = m[1] = MINUS_INF;
        d[0] = d[1] = 0.f;
      }
      release(c + 1);
    }
    if (!IS_BULK) copy_wait<0>();
    if (item.partial < 0) put_rows<TILES, false>(a, plan, item, kvHead, 0, total, running.m, running.d, column0 + 2 * q);
    else if (!isPerChunk) put_state<TILES>(a, plan, item, kvHead, item.partial, 0, total, running.m, running.d, column0 + 2 * q, warp == 0 && q == 0);
  };
  if (!IS_BULK) {
    take_item(Item(plan, blockIdx.x / a.numKvHeads), blockIdx.x % a.numKvHeads, 0);
    return;
  }
  int chunks = 0;
#pragma unroll 1
  for (;;) {
    const Work& work = works.next();
    const int kvHead = work.kvHead;
    if (kvHead < 0) break;
    const Item item(work.item);
    take_item(item, kvHead, chunks);
    chunks += 2 * units_of(item);
    works.end();
  }
}

// The forms of one kind of pages.
#define DECODE(PAGES, name, HOW, THREADS, DK, DV, SLOTS, PER_SM, IS_BULK, IS_EXACT)                                                        \
  OPEN_KERNEL(THREADS, PER_SM, decode_##HOW##_##name##_##DK##_##DV, AttentionArgs) { decode<PAGES, DK, DV, SLOTS, IS_BULK, IS_EXACT>(a); }
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define TURNED_DECODE(PAGES, name, DIM, SLOTS, PER_SM) \
  OPEN_KERNEL(COMPUTING + 32, PER_SM, decode_turned_##name##_##DIM##_##DIM, TurnedArgs) { decode<PAGES, DIM, DIM, SLOTS, true, true, true>(a); }
#define TURNED_DECODES(PAGES, name) TURNED_DECODE(PAGES, name, 64, 4, 3) TURNED_DECODE(PAGES, name, 128, 3, 2)
#define BULK_DECODES(PAGES, name)                                                                \
  DECODE(PAGES, name, exact, COMPUTING + 32, 64, 64, 4, PAGES == KIND_FP8 ? 4 : 3, true, true)   \
  DECODE(PAGES, name, exact, COMPUTING + 32, 128, 128, 3, PAGES == KIND_FP8 ? 3 : 2, true, true) \
  DECODE(PAGES, name, bulk, COMPUTING + 32, 64, 64, 4, PAGES == KIND_FP8 ? 4 : 3, true, false)   \
  DECODE(PAGES, name, bulk, COMPUTING + 32, 128, 128, 3, PAGES == KIND_FP8 ? 3 : 2, true, false) \
  DECODE(PAGES, name, bulk, COMPUTING + 32, 192, 128, 4, 1, true, false)                         \
  DECODE(PAGES, name, bulk, COMPUTING + 32, 256, 256, 3, 1, true, false)
#else
#define TURNED_DECODES(PAGES, name)
#define BULK_DECODES(PAGES, name)
#endif
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1200 // shared memory too small for the ring
#define COPY_DECODES(PAGES, name)                                              \
  DECODE(PAGES, name, copy, COMPUTING, 64, 64, 3, 2, false, false)             \
  DECODE(PAGES, name, copy, COMPUTING, 128, 128, 2, 1, false, false)           \
  DECODE(PAGES, name, copy, COMPUTING, 192, 128, 2, 1, false, false)           \
  DECODE(PAGES, name, copy, COMPUTING, 256, 256, 2, 1, false, false)
#else
#define COPY_DECODES(PAGES, name)
#endif
#define DECODES(PAGES, name) BULK_DECODES(PAGES, name) COPY_DECODES(PAGES, name)
