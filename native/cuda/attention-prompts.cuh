// Attention of tiles with more than 16 packed query rows on Hopper's wgmma: prompts and chunks of prompts, heads of 64 and 128.
//
// A block takes items of up to 128 packed rows for one kv head, one after the other (WorkList): two warpgroups of 64 rows each, and a warp
// that copies. K and V of a unit are a slot each of two rings, brought as pages lie in the pool by bulk copies.
// A warpgroup multiplies its queries with the keys (64 x 128 scores), makes probabilities of them, and multiplies those, in the
// registers they are in, with the values, onto the sums of the chunk. The warpgroups take turns on the tensor cores: one asks for a unit's
// sums and the next one's scores at once, and the other's products follow these while it makes probabilities.
// At the end of a chunk its sums are folded into the running state, which is in local memory: chunks are long, and registers few.
// A warpgroup brings its queries itself, when an item is done: those of the next are in L2 by then.
// Softcapped scores are attention-extend.cu's: their code would push the loop out of the instruction cache.
// fp8 pages: codes of 64 keys are a slot each of a ring of their own; three warps make bf16 of them, in the slots of K and V.
// Traffic: K and V of the item's keys once per 128 packed rows, from L2 mostly. FLOPs: 4 * rows * keys * D.
#pragma once
#include "attention-bulk.cuh"
#include "attention-fp8.cuh"
#include "attention-wgmma.cuh"

#define CONSUMERS 256
#define WIDENERS 96
// Registers of a thread that multiplies and of one that does not; all of them begin with an equal share. Whoever takes more than others gave
// waits for ever.
#define TAKEN 232
#define GIVEN 40
static_assert(TAKEN * CONSUMERS + GIVEN * 128 <= 65536 / (CONSUMERS + 128) / 8 * 8 * (CONSUMERS + 128), "registers of a block");
// Barriers: whose turn it is on the tensor cores, and of a warpgroup for itself.
#define TURN 2
#define OWN 4

// Of fp8 pages: slots of codes, and keys in each.
#define CODE_SLOTS 3
#define CODE_KEYS 64

template <bool IS>
struct Flag { static constexpr bool VALUE = IS; };

template <int PAGES, int D, int KEY_STAGES, int VALUE_STAGES>
__device__ void extend(const AttentionArgs& a) {
  constexpr bool IS_FP8 = PAGES == KIND_FP8;
  constexpr int KIND = KIND_OF(PAGES), CODE_SLOT = CODE_KEYS * (D + 2);
  constexpr int SLOT = UNIT * D * 2, GROUP = D * 16, QUERIES = 128 * D * 2;  // GROUP: bytes of 8 keys
  DYNAMIC_SHARED(shared);
  u8* ks = shared;                      // [KEY_STAGES][UNIT][D]
  u8* vs = ks + KEY_STAGES * SLOT;      // [VALUE_STAGES][UNIT][D]
  u8* qs = vs + VALUE_STAGES * SLOT;    // [128][D]
  u8* codes = qs + QUERIES;             // fp8: [CODE_SLOTS][CODE_KEYS][D + 2]
  __shared__ int visible[2][128];  // the first key that each row sees, and the first that it does not see any more
  __shared__ Work slots[WORKS];
  alignas(16) __shared__ int header[PLAN_HEADER];  // the plan's
  __shared__ u64 keysFull[KEY_STAGES], keysEmpty[KEY_STAGES], valuesFull[VALUE_STAGES], valuesEmpty[VALUE_STAGES];
  __shared__ u64 given[WORKS], done[WORKS];
  __shared__ u64 codesFull[IS_FP8 ? CODE_SLOTS : 1], codesEmpty[IS_FP8 ? CODE_SLOTS : 1];
  // By a shuffle, so that the compiler knows it to be one number for a warp.
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x >> 5, 0), lane = threadIdx.x & 31, g = lane >> 2, q = lane & 3;
  if (threadIdx.x == 0) {
    for (int s = 0; s < KEY_STAGES; s++) {
      barrier_init(&keysFull[s], IS_FP8 ? WIDENERS : 1);
      barrier_init(&keysEmpty[s], CONSUMERS / 32);
    }
    for (int s = 0; s < VALUE_STAGES; s++) {
      barrier_init(&valuesFull[s], IS_FP8 ? WIDENERS : 1);
      barrier_init(&valuesEmpty[s], CONSUMERS / 32);
    }
    for (int s = 0; s < WORKS; s++) {
      barrier_init(&given[s], 32);
      barrier_init(&done[s], CONSUMERS + (IS_FP8 ? WIDENERS : 0));
    }
    for (int s = 0; IS_FP8 && s < CODE_SLOTS; s++) {
      barrier_init(&codesFull[s], 1);
      barrier_init(&codesEmpty[s], WIDENERS);
    }
    barrier_init_done();
  }
  let_others_begin();
  // The plan and page ids were there before the kernels ahead began: queries, keys and values are waited for. Beside decodes their kernel lets
  // this one begin when all that both depend on is done, and is waited for at the end.
  auto wait_if_alone = [&]() { if (a.isAlone) wait_for_others(); };
  const Plan plan(a);
  const int items = plan.numItems - plan.numDecodes, total = items * a.numKvHeads;
  if ((int)blockIdx.x >= total) return;
  if (threadIdx.x < PLAN_HEADER) header[threadIdx.x] = plan.at[threadIdx.x];
  __syncthreads();

  auto first_of = [&](const Item& item) { return item.kvStart + max(0, item.lo - item.kvStart) / UNIT * UNIT; };
  auto units_of = [&](const Item& item) { return max(1, (item.kvEnd - first_of(item) + UNIT - 1) / UNIT); };
  WorkList works = {slots, given, done, 0};
  if (warp >= CONSUMERS / 32) give_registers<GIVEN>();
  if (warp == CONSUMERS / 32) {  // copies
    // Blocks that run at the same time share a head's keys, in L2: items inside, heads outside.
    auto number_of = [&](int work) { return lane < ITEM_INTS && work < total ? plan.at[PLAN_HEADER + (plan.numDecodes + work % items) * ITEM_INTS + lane] : 0; };
    int work = blockIdx.x, key = 0, keyRound = 0, value = 0, valueRound = 0;  // the rings' next stages, and how often they were filled
    auto give = [&]() { works.give(number_of(work), work < total ? work / items : -1); };
    give();
#pragma unroll 1
    while (work < total) {
      const int kvHead = work / items;
      const Item item(slots[(works.n - 1) % WORKS].item);
      const int first = first_of(item), units = units_of(item);
      const HeadPages<PAGES> keys(a, kvHead, false), values(a, kvHead, true);
      const UnitPages<IS_FP8 ? CODE_KEYS : UNIT> unitPages(a, item);
      int nextPage = unitPages.of(first);
      if (works.n == 1) wait_if_alone();
      // Its latency, and that of its record, pass while the first unit is on its way.
      int taken = 0;
      const bool isCounted = (int)gridDim.x < total;
      if (isCounted && lane == 0) taken = gridDim.x + atomicAdd(a.taken + 2, 1);
      auto give_next = [&]() {
        work = isCounted ? __shfl_sync(0xffffffffu, taken, 0) : total;
        give();
      };
      if constexpr (IS_FP8) {
        // Per unit two slots of keys, then two of values.
        int nextHalf = unitPages.of(first + CODE_KEYS);
#pragma unroll 1
        for (int u = 0; u < units; u++) {
          const int unit = first + u * UNIT, page = nextPage, half = nextHalf;
          nextPage = unitPages.of(unit + UNIT);
          nextHalf = unitPages.of(unit + UNIT + CODE_KEYS);
#pragma unroll
          for (int c = 0; c < 4; c++) {
            const int id = c & 1 ? half : page;
            if (keyRound > 0) barrier_wait(&codesEmpty[key], (keyRound - 1) & 1);
            unitPages.template expect<PAGES>(&codesFull[key], id, D);
            unitPages.template copy<false>(codes + key * CODE_SLOT, c < 2 ? keys : values, unit + (c & 1) * CODE_KEYS, id, &codesFull[key]);
            if (++key == CODE_SLOTS) { key = 0; keyRound++; }
          }
          if (u == 0) give_next();
        }
      } else {
#pragma unroll 1
        for (int u = 0; u < units; u++) {
          const int unit = first + u * UNIT, page = nextPage;
          nextPage = unitPages.of(unit + UNIT);
          if (keyRound > 0) barrier_wait(&keysEmpty[key], (keyRound - 1) & 1);
          unitPages.template expect<PAGES>(&keysFull[key], page, D);
          unitPages.template copy<false>(ks + key * SLOT, keys, unit, page, &keysFull[key]);
          if (valueRound > 0) barrier_wait(&valuesEmpty[value], (valueRound - 1) & 1);
          unitPages.template expect<PAGES>(&valuesFull[value], page, D);
          unitPages.template copy<false>(vs + value * SLOT, values, unit, page, &valuesFull[value]);
          if (++key == KEY_STAGES) { key = 0; keyRound++; }
          if (++value == VALUE_STAGES) { value = 0; valueRound++; }
          if (u == 0) give_next();
        }
      }
    }
    end_work(a.taken + 2, total);
    return;
  }
  if (warp > CONSUMERS / 32) {
    if constexpr (IS_FP8) {  // codes become tiles
      const int thread = threadIdx.x - CONSUMERS - 32;
      int key = 0, keyRound = 0, value = 0, valueRound = 0, slot = 0, slotParity = 0;  // the rings' next stages
      auto widen = [&](u8* tile, auto isValue, int unit, const Item& item) {
#pragma unroll 1
        for (int h = 0; h < UNIT / CODE_KEYS; h++) {
          barrier_wait(&codesFull[slot], slotParity);
          widen_codes<D, decltype(isValue)::VALUE, CODE_KEYS, WIDENERS>(tile + h * CODE_KEYS * D * 2, codes + slot * CODE_SLOT, thread, D,
                                                                        unit + h * CODE_KEYS, item.lo, item.kvEnd);
          barrier_arrive(&codesEmpty[slot]);
          if (++slot == CODE_SLOTS) { slot = 0; slotParity ^= 1; }
        }
        fence_stores();
      };
#pragma unroll 1
      for (;;) {
        const Work& work = works.next();
        if (work.kvHead < 0) break;
        const Item item(work.item);
        const int first = first_of(item), units = units_of(item);
#pragma unroll 1
        for (int u = 0; u < units; u++) {
          if (keyRound > 0) barrier_wait(&keysEmpty[key], (keyRound - 1) & 1);
          widen(ks + key * SLOT, Flag<false>(), first + u * UNIT, item);
          barrier_arrive(&keysFull[key]);
          if (++key == KEY_STAGES) { key = 0; keyRound++; }
          if (valueRound > 0) barrier_wait(&valuesEmpty[value], (valueRound - 1) & 1);
          widen(vs + value * SLOT, Flag<true>(), first + u * UNIT, item);
          barrier_arrive(&valuesFull[value]);
          if (++value == VALUE_STAGES) { value = 0; valueRound++; }
        }
        works.end();
      }
    }
    return;
  }
  take_registers<TAKEN>();
  const int warpgroup = warp >> 2, row0 = warp * 16, group0 = warpgroup * 64, thread = threadIdx.x & 127;
  int keyStage = 0, keyParity = 0, valueStage = 0, valueParity = 0;
  auto next_keys = [&]() { if (++keyStage == KEY_STAGES) { keyStage = 0; keyParity ^= 1; } };
  auto next_values = [&]() { if (++valueStage == VALUE_STAGES) { valueStage = 0; valueParity ^= 1; } };
  // The warpgroup's queries of some work: to L2, and later, when registers are free, to its half of the tile. Rows behind the item's have the
  // numbers of its last one, and see nothing.
  auto query_row = [&](const Work& work, const Item& item, const Plan& plan, int row) {
    const int packed = item.packed0 + min(group0 + row, item.rows - 1);
    return a.q + (i64)(item.token0 + plan.token_of(packed)) * a.qStride + plan.head_of(packed, work.kvHead) * D;
  };
  auto fetch_queries = [&](const Work& work) {
    constexpr int LINES = (D + 31) / 32;
    const Item item(work.item);
    const Plan plan(header);
#pragma unroll
    for (int at = thread; at < 64 * LINES; at += 128) fetch_ahead(query_row(work, item, plan, at / LINES) + at % LINES * 32);
  };
  auto bring_queries = [&](const Work& work) {
    constexpr int COLUMNS = D / 8, PIECES = 64 * COLUMNS / 128;  // of 8 numbers, of a thread: 8 rows x 4 columns a warp at a time
    const Item item(work.item);
    const Plan plan(header);
    Quad pieces[PIECES][2];
    auto row_of = [&](int i) { return (i * 128 + thread) / 8 / COLUMNS * 8 + (thread & 7); };
    auto column_of = [&](int i) { return (i * 128 + thread) / 8 % COLUMNS; };
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
      const Quad* from = (const Quad*)(query_row(work, item, plan, row_of(i)) + column_of(i) * 8);
      pieces[i][0] = from[0];
      pieces[i][1] = from[1];
    }
    const int row = group0 + thread, token = item.token0 + plan.token_of(item.packed0 + min(row, item.rows - 1));
    const int from = thread < 64 ? visible_start(a.positions[token], plan) : 0;
    const int to = thread < 64 && row < item.rows ? min(item.kvEnd, visible_end(a, plan, token)) : 0;
    group_wait(OWN + warpgroup, 128);  // nobody reads the last ones any more
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
      const float *x = pieces[i][0].v, *y = pieces[i][1].v;
      *(uint4*)(qs + tile_at(group0 + row_of(i), column_of(i), GROUP)) = {pack2(x[0], x[1], KIND), pack2(x[2], x[3], KIND), pack2(y[0], y[1], KIND),
                                                                         pack2(y[2], y[3], KIND)};
    }
    if (thread < 64) {
      visible[0][row] = from;
      visible[1][row] = to;
    }
    fence_stores();
    group_wait(OWN + warpgroup, 128);
  };
  {
    const Work& work = works.next();
    wait_if_alone();
    bring_queries(work);
  }
#pragma unroll 1
  for (;;) {
    const Work& work = works.next();
    if (work.kvHead < 0) break;
    // Registers are few: what the loop over units seldom needs of the item is read where it is needed.
    int first, units, seen;  // seen: units that a row of the warpgroup sees
    {
      const Item item(work.item);
      const int groupRows = min(item.rows - group0, 64), groupTo = groupRows <= 0 ? 0 : visible[1][group0 + groupRows - 1];
      first = first_of(item);
      units = units_of(item);
      seen = max(0, (groupTo - first + UNIT - 1) / UNIT);
    }
    auto isPerChunk = [&]() { return work.item[ITEM_PARTIAL] >= 0 && (header[3] & 1); };
    const int lastOfChunk = (1 << header[PLAN_CHUNK]) - UNIT;
    auto ends_chunk = [&](int unit) { return (~unit & lastOfChunk) == 0; };
    RunningMd running;
    alignas(16) float room[D / 8][4], (*total)[4] = room;
    keep_in_memory(total);
    float o[D / 8][4], m[2] = {MINUS_INF, MINUS_INF}, d[2] = {0.f, 0.f}, scores[UNIT / 8][4];
    bool isFresh = true, isFirst = true;  // o holds nothing of its chunk yet; total holds nothing
    const u64 queryCores = describe_cores(qs + warpgroup * 64 * D * 2, 128, GROUP);
    // Scores of the next unit: asked for, and waited for.
    auto multiply_keys = [&]() {
      const u64 cores = describe_cores(ks + keyStage * SLOT, 128, GROUP);
#pragma unroll
      for (int k = 0; k < D / 16; k++) CoreProduct<KIND, UNIT, false>::run(scores[0], queryCores + k * (256 >> 4), cores + k * (256 >> 4), k > 0);
      wgmma_commit();
    };
    auto end_keys = [&]() {
      wgmma_wait<0>();
      settle<UNIT / 2>(scores[0]);
      if (lane == 0) barrier_arrive(&keysEmpty[keyStage]);
      next_keys();
    };
    // The warpgroups' turns alternate over all items: the second follows the first, the first, its very first turn excepted, the second.
    auto begin_turn = [&](int u) {
      if (warpgroup == 1 || u > 0 || works.n > 0) group_wait(TURN + warpgroup, CONSUMERS);
    };
    // The state of a unit's chunk, as a partial of its own.
    auto put_chunk = [&](int unit) {
      const Item item(work.item);
      const Plan plan(header);
      put_state<D / 8>(a, plan, item, work.kvHead, item.partial + plan.chunk_of(unit, item.kvStart), row0, o, m, d, 2 * q, q == 0);
    };
    // The last turn of all excepted, which nobody waits for.
    auto end_turn = [&](int u) {
      if (warpgroup == 0 || u + 1 < units || works.has_more()) group_arrive(TURN + 1 - warpgroup, CONSUMERS);
    };
    // Unit u from its scores on. A turn ends when the next unit's scores are asked for: the other warpgroup's products follow them.
    auto take_unit = [&](int u, auto next) {
      constexpr bool HAS_NEXT = decltype(next)::VALUE;
      const int unit = first + u * UNIT;
      u32 p[UNIT / 16][4];
      float factor[2];
      Rows rows;
#pragma unroll
      for (int r = 0; r < 2; r++) {
        rows.from[r] = visible[0][row0 + g + 8 * r];
        rows.to[r] = visible[1][row0 + g + 8 * r];
      }
      softmax_unit(scores, rows, unit, a.scale, 0.f, m, d, factor);
#pragma unroll
      for (int n = 0; n < UNIT / 16; n++) probability_fragment<KIND>(p[n], scores + 2 * n);
      if (!isFresh) scale_rows<D / 8>(o, factor);

      const int lo = work.item[ITEM_LO] - unit, hi = work.item[ITEM_END] - unit;
      barrier_wait(&valuesFull[valueStage], valueParity);
      u8* v = vs + valueStage * SLOT;
      if (!IS_FP8 && (lo > 0 || hi < UNIT)) {
        // Slots that hold no key of the row may hold anything, and 0 * NaN is NaN. Both warpgroups write the same zeros.
        auto clear_keys = [&](int from, int to) {
          for (int at = from * (D / 8) + thread; at < to * (D / 8); at += 128) *(uint4*)(v + tile_at(at / (D / 8), at % (D / 8), GROUP)) = {0, 0, 0, 0};
        };
        if (lo > 0) clear_keys(0, lo);
        if (hi < UNIT) clear_keys(hi, UNIT);
        fence_stores();
        group_wait(OWN + warpgroup, 128);
      }
      begin_turn(u);
      const u64 cores = describe_cores(v, GROUP, 128);
      if (HAS_NEXT) barrier_wait(&keysFull[keyStage], keyParity);
      settle<D / 2>(o[0]);
      settle<UNIT / 2>(scores[0]);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < UNIT / 16; k++) CoreProduct<KIND, D, true>::run(o[0], p[k], cores + k * (2 * GROUP >> 4), k > 0 || !isFresh);
      wgmma_commit();
      if (HAS_NEXT) multiply_keys();
      end_turn(u);
      wgmma_wait<HAS_NEXT ? 1 : 0>();
      settle<D / 2>(o[0]);
      if (lane == 0) barrier_arrive(&valuesEmpty[valueStage]);
      next_values();
      isFresh = !HAS_NEXT || ends_chunk(unit);
      if (HAS_NEXT && isFresh) {
        if (isPerChunk()) put_chunk(unit);
        else if (isFirst) first_chunk_into<D / 8>(total, running, o, m, d);
        else fold_chunk<D / 8>(total, running, o, m, d);
        isFirst = false;
        m[0] = m[1] = MINUS_INF;
        d[0] = d[1] = 0.f;
      }
      if (HAS_NEXT) end_keys();
    };
    if (seen > 0) {
      barrier_wait(&keysFull[keyStage], keyParity);
      wgmma_fence();
      multiply_keys();
      if (works.has_more()) fetch_queries(works.behind());
      end_keys();
      for (int u = 0; u + 1 < seen; u++) take_unit(u, Flag<true>());
      take_unit(seen - 1, Flag<false>());
      const int unit = first + (seen - 1) * UNIT;
      if (isPerChunk()) put_chunk(unit);
      else if (isFirst) first_chunk_into<D / 8>(o, running, o, m, d);
      else fold_chunk_into<D / 8>(o, total, running, o, m, d);
    } else clear_rows<D / 8>(o);
    if (isPerChunk() && seen < units) {  // chunks that no row of the warpgroup sees
      clear_rows<D / 8>(o);
      m[0] = m[1] = MINUS_INF;
      d[0] = d[1] = 0.f;
    }
    for (int u = seen; u < units; u++) {
      const int unit = first + u * UNIT;
      if (isPerChunk() && (u == 0 || ends_chunk(unit - UNIT))) put_chunk(unit);
      barrier_wait(&keysFull[keyStage], keyParity);
      if (lane == 0) barrier_arrive(&keysEmpty[keyStage]);
      next_keys();
      begin_turn(u);
      barrier_wait(&valuesFull[valueStage], valueParity);
      if (lane == 0) barrier_arrive(&valuesEmpty[valueStage]);
      next_values();
      end_turn(u);
    }
    const int kvHead = work.kvHead;
    const Item item(work.item);
    const Plan plan(header);
    if (item.partial < 0) put_rows<D / 8, true>(a, plan, item, kvHead, row0, o, running.m, running.d, 2 * q);
    else if (!isPerChunk()) put_state<D / 8>(a, plan, item, kvHead, item.partial, row0, o, running.m, running.d, 2 * q, q == 0);
    if (works.has_more()) bring_queries(works.behind());
    works.end();
  }
  if (!a.isAlone) wait_for_others();
}
