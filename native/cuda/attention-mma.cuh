// The tensor-core pieces of attention: scores of keys, the softmax of a unit, sums of values. Shared by the kernels, so that all give
// the same bits: the fragments of mma.sync and of wgmma are the same registers.
//
// Pages and tiles of 16-bit numbers lie in core matrices: [row / 8][dim / 8][8 rows][8 dims], 128 bytes each (kv_at). That is what
// ldmatrix reads without bank conflicts and what wgmma's descriptors name, so a page comes to shared memory as it lies.
#pragma once
#include "attention.cuh"
#include "kv-fp8.cuh"

// Byte offset of a 16-byte column; groupBytes: 16 * dims of a row.
__device__ __forceinline__ int tile_at(int row, int column, int groupBytes) {
  return (row >> 3) * groupBytes + column * 128 + (row & 7) * 16;
}

// s[KEYS/8][4] (16 rows x KEYS keys) += q . k. q: A fragments by ldmatrix from a [16][DK] tile; k: the keys from row `key` on.
template <int KIND, int DK, int KEYS>
__device__ __forceinline__ void score_keys(float (*s)[4], const u8* q, const u8* k, int key, int groupBytes, int steps) {
  const int lane = threadIdx.x & 31, matrix = lane >> 3, in = lane & 7;
  const u8* qAt = q + (matrix & 1) * (DK * 16) + (matrix >> 1) * 128 + in * 16;
  const u8* kAt = k + ((key >> 3) + (matrix >> 1)) * groupBytes + (matrix & 1) * 128 + in * 16;
#pragma unroll
  for (int i = 0; i < DK / 16; i++) {
    if (i < steps) {
      // All fragments of the step first: their loads overlap, and the products then follow one another without waiting.
      u32 a[4], b[KEYS / 16][4];
      ldmatrix_x4(a, qAt + i * 256);
#pragma unroll
      for (int n = 0; n < KEYS / 16; n++) ldmatrix_x4(b[n], kAt + 2 * n * groupBytes + i * 256);
#pragma unroll
      for (int n = 0; n < KEYS / 16; n++) {
        mma16816<KIND>(s[2 * n], a, b[n][0], b[n][1]);
        mma16816<KIND>(s[2 * n + 1], a, b[n][2], b[n][3]);
      }
    }
  }
}

// What a lane knows of its two rows (g and g + 8 of the tile): the keys they see are [from, to).
struct Rows {
  int from[2], to[2];
};
__device__ __forceinline__ Rows rows_of(const AttentionArgs& a, const Plan& plan, const Item& item, int first) {
  const int g = (threadIdx.x & 31) >> 2;
  Rows rows;
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int row = first + g + r * 8;
    rows.from[r] = rows.to[r] = 0;
    if (row < item.rows) {
      const int token = item.token0 + plan.token_of(item.packed0 + row);
      rows.from[r] = visible_start(a.positions[token], plan);
      rows.to[r] = min(item.kvEnd, visible_end(a, plan, token));
    }
  }
  return rows;
}

// What dots are multiplied by to be scores: by probabilities_of, in one instruction with the subtraction. Capped ones are scores already.
__device__ __forceinline__ float score_factor(float scale, float softcap) { return softcap > 0.f ? 1.f : __fmul_rn(scale, LOG2E); }

// Raw dots of 8 * TILES keys from `key` on: those of keys a row does not see become -inf, capped ones scores. top: each row's highest score in
// this lane.
template <int TILES>
__device__ __forceinline__ void scores_of(float (*s)[4], const Rows& rows, int key, float scale, float softcap, float* top) {
  const int q = threadIdx.x & 3;
  if (softcap > 0.f) {
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) s[i][j] = score_of(s[i][j], scale, softcap);
  }
  // Most units are seen whole by all rows: no masks there.
  const int end = key + 8 * TILES;
  if (rows.from[0] > key || rows.from[1] > key || rows.to[0] < end || rows.to[1] < end) {
#pragma unroll
    for (int i = 0; i < TILES; i++) {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const int r = j >> 1, at = key + i * 8 + 2 * q + (j & 1);
        if (at < rows.from[r] || at >= rows.to[r]) s[i][j] = MINUS_INF;
      }
    }
  }
  top[0] = top[1] = MINUS_INF;
#pragma unroll
  for (int i = 0; i < TILES; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) top[j >> 1] = fmaxf(top[j >> 1], s[i][j]);
  const float factor = score_factor(scale, softcap);
  top[0] = __fmul_rn(top[0], factor);
  top[1] = __fmul_rn(top[1], factor);
}
__device__ __forceinline__ float quad_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 1));
  return fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 2));
}
__device__ __forceinline__ float quad_sum(float v) {
  v = __fadd_rn(v, __shfl_xor_sync(0xffffffffu, v, 1));
  return __fadd_rn(v, __shfl_xor_sync(0xffffffffu, v, 2));
}

// Dots of 32 keys (4 tiles) become probabilities relative to m; sum: this lane's of each row. What a unit adds to d is the four groups'
// lane sums added ascending (unit_sum), then the quad's.
__device__ __forceinline__ void probabilities_of(float (*s)[4], float factor, const float* m, float* sum) {
  // A row that sees nothing: any finite number in m's place makes all its probabilities 2^-inf = 0.
  const float top[2] = {m[0] == MINUS_INF ? 0.f : m[0], m[1] == MINUS_INF ? 0.f : m[1]};
  sum[0] = sum[1] = 0.f;
#pragma unroll
  for (int i = 0; i < 4; i++) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int r = j >> 1;
      s[i][j] = exp2_of(__fmaf_rn(s[i][j], factor, -top[r]));
      sum[r] = __fadd_rn(sum[r], s[i][j]);
    }
  }
}
__device__ __forceinline__ float unit_sum(float a, float b, float c, float d) {
  return quad_sum(__fadd_rn(__fadd_rn(__fadd_rn(a, b), c), d));
}

// Takes the unit's raw dots s[UNIT/8][4] into its chunk's m and d; they become probabilities. factor: what the chunk's o is multiplied by.
__device__ __forceinline__ void softmax_unit(float (*s)[4], const Rows& rows, int unit, float scale, float softcap, float* m, float* d, float* factor) {
  float top[2];
  scores_of<UNIT / 8>(s, rows, unit, scale, softcap, top);
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const float was = m[r];
    m[r] = fmaxf(was, quad_max(top[r]));
    factor[r] = rescale(was, m[r]);
  }
  float sum[2], more[2];
  const float factorOfDots = score_factor(scale, softcap);
  probabilities_of(s, factorOfDots, m, sum);
#pragma unroll
  for (int i = 1; i < 4; i++) {
    probabilities_of(s + 4 * i, factorOfDots, m, more);
    sum[0] = __fadd_rn(sum[0], more[0]);
    sum[1] = __fadd_rn(sum[1], more[1]);
  }
#pragma unroll
  for (int r = 0; r < 2; r++) d[r] = __fadd_rn(__fmul_rn(d[r], factor[r]), quad_sum(sum[r]));
}

// What p points to stays in memory: the compiler knows no more where that is.
template <class T>
__device__ __forceinline__ void keep_in_memory(T*& p) {
#ifdef __CUDACC__
  asm volatile("" : "+l"(p));
#endif
}

// Sums of two rows times a factor each.
template <int TILES>
__device__ __forceinline__ void scale_rows(float (*o)[4], const float* factor) {
#pragma unroll
  for (int n = 0; n < TILES; n++)
#pragma unroll
    for (int j = 0; j < 4; j++) o[n][j] = __fmul_rn(o[n][j], factor[j >> 1]);
}
template <int TILES>
__device__ __forceinline__ void clear_rows(float (*o)[4]) {
#pragma unroll
  for (int n = 0; n < TILES; n++)
#pragma unroll
    for (int j = 0; j < 4; j++) o[n][j] = 0.f;
}

// The running state of two rows (g and g + 8), and a chunk's state folded into it.
struct RunningMd {
  float m[2] = {MINUS_INF, MINUS_INF}, d[2] = {0.f, 0.f};
};
// `to`: total, or another, and then total stays as it is. Both are aligned to 16 bytes.
template <int TILES>
__device__ __forceinline__ void fold_chunk_into(float (*to)[4], float (*total)[4], RunningMd& running, float (*o)[4], const float* m, const float* d) {
  const Fold fold0(running.m[0], m[0]), fold1(running.m[1], m[1]);
  running.m[0] = fold0.m; running.m[1] = fold1.m;
  running.d[0] = fold0(running.d[0], d[0]); running.d[1] = fold1(running.d[1], d[1]);
#pragma unroll
  for (int n = 0; n < TILES; n++) {
    const Quad t = *(const Quad*)total[n];
    *(Quad*)to[n] = {fold0(t.v[0], o[n][0]), fold0(t.v[1], o[n][1]), fold1(t.v[2], o[n][2]), fold1(t.v[3], o[n][3])};
  }
}
// The same of the first chunk, when nothing is running.
template <int TILES>
__device__ __forceinline__ void first_chunk_into(float (*to)[4], RunningMd& running, float (*o)[4], const float* m, const float* d) {
#pragma unroll
  for (int r = 0; r < 2; r++) {
    running.m[r] = m[r];
    running.d[r] = d[r];
  }
#pragma unroll
  for (int n = 0; n < TILES; n++)
    *(Quad*)to[n] = {__fadd_rn(o[n][0], 0.f), __fadd_rn(o[n][1], 0.f), __fadd_rn(o[n][2], 0.f), __fadd_rn(o[n][3], 0.f)};
}
template <int TILES>
__device__ __forceinline__ void fold_chunk(float (*total)[4], RunningMd& running, float (*o)[4], float* m, float* d) {
  fold_chunk_into<TILES>(total, total, running, o, m, d);
}

// The A fragment of 16 keys' probabilities: the scores' own registers, rounded to 16 bits.
template <int KIND>
__device__ __forceinline__ void probability_fragment(u32* a, float (*s)[4]) {
  a[0] = round2<KIND>(s[0][0], s[0][1]);
  a[1] = round2<KIND>(s[0][2], s[0][3]);
  a[2] = round2<KIND>(s[1][0], s[1][1]);
  a[3] = round2<KIND>(s[1][2], s[1][3]);
}

// o[16 rows x 16 dims] (two n8 tiles) += p (16 keys from `key` on) . v at 16-byte columns `column`, `column + 1`.
template <int KIND>
__device__ __forceinline__ void add_values(float (*o)[4], const u32* p, const u8* v, int key, int column, int groupBytes) {
  const int lane = threadIdx.x & 31, matrix = lane >> 3, in = lane & 7;
  u32 b[4];
  ldmatrix_x4_trans(b, v + ((key >> 3) + (matrix & 1)) * groupBytes + (column + (matrix >> 1)) * 128 + in * 16);
  mma16816<KIND>(o[0], p, b[0], b[1]);
  mma16816<KIND>(o[1], p, b[2], b[3]);
}

// Queries that multiply codes without their factors (attention-fp8.cuh) are brought * 2^QUERY_SHIFT.
#define QUERY_SHIFT 96
#define POWER_OF_TWO(n) __int_as_float((127 + (n)) << 23)
// 8 dims of packed row `row` of the item, from dim c on, as the tile's 16 bytes; zero beyond the item's rows and the head's dims.
template <int KIND, int SHIFT = 0>
__device__ __forceinline__ uint4 query_column(const AttentionArgs& a, const Plan& plan, const Item& item, int kvHead, int row, int c) {
  uint4 bits = {0, 0, 0, 0};
  if (row < item.rows && c < a.keyDim) {
    const int p = item.packed0 + row;
    const float2* x = (const float2*)(a.q + (i64)(item.token0 + plan.token_of(p)) * a.qStride + (i64)plan.head_of(p, kvHead) * a.keyDim + c);
    float2 v[4] = {x[0], x[1], x[2], x[3]};
    if constexpr (SHIFT != 0) {
#pragma unroll
      for (int i = 0; i < 4; i++) v[i] = make_float2(__fmul_rn(v[i].x, POWER_OF_TWO(SHIFT)), __fmul_rn(v[i].y, POWER_OF_TWO(SHIFT)));
    }
    bits.x = pack2(v[0].x, v[0].y, KIND);
    bits.y = pack2(v[1].x, v[1].y, KIND);
    bits.z = pack2(v[2].x, v[2].y, KIND);
    bits.w = pack2(v[3].x, v[3].y, KIND);
  }
  return bits;
}
// 16 packed rows of q, from `first` on, as a [16][DK] tile, by `threads` threads.
template <int KIND, int DK, int SHIFT = 0>
__device__ __forceinline__ void load_q(u8* tile, const AttentionArgs& a, const Plan& plan, const Item& item, int kvHead, int first, int thread, int threads) {
  for (int at = thread; at < 2 * DK; at += threads) {
    const int row = at / (DK / 8), column = at % (DK / 8);
    *(uint4*)(tile + tile_at(row, column, DK * 16)) = query_column<KIND, SHIFT>(a, plan, item, kvHead, first + row, column * 8);
  }
}

// The type in which pages of kind PAGES are multiplied, and that of which they consist.
#define KIND_OF(PAGES) ((PAGES) == KIND_FP8 ? KIND_BF16 : (PAGES))
template <int PAGES> struct ElementOf { using Type = u16; };
template <> struct ElementOf<KIND_FP8> { using Type = u8; };

// Where keys or values of one kv head lie in the pool, in elements: codes of fp8, 16-bit numbers of the others.
template <int PAGES>
struct HeadPages {
  using Element = typename ElementOf<PAGES>::Type;
  static constexpr int BYTES = sizeof(Element), PIECE = 16 / BYTES;  // of an element; elements of 16 bytes
  const Element* first;   // of page 0
  i64 pageStride;
  int dim, shift, mask;
  // Of a key of `dim` numbers.
  static __device__ __forceinline__ int slot(int dim) { return PAGES == KIND_FP8 ? fp8_slot(dim) : dim; }
  __device__ __forceinline__ HeadPages(const AttentionArgs& a, int kvHead, bool isValue) {
    dim = isValue ? a.valueDim : a.keyDim;
    first = (const Element*)a.pool + a.layerOffset + (isValue ? a.valueOffset : 0) + (i64)kvHead * a.pageSize * slot(dim);
    pageStride = a.pageStride;
    shift = a.pageShift;
    mask = a.pageSize - 1;
  }
  // Of a key that is a multiple of 8: the 8 keys' core matrices, and those of the page's keys behind them.
  __device__ __forceinline__ const Element* at(int page, int key) const { return first + page * pageStride + (key & mask) * slot(dim); }
};

// A state's o of two rows and m, d to a partial, by the lanes of the tile they are in. `column`: of o[0][0] in this lane.
template <int TILES>
__device__ __forceinline__ void put_state(const AttentionArgs& a, const Plan& plan, const Item& item, int kvHead, int partial, int first,
                                          float (*o)[4], const float* m, const float* d, int column, bool putsMd) {
  const int g = (threadIdx.x & 31) >> 2;
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int row = first + g + r * 8;
    if (row >= item.rows) continue;
    const i64 state = state_of(a, plan, partial, kvHead, row);
    if (putsMd) a.partialMd[state] = make_float2(m[r], d[r]);
#pragma unroll
    for (int n = 0; n < TILES; n++)
      if (column + n * 8 < a.valueDim) *(float2*)(a.partialO + state * a.valueDim + column + n * 8) = make_float2(o[n][2 * r], o[n][2 * r + 1]);
  }
}
// The same as the tile's output. IS_WHOLE: `column` is below 8 and o has all of the value's dims, a multiple of 64.
template <int TILES, bool IS_WHOLE>
__device__ __forceinline__ void put_rows(const AttentionArgs& a, const Plan& plan, const Item& item, int kvHead, int first, float (*o)[4],
                                         const float* m, const float* d, int column) {
  const int g = (threadIdx.x & 31) >> 2;
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int row = first + g + r * 8, p = item.packed0 + row;
    if (row >= item.rows) continue;
    const int token = item.token0 + plan.token_of(p), head = plan.head_of(p, kvHead), k0 = head * a.valueDim + column;
    const float factor = final_factor(m[r], d[r], a.sinks, head);
    float* out = a.out + (i64)token * a.outStride + k0;
#pragma unroll
    for (int n = 0; n < TILES; n++) {
      o[n][2 * r] = __fmul_rn(o[n][2 * r], factor);
      o[n][2 * r + 1] = __fmul_rn(o[n][2 * r + 1], factor);
      if (IS_WHOLE || column + n * 8 < a.valueDim) *(float2*)(out + n * 8) = make_float2(o[n][2 * r], o[n][2 * r + 1]);
    }
    if (a.operand.data == nullptr) continue;
    if (IS_WHOLE && a.operand.order == ORDER_TILE) {  // tile_index, whose steps along n are known
      u16* to = a.operand.data + tile_index(token, k0 & ~63, a.operand.tokens8) - (token & 7) * 8 + column;
#pragma unroll
      for (int n = 0; n < TILES; n++)
        *(u32*)(to + (i64)(n >> 3) * (a.operand.tokens8 << 9) + (((n & 7) ^ (token & 7)) << 3)) = pack2(o[n][2 * r], o[n][2 * r + 1], a.operand.kind);
    } else if (IS_WHOLE && a.operand.order == ORDER_ROWS) {
      u16* to = a.operand.data + (i64)token * a.operand.tokens8 + k0;
#pragma unroll
      for (int n = 0; n < TILES; n++) *(u32*)(to + n * 8) = pack2(o[n][2 * r], o[n][2 * r + 1], a.operand.kind);
    } else {
#pragma unroll
      for (int n = 0; n < TILES; n++)
        if (IS_WHOLE || column + n * 8 < a.valueDim) put_pair(a.operand, token, k0 + n * 8, o[n][2 * r], o[n][2 * r + 1]);
    }
  }
}
