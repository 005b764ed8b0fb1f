// Attention of tiles with at most 16 packed query rows: decodes, with the GQA group as the rows of one tensor-core tile. Bound by
// reading K and V.
//
// A block takes an item for one kv head: a whole row, whose units its warps share out in rounds (warp w has unit w, w + WARPS, ...;
// after a round the unit states meet in shared memory and are folded in ascending order), or up to WARPS neighbouring parts of
// one unit each, every warp writing its unit's state.
// Each warp streams its keys through a ring of its own: SUB keys of K, eight times, then the unit's values likewise; no barrier
// between warps while they stream. With two blocks of 4 warps about 96 KB are in flight per SM.
#include "attention-mma.cuh"

#define SUB 16
#define SUBS (UNIT / SUB)

template <int KIND, int DK, int DV, int WARPS, int SLOTS>
__device__ void decode(const AttentionArgs& a) {
  constexpr int DIM = DK > DV ? DK : DV, SLOT_BYTES = SUB * DIM * 2;
  DYNAMIC_SHARED(shared);
  u8* qs = shared;                                            // [16][DK]
  float* unitO = (float*)(qs + 16 * DK * 2);                  // [WARPS][16][DV]
  float2* unitMd = (float2*)(unitO + WARPS * 16 * DV);        // [WARPS][16]
  u8* rings = (u8*)(unitMd + WARPS * 16);                     // [WARPS][SLOTS][SUB][DIM]
  const Plan plan(a);
  const int i = blockIdx.x, kvHead = blockIdx.y, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (i >= plan.numItems) return;
  const int row = plan.row(i), qStart = plan.qStart(i), partial = plan.partial(i), kvStart = plan.kvStart(i);
  const int token0 = a.qoIndptr[row];
  const int packedEnd = min(qStart + plan.qTile, (a.qoIndptr[row + 1] - token0) * plan.group);
  if (packedEnd - qStart > 16 || packedEnd <= qStart) return;  // the extend kernel's
  int kvEnd = plan.kvEnd(i);
  const bool isGrouped = partial >= 0 && plan.kvChunk == UNIT;
  if (isGrouped) {
    // Parts of one unit: the first of each aligned group of WARPS units leads, the others ride along.
    auto isMate = [&](int j) {
      return j >= 0 && j < plan.numItems && plan.partial(j) >= 0 && plan.row(j) == row && plan.qStart(j) == qStart;
    };
    if ((kvStart / UNIT) % WARPS != 0 && isMate(i - 1)) return;
    for (int j = 1; j < WARPS && (kvStart / UNIT + j) % WARPS != 0 && isMate(i + j); j++) kvEnd = plan.kvEnd(i + j);
  }
  const int lastToken = token0 + (packedEnd - 1) / plan.group;
  const int lo = visible_start(a.positions[token0 + qStart / plan.group], plan);
  int hi = 0;
  for (int t = token0 + qStart / plan.group; t <= lastToken; t++) hi = max(hi, visible_end(a, plan, t));
  hi = min(hi, kvEnd);
  if (warp == 0) load_q<KIND, DK>(qs, a, token0, plan.group, kvHead, qStart, packedEnd);
  const Rows rows = rows_of(a, plan, token0, qStart, packedEnd, kvEnd);
  __syncthreads();

  const HeadPages keys = head_pages(a, kvHead, false), values = head_pages(a, kvHead, true);
  const int* pages = a.step + a.step[a.kvIndicesAt] + a.kvIndptr[row];
  const int steps = (a.keyDim + 15) / 16;
  const int first = isGrouped ? kvStart : kvStart + max(0, lo - kvStart) / UNIT * UNIT;
  const int numUnits = max(0, (max(hi, isGrouped ? kvEnd : 0) - first + UNIT - 1) / UNIT);
  const int rounds = (numUnits + WARPS - 1) / WARPS;
  const int mine = numUnits > warp ? (numUnits - warp + WARPS - 1) / WARPS : 0;  // units of this warp
  const int numSubs = mine * 2 * SUBS;
  u8* ring = rings + warp * SLOTS * SLOT_BYTES;

  // Page ids are read a unit ahead of the copies that need them: lane k knows the page of the unit's k-th sub-tile.
  auto base_of = [&](int sub) { return first + ((sub / (2 * SUBS)) * WARPS + warp) * UNIT + (sub % SUBS) * SUB; };
  auto pages_of = [&](int sub) {
    const int key = base_of(sub) + lane * SUB;
    return sub < numSubs && lane < SUBS && key >= lo && key < hi ? pages[key >> a.pageShift] : 0;
  };
  int ids = 0, nextIds = pages_of(0);
  auto fill = [&](int sub) {
    if (sub % (2 * SUBS) == 0) {
      ids = nextIds;
      nextIds = pages_of(sub + 2 * SUBS);
    }
    const int page = __shfl_sync(0xffffffffu, ids, sub % SUBS), base = base_of(sub);
    if (sub < numSubs && base < hi && base + SUB > lo) {
      u8* slot = ring + (sub % SLOTS) * SLOT_BYTES;
      const bool isV = (sub % (2 * SUBS)) >= SUBS;
      if (DK == DV) copy_16_keys<DK>(slot, isV ? values : keys, pages, page, base, lo, hi);
      else if (isV) copy_16_keys<DV>(slot, values, pages, page, base, lo, hi);
      else copy_16_keys<DK>(slot, keys, pages, page, base, lo, hi);
    }
    copy_commit();
  };
#pragma unroll
  for (int sub = 0; sub < SLOTS - 1; sub++) fill(sub);

  // The running state of a whole row, spread over the block: thread x has columns x, x + threads, ... of rows 0..15.
  constexpr int PER_THREAD = 16 * DV / (32 * WARPS);
  float total[PER_THREAD];
  float m = MINUS_INF, d = 0.f;  // of row threadIdx.x, in the first 16 threads
  __shared__ float2 folds[WARPS][16];
#pragma unroll
  for (int j = 0; j < PER_THREAD; j++) total[j] = 0.f;

  int sub = 0;
  for (int round = 0; round < rounds; round++) {
    const int at = round * WARPS + warp, unit = first + at * UNIT;
    const bool isActive = at < numUnits;
    if (isActive) {
      float s[UNIT / 8][4], um[2], ud[2], o[DV / 8][4];
#pragma unroll
      for (int n = 0; n < UNIT / 8; n++) for (int j = 0; j < 4; j++) s[n][j] = 0.f;
#pragma unroll
      for (int k = 0; k < SUBS; k++, sub++) {
        copy_wait<SLOTS - 2>();
        __syncwarp();
        fill(sub + SLOTS - 1);
        const u8* slot = ring + (sub % SLOTS) * SLOT_BYTES;
        if (unit + k * SUB < hi && unit + k * SUB + SUB > lo) {
          score_keys<KIND, DK, SUB>(s + 2 * k, qs, slot, 0, steps);
        }
        __syncwarp();
      }
      softmax_unit(s, rows, unit, a.scale, a.softcap, um, ud);
#pragma unroll
      for (int n = 0; n < DV / 8; n++) for (int j = 0; j < 4; j++) o[n][j] = 0.f;
#pragma unroll
      for (int k = 0; k < SUBS; k++, sub++) {
        copy_wait<SLOTS - 2>();
        __syncwarp();
        fill(sub + SLOTS - 1);
        const u8* slot = ring + (sub % SLOTS) * SLOT_BYTES;
        if (unit + k * SUB < hi && unit + k * SUB + SUB > lo) {
          u32 p[4];
          probability_fragment<KIND>(p, s + 2 * k);
#pragma unroll
          for (int c = 0; c < DV / 16; c++) add_values<KIND, DV>(o + 2 * c, p, slot, 0, 2 * c);
        }
        __syncwarp();
      }
      // The unit's state: to the partial it is, or to shared memory for the fold.
      const int g = lane >> 2, q = lane & 3;
#pragma unroll
      for (int r = 0; r < 2; r++) {
        const int tileRow = g + r * 8;
        if (isGrouped) {
          if (qStart + tileRow < packedEnd) {
            const i64 state = ((i64)(partial + at) * a.numKvHeads + kvHead) * plan.qTile + tileRow;
            if (q == 0) a.partialMd[state] = make_float2(um[r], ud[r]);
#pragma unroll
            for (int n = 0; n < DV / 8; n++)
#pragma unroll
              for (int j = 0; j < 2; j++)
                if (n * 8 + 2 * q + j < a.valueDim) a.partialO[state * a.valueDim + n * 8 + 2 * q + j] = o[n][2 * r + j];
          }
        } else {
          float* to = unitO + (warp * 16 + tileRow) * DV;
          if (q == 0) unitMd[warp * 16 + tileRow] = make_float2(um[r], ud[r]);
#pragma unroll
          for (int n = 0; n < DV / 8; n++)
#pragma unroll
            for (int j = 0; j < 2; j++) to[n * 8 + 2 * q + j] = o[n][2 * r + j];
        }
      }
    }
    if (isGrouped) continue;
    __syncthreads();
    const int active = min(WARPS, numUnits - round * WARPS);
    if (threadIdx.x < 16) {
      for (int w = 0; w < active; w++) {
        const float2 md = unitMd[w * 16 + threadIdx.x];
        const Fold fold(m, md.x);
        d = fold(d, md.y);
        m = fold.m;
        folds[w][threadIdx.x] = make_float2(fold.mine, fold.theirs);
      }
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < PER_THREAD; j++) {
      const int at2 = j * 32 * WARPS + threadIdx.x, r = at2 / DV, c = at2 % DV;
      if (qStart + r < packedEnd) {
        for (int w = 0; w < active; w++) {
          const float2 f = folds[w][r];
          total[j] = __fadd_rn(__fmul_rn(total[j], f.x), __fmul_rn(unitO[(w * 16 + r) * DV + c], f.y));
        }
      }
    }
    __syncthreads();
  }
  copy_wait<0>();
  if (isGrouped) return;
  __syncthreads();
  if (threadIdx.x < 16) {
    const int head = kvHead * plan.group + (qStart + threadIdx.x) % plan.group;
    folds[0][threadIdx.x].x = partial < 0 ? final_factor(m, d, a.sinks, head) : 1.f;
    if (partial >= 0 && qStart + threadIdx.x < packedEnd)
      a.partialMd[((i64)partial * a.numKvHeads + kvHead) * plan.qTile + threadIdx.x] = make_float2(m, d);
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < PER_THREAD; j++) {
    const int at2 = j * 32 * WARPS + threadIdx.x, r = at2 / DV, c = at2 % DV, p = qStart + r;
    if (p < packedEnd && c < a.valueDim) {
      const int token = token0 + p / plan.group, head = kvHead * plan.group + p % plan.group;
      if (partial < 0) put_out(a, token, head * a.valueDim + c, __fmul_rn(total[j], folds[0][r].x));
      else a.partialO[(((i64)partial * a.numKvHeads + kvHead) * plan.qTile + r) * a.valueDim + c] = total[j];
    }
  }
}

#define DECODE(DK, DV, WARPS, SLOTS)                                                                                               \
  KERNEL(32 * WARPS, decode_bf16_##DK##_##DV, AttentionArgs) {      \
    decode<KIND_BF16, DK, DV, WARPS, SLOTS>(a);                                                                                    \
  }                                                                                                                                \
  KERNEL(32 * WARPS, decode_f16_##DK##_##DV, AttentionArgs) {       \
    decode<KIND_F16, DK, DV, WARPS, SLOTS>(a);                                                                                     \
  }
DECODE(64, 64, 4, 6)
DECODE(128, 128, 4, 4)
DECODE(192, 128, 2, 4)
DECODE(256, 256, 2, 4)
