// Attention of tiles with more than 16 packed query rows on Hopper's wgmma: prompts and chunks of prompts, heads of 64 and 128.
//
// A block takes an item of up to 128 packed rows for one kv head: two warpgroups of 64 rows each and a warp that copies (a warpgroup
// is set aside for it). K and V of a unit are a slot each of two rings, brought as pages lie in the pool by bulk copies.
// A warpgroup multiplies its queries with the keys (64 x 128 scores), makes probabilities of them, and multiplies those, in the
// registers they are in, with the values; the unit's sums are folded into the running state while the next scores are multiplied.
// The warpgroups take turns on the tensor cores: one multiplies while the other makes probabilities.
// Softcapped scores are attention-extend.cu's: their code would push the loop out of the instruction cache.
// Traffic: K and V of the item's keys once per 128 packed rows, from L2 mostly. FLOPs: 4 * rows * keys * D.
#include "attention-bulk.cuh"
#include "attention-wgmma.cuh"

#define CONSUMERS 256
// Barriers: whose turn it is on the tensor cores, and of a warpgroup for itself.
#define TURN 2
#define OWN 4

template <int KIND, int D, int STAGES>
__device__ void extend(const AttentionArgs& a) {
  constexpr int SLOT = UNIT * D * 2, GROUP = D * 16;  // GROUP: bytes of 8 keys
  DYNAMIC_SHARED(shared);
  u8* ks = shared;                      // [STAGES][UNIT][D]
  u8* vs = shared + STAGES * SLOT;      // [STAGES][UNIT][D]
  u8* qs = shared + 2 * STAGES * SLOT;  // [2 warpgroups][64][D]
  __shared__ int ids[32];
  __shared__ u64 keysFull[STAGES], keysEmpty[STAGES], valuesFull[STAGES], valuesEmpty[STAGES];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, q = lane & 3;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) {
      barrier_init(&keysFull[s], 1);
      barrier_init(&valuesFull[s], 1);
      barrier_init(&keysEmpty[s], CONSUMERS / 32);
      barrier_init(&valuesEmpty[s], CONSUMERS / 32);
    }
    barrier_init_done();
  }
  let_others_begin();
  // Beside decodes: their kernel lets this one begin when all that both depend on is done, and is waited for at the end.
  if (a.isAlone) wait_for_others();
  const Plan plan(a);
  // Blocks that run at the same time share a head's keys, in L2: items inside, heads outside.
  const int items = gridDim.x / a.numKvHeads, i = plan.numDecodes + blockIdx.x % items, kvHead = blockIdx.x / items;
  if (i >= plan.numItems) return;
  const Item item(plan, i);
  const int lo = item.lo, hi = item.kvEnd;
  const int first = item.kvStart + max(0, lo - item.kvStart) / UNIT * UNIT;
  const int units = max(0, (hi - first + UNIT - 1) / UNIT);
  __syncthreads();

  if (warp >= CONSUMERS / 32) {
    give_registers<40>();
    if (warp > CONSUMERS / 32) return;
    const HeadPages keys(a, kvHead, false), values(a, kvHead, true);
    const UnitPages unitPages(a, item, ids);
    int nextPage = unitPages.of(first);
    for (int u = 0; u < units; u++) {
      const int s = u % STAGES, unit = first + u * UNIT, page = nextPage;
      nextPage = unitPages.of(unit + UNIT);
      if (u >= STAGES) barrier_wait(&keysEmpty[s], (u / STAGES - 1) & 1);
      unitPages.expect(&keysFull[s], page, D);
      unitPages.copy(ks + s * SLOT, keys, unit, page, &keysFull[s]);
      if (u >= STAGES) barrier_wait(&valuesEmpty[s], (u / STAGES - 1) & 1);
      unitPages.expect(&valuesFull[s], page, D);
      unitPages.copy(vs + s * SLOT, values, unit, page, &valuesFull[s]);
    }
    return;
  }
  take_registers<232>();
  const int warpgroup = warp >> 2, row0 = warp * 16, group0 = warpgroup * 64, thread = threadIdx.x & 127;
  const Rows rows = rows_of(a, plan, item, row0);
  const int lastRow = min(item.rows, group0 + 64) - 1;
  const int groupTo = group0 >= item.rows ? 0 : min(hi, visible_end(a, plan, item.token0 + plan.token_of(item.packed0 + lastRow)));
  u8* queries = qs + warpgroup * 64 * D * 2;
#pragma unroll
  for (int n = 0; n < D / 16; n++) {
    const int at = n * 128 + thread, row = at / (D / 8), column = at % (D / 8);
    *(uint4*)(queries + tile_at(row, column, GROUP)) = query_column<KIND>(a, plan, item, kvHead, group0 + row, column * 8);
  }
  fence_stores();
  group_wait(OWN + warpgroup, 128);

  float o[D / 8][4], m[2] = {MINUS_INF, MINUS_INF}, d[2] = {0.f, 0.f}, scores[UNIT / 8][4];
#pragma unroll
  for (int n = 0; n < D / 8; n++) for (int j = 0; j < 4; j++) o[n][j] = 0.f;
  const u64 queryCores = describe_cores(queries, 128, GROUP);
  // Scores of unit u: asked for, and waited for.
  auto multiply_keys = [&](int u) {
#pragma unroll
    for (int n = 0; n < UNIT / 8; n++) for (int j = 0; j < 4; j++) scores[n][j] = 0.f;
    const u64 cores = describe_cores(ks + u % STAGES * SLOT, 128, GROUP);
    barrier_wait(&keysFull[u % STAGES], u / STAGES & 1);
    settle<UNIT / 2>(scores[0]);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < D / 16; k++) CoreProduct<KIND, UNIT, false>::run(scores[0], queryCores + k * (256 >> 4), cores + k * (256 >> 4));
    wgmma_commit();
  };
  auto end_keys = [&](int u) {
    wgmma_wait<0>();
    settle<UNIT / 2>(scores[0]);
    if (lane == 0) barrier_arrive(&keysEmpty[u % STAGES]);
  };
  // Unit u from its scores on; the scores of the next are multiplied while its sums are folded.
  auto take_unit = [&](int u, bool hasNext) {
    const int unit = first + u * UNIT;
    u32 p[UNIT / 16][4];
    float um[2], ud[2], sum[D / 8][4];
    softmax_unit(scores, rows, unit, a.scale, 0.f, um, ud);
#pragma unroll
    for (int n = 0; n < UNIT / 16; n++) probability_fragment<KIND>(p[n], scores + 2 * n);
    const Fold fold0(m[0], um[0]), fold1(m[1], um[1]);
    m[0] = fold0.m; m[1] = fold1.m;
    d[0] = fold0(d[0], ud[0]); d[1] = fold1(d[1], ud[1]);

    group_wait(TURN + warpgroup, CONSUMERS);
    barrier_wait(&valuesFull[u % STAGES], u / STAGES & 1);
    u8* v = vs + u % STAGES * SLOT;
    if (unit < lo || unit + UNIT > hi) {
      // Slots that hold no key of the row may hold anything, and 0 * NaN is NaN. Both warpgroups write the same zeros.
#pragma unroll 1
      for (int at = thread; at < UNIT * (D / 8); at += 128) {
        const int key = at / (D / 8), column = at % (D / 8);
        if (unit + key < lo || unit + key >= hi) *(uint4*)(v + tile_at(key, column, GROUP)) = {0, 0, 0, 0};
      }
      fence_stores();
      group_wait(OWN + warpgroup, 128);
    }
#pragma unroll
    for (int n = 0; n < D / 8; n++) for (int j = 0; j < 4; j++) sum[n][j] = 0.f;
    const u64 cores = describe_cores(v, GROUP, 128);
    settle<D / 2>(sum[0]);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < UNIT / 16; k++) CoreProduct<KIND, D, true>::run(sum[0], p[k], cores + k * (2 * GROUP >> 4));
    wgmma_commit();
    wgmma_wait<0>();
    settle<D / 2>(sum[0]);
    if (lane == 0) barrier_arrive(&valuesEmpty[u % STAGES]);
    if (hasNext) multiply_keys(u + 1);
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
      o[n][0] = fold0(o[n][0], sum[n][0]);
      o[n][1] = fold0(o[n][1], sum[n][1]);
      o[n][2] = fold1(o[n][2], sum[n][2]);
      o[n][3] = fold1(o[n][3], sum[n][3]);
    }
    if (hasNext) end_keys(u + 1);
  };
  // A turn for each unit and warpgroup, the last excepted: nobody waits for it.
  auto end_turn = [&](int u) {
    if (warpgroup == 0 || u + 1 < units) group_arrive(TURN + 1 - warpgroup, CONSUMERS);
  };
  const int seen = max(0, (groupTo - first + UNIT - 1) / UNIT);  // units that a row of the warpgroup sees
  if (warpgroup == 1 && units > 0) group_arrive(TURN, CONSUMERS);
  if (seen > 0) {
    multiply_keys(0);
    end_keys(0);
    for (int u = 0; u + 1 < seen; u++) {
      take_unit(u, true);
      end_turn(u);
    }
    take_unit(seen - 1, false);
    end_turn(seen - 1);
  }
  for (int u = seen; u < units; u++) {
    barrier_wait(&keysFull[u % STAGES], u / STAGES & 1);
    if (lane == 0) barrier_arrive(&keysEmpty[u % STAGES]);
    group_wait(TURN + warpgroup, CONSUMERS);
    barrier_wait(&valuesFull[u % STAGES], u / STAGES & 1);
    if (lane == 0) barrier_arrive(&valuesEmpty[u % STAGES]);
    end_turn(u);
  }
  if (item.partial < 0) put_rows<D / 8, true>(a, plan, item, kvHead, row0, o, m, d, 2 * q);
  else put_state<D / 8>(a, plan, item, kvHead, item.partial, row0, o, m, d, 2 * q, q == 0);
  if (item.partial >= 0) merge_if_last(a, plan, item, kvHead, CONSUMERS);
  if (!a.isAlone) wait_for_others();
}

#define EXTEND(D, STAGES)                                                                                          \
  OPEN_KERNEL(CONSUMERS + 128, 1, wgmma_bf16_##D##_##D, AttentionArgs) { extend<KIND_BF16, D, STAGES>(a); }          \
  OPEN_KERNEL(CONSUMERS + 128, 1, wgmma_f16_##D##_##D, AttentionArgs) { extend<KIND_F16, D, STAGES>(a); }
EXTEND(64, 3)
EXTEND(128, 3)
