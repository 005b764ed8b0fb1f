// Attention of tiles with more than 16 packed query rows: prompts and chunks of prompts, on mma.sync.
//
// A block of 4 warps takes 64 packed rows of an item for one kv head; a warp has 16 rows and their running state in registers
// (o, DV/2 numbers per lane; m, d). Per unit of 128 keys: K arrives while the values of the unit before are added, V while scores
// are computed: one buffer each, two blocks per SM.
// Traffic: K and V of the item's keys once per 64 packed rows, from L2 mostly. FLOPs: 4 * rows * keys * D.
#include "attention-mma.cuh"

template <int KIND, int DK, int DV>
__device__ void extend(const AttentionArgs& a) {
  DYNAMIC_SHARED(shared);
  u8* qs = shared;                           // [4 warps][16][DK]
  u8* ks = qs + 64 * DK * 2;                 // [UNIT][DK]
  u8* vs = ks + UNIT * DK * 2;               // [UNIT][DV]
  const Plan plan(a);
  const int i = blockIdx.x, kvHead = blockIdx.y, warp = threadIdx.x >> 5;
  if (i >= plan.numItems) return;
  const int row = plan.row(i), qStart = plan.qStart(i), partial = plan.partial(i), kvEnd = plan.kvEnd(i);
  const int token0 = a.qoIndptr[row];
  const int packedEnd = min(qStart + plan.qTile, (a.qoIndptr[row + 1] - token0) * plan.group);
  const int block0 = qStart + blockIdx.z * 64;
  if (packedEnd - qStart <= 16 || block0 >= packedEnd) return;  // the decode kernel's, or nothing left
  const int packed = block0 + warp * 16;
  const int firstToken = token0 + block0 / plan.group, lastToken = token0 + (min(block0 + 64, packedEnd) - 1) / plan.group;
  const int lo = visible_start(a.positions[firstToken], plan);
  int hi = 0;  // visibleEnd need not ascend (images): the most of the block's tokens
  for (int t = firstToken; t <= lastToken; t++) hi = max(hi, visible_end(a, plan, t));
  hi = min(hi, kvEnd);
  load_q<KIND, DK>(qs + warp * 16 * DK * 2, a, token0, plan.group, kvHead, packed, packedEnd);
  const Rows rows = rows_of(a, plan, token0, packed, packedEnd, kvEnd);
  const int steps = (a.keyDim + 15) / 16;
  const HeadPages keys = head_pages(a, kvHead, false), values = head_pages(a, kvHead, true);
  const int* pages = a.step + a.step[a.kvIndicesAt] + a.kvIndptr[row];

  float o[DV / 8][4], m[2] = {MINUS_INF, MINUS_INF}, d[2] = {0.f, 0.f};
#pragma unroll
  for (int n = 0; n < DV / 8; n++) for (int j = 0; j < 4; j++) o[n][j] = 0.f;

  const int from = plan.kvStart(i) + max(0, lo - plan.kvStart(i)) / UNIT * UNIT;
  // Page ids are read a unit ahead: lane h < 2 of a warp knows that of its h-th 16 keys (warps copy 32 keys of a unit each).
  const int lane = threadIdx.x & 31;
  auto pages_of = [&](int unit) {
    const int key = unit + warp * 32 + (lane & 1) * 16;
    return key >= lo && key < hi ? pages[key >> a.pageShift] : 0;
  };
  int page = from < hi ? pages_of(from) : 0;
  auto load_k = [&](int unit, int ids) {
#pragma unroll
    for (int half = 0; half < 2; half++)
      copy_16_keys<DK>(ks + (warp * 32 + half * 16) * DK * 2, keys, pages, __shfl_sync(0xffffffffu, ids, half), unit + warp * 32 + half * 16, lo, hi);
    copy_commit();
  };
  auto load_v = [&](int unit, int ids) {
#pragma unroll
    for (int half = 0; half < 2; half++)
      copy_16_keys<DV>(vs + (warp * 32 + half * 16) * DV * 2, values, pages, __shfl_sync(0xffffffffu, ids, half), unit + warp * 32 + half * 16, lo, hi);
    copy_commit();
  };
  if (from < hi) { load_k(from, page); load_v(from, page); }
  for (int unit = from; unit < hi; unit += UNIT) {
    const int nextPage = unit + UNIT < hi ? pages_of(unit + UNIT) : 0;
    copy_wait<1>();   // K is here, V may be on its way
    __syncthreads();
    const int warpTo = __reduce_max_sync(0xffffffffu, max(rows.to[0], rows.to[1]));
    const bool isSeen = unit < warpTo;
    float s[UNIT / 8][4], um[2], ud[2];
    if (isSeen) {
#pragma unroll
      for (int n = 0; n < UNIT / 8; n++) for (int j = 0; j < 4; j++) s[n][j] = 0.f;
#pragma unroll
      for (int n = 0; n < UNIT / 64; n++)
        if (unit + n * 64 < warpTo) score_keys<KIND, DK, 64>(s + 8 * n, qs + warp * 16 * DK * 2, ks, n * 64, steps);
    }
    __syncthreads();
    if (unit + UNIT < hi) load_k(unit + UNIT, nextPage); else copy_commit();
    if (isSeen) softmax_unit(s, rows, unit, a.scale, a.softcap, um, ud);
    copy_wait<1>();   // V is here
    __syncthreads();
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
            for (int h = 0; h < 4; h++) add_values<KIND, DV>(sum + 2 * h, p[n], vs, n * 16, 8 * c + 2 * h);
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
    if (unit + UNIT < hi) load_v(unit + UNIT, nextPage); else copy_commit();
  }
  copy_wait<0>();

  const int g = lane >> 2, q = lane & 3;
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int p = packed + g + r * 8;
    if (p >= packedEnd) continue;
    const int token = token0 + p / plan.group, head = kvHead * plan.group + p % plan.group;
    const i64 state = partial < 0 ? 0 : ((i64)partial * a.numKvHeads + kvHead) * plan.qTile + (p - qStart);
    const float factor = partial < 0 ? final_factor(m[r], d[r], a.sinks, head) : 1.f;
    if (partial >= 0 && q == 0) a.partialMd[state] = make_float2(m[r], d[r]);
#pragma unroll
    for (int n = 0; n < DV / 8; n++) {
#pragma unroll
      for (int j = 0; j < 2; j++) {
        const int c = n * 8 + 2 * q + j;
        if (c >= a.valueDim) continue;
        if (partial < 0) put_out(a, token, head * a.valueDim + c, __fmul_rn(o[n][2 * r + j], factor));
        else a.partialO[state * a.valueDim + c] = o[n][2 * r + j];
      }
    }
  }
}

#define EXTEND(DK, DV)                                                                                                          \
  KERNEL(128, extend_bf16_##DK##_##DV, AttentionArgs) {          \
    extend<KIND_BF16, DK, DV>(a);                                                                                               \
  }                                                                                                                             \
  KERNEL(128, extend_f16_##DK##_##DV, AttentionArgs) {           \
    extend<KIND_F16, DK, DV>(a);                                                                                                \
  }
EXTEND(64, 64)
EXTEND(128, 128)
EXTEND(192, 128)
EXTEND(256, 256)
