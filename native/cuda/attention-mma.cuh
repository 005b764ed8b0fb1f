// The tensor-core pieces of attention on 16 packed query rows: scores of 16 keys, the softmax of a unit, values of 16 keys.
// Shared by the decode and the extend kernel, so that both give the same bits.
//
// Tiles in shared memory are rows of DIM 16-bit numbers (DIM a multiple of 64), their 16-byte columns XORed with row % 8, which
// keeps ldmatrix free of bank conflicts. Dims beyond the head's own are zero.
#pragma once
#include "attention.cuh"

template <int DIM>
__device__ __forceinline__ int tile_at(int row, int column) {  // byte offset of a 16-byte column
  return row * (DIM * 2) + ((column ^ (row & 7)) << 4);
}

// s[KEYS/8][4] (16 rows x KEYS keys) += q . k. q: A fragments by ldmatrix from a [16][DK] tile; k: the keys from row `key` on.
template <int KIND, int DK, int KEYS>
__device__ __forceinline__ void score_keys(float (*s)[4], const u8* q, const u8* k, int key, int steps) {
  const int lane = threadIdx.x & 31, matrix = lane >> 3, in = lane & 7;
  // The XOR of tile_at needs the row's low bits alone, and rows here are `in` modulo 8.
  const u8* qRow = q + ((matrix & 1) * 8 + in) * (DK * 2);
  const u8* kRow = k + (key + (matrix >> 1) * 8 + in) * (DK * 2);
#pragma unroll
  for (int i = 0; i < DK / 16; i++) {
    if (i < steps) {
      // All fragments of the step first: their loads overlap, and the products then follow one another without waiting.
      u32 a[4], b[KEYS / 16][4];
      ldmatrix_x4(a, qRow + (((2 * i + (matrix >> 1)) ^ in) << 4));
#pragma unroll
      for (int n = 0; n < KEYS / 16; n++) ldmatrix_x4(b[n], kRow + n * 16 * DK * 2 + (((2 * i + (matrix & 1)) ^ in) << 4));
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

// Turns the unit's raw dots s[UNIT/8][4] into probabilities; gives each row's m and d. Keys count from `unit`.
__device__ __forceinline__ void softmax_unit(float (*s)[4], const Rows& rows, int unit, float scale, float softcap, float* m,
                                             float* d) {
  const int q = threadIdx.x & 3;
  m[0] = m[1] = MINUS_INF;
  if (softcap > 0.f) {
#pragma unroll
    for (int i = 0; i < UNIT / 8; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) s[i][j] = score_of(s[i][j], scale, softcap);
  } else {
    const float factor = __fmul_rn(scale, LOG2E);
#pragma unroll
    for (int i = 0; i < UNIT / 8; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) s[i][j] = __fmul_rn(s[i][j], factor);
  }
  // Most units are seen whole by all rows: no masks there.
  const bool isWhole = rows.from[0] <= unit && rows.from[1] <= unit && rows.to[0] >= unit + UNIT && rows.to[1] >= unit + UNIT;
  if (!isWhole) {
#pragma unroll
    for (int i = 0; i < UNIT / 8; i++) {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const int r = j >> 1, key = unit + i * 8 + 2 * q + (j & 1);
        if (key < rows.from[r] || key >= rows.to[r]) s[i][j] = MINUS_INF;
      }
    }
  }
#pragma unroll
  for (int i = 0; i < UNIT / 8; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) m[j >> 1] = fmaxf(m[j >> 1], s[i][j]);
#pragma unroll
  for (int r = 0; r < 2; r++) {
    m[r] = fmaxf(m[r], __shfl_xor_sync(0xffffffffu, m[r], 1));
    m[r] = fmaxf(m[r], __shfl_xor_sync(0xffffffffu, m[r], 2));
    d[r] = 0.f;
  }
  // A row that sees nothing: any finite number in m's place makes all its probabilities 2^-inf = 0.
  const float top[2] = {m[0] == MINUS_INF ? 0.f : m[0], m[1] == MINUS_INF ? 0.f : m[1]};
#pragma unroll
  for (int i = 0; i < UNIT / 8; i++) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int r = j >> 1;
      s[i][j] = exp2_of(__fsub_rn(s[i][j], top[r]));
      d[r] = __fadd_rn(d[r], s[i][j]);
    }
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    d[r] = __fadd_rn(d[r], __shfl_xor_sync(0xffffffffu, d[r], 1));
    d[r] = __fadd_rn(d[r], __shfl_xor_sync(0xffffffffu, d[r], 2));
  }
}

// The A fragment of 16 keys' probabilities: the scores' own registers, rounded to 16 bits.
template <int KIND>
__device__ __forceinline__ void probability_fragment(u32* a, float (*s)[4]) {
  a[0] = round2<KIND>(s[0][0], s[0][1]);
  a[1] = round2<KIND>(s[0][2], s[0][3]);
  a[2] = round2<KIND>(s[1][0], s[1][1]);
  a[3] = round2<KIND>(s[1][2], s[1][3]);
}

// o[16 rows x 16 dims] (two n8 tiles) += p (16 keys from `key`) . v at 16-byte columns `column`, `column + 1`.
template <int KIND, int DV>
__device__ __forceinline__ void add_values(float (*o)[4], const u32* p, const u8* v, int key, int column) {
  const int lane = threadIdx.x & 31, matrix = lane >> 3, in = lane & 7;
  u32 b[4];
  ldmatrix_x4_trans(b, v + tile_at<DV>(key + (matrix & 1) * 8 + in, column + (matrix >> 1)));
  mma16816<KIND>(o[0], p, b[0], b[1]);
  mma16816<KIND>(o[1], p, b[2], b[3]);
}

// 16 packed rows of q, from `packed` on, as a [16][DK] tile; rows at or beyond packedEnd and dims beyond keyDim are zero.
template <int KIND, int DK>
__device__ __forceinline__ void load_q(u8* tile, const AttentionArgs& a, int token0, int group, int kvHead, int packed, int packedEnd) {
  for (int at = threadIdx.x & 31; at < 16 * (DK / 2); at += 32) {
    const int r = at / (DK / 2), c = 2 * (at % (DK / 2)), p = packed + r;
    u32 bits = 0;
    if (p < packedEnd && c < a.keyDim) {
      const float* x = a.q + (i64)(token0 + p / group) * a.qStride + (i64)(kvHead * group + p % group) * a.keyDim + c;
      bits = pack2(x[0], x[1], KIND);
    }
    *(u32*)(tile + tile_at<DK>(r, c >> 3) + (c & 7) * 2) = bits;
  }
}

__device__ __forceinline__ Rows rows_of(const AttentionArgs& a, const Plan& plan, int token0, int packed, int packedEnd, int kvEnd) {
  const int g = (threadIdx.x & 31) >> 2;
  Rows rows;
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int p = packed + g + r * 8;
    rows.from[r] = rows.to[r] = 0;
    if (p < packedEnd) {
      const int token = token0 + p / plan.group;
      rows.from[r] = visible_start(a.positions[token], plan);
      rows.to[r] = min(kvEnd, visible_end(a, plan, token));
    }
  }
  return rows;
}

// Where keys or values of one kv head lie in the pool, in elements.
struct HeadPages {
  const u16* first;   // of page 0
  i64 pageStride;
  int slotStride, shift, mask, dim;
};
__device__ __forceinline__ HeadPages head_pages(const AttentionArgs& a, int kvHead, bool isValue) {
  HeadPages h;
  h.slotStride = isValue ? a.valueSlot : a.keySlot;
  h.first = (const u16*)a.pool + a.layerOffset + (isValue ? a.valueOffset : 0) + (i64)kvHead * a.pageSize * h.slotStride;
  h.pageStride = a.pageStride;
  h.shift = a.pageShift;
  h.mask = a.pageSize - 1;
  h.dim = isValue ? a.valueDim : a.keyDim;
  return h;
}

// The copy of 16 keys' vectors, from key `base` (a multiple of 16) on, into rows of a tile, by one warp. `pages` is the row's table.
// Keys outside [lo, hi) become zeros: their pages may hold anything.
template <int DIM>
__device__ __noinline__ void copy_16_any(u8* tile, const HeadPages& h, const int* pages, int base, int lo, int hi) {
  constexpr int COLUMNS = DIM / 8;
  for (int at = threadIdx.x & 31; at < 16 * COLUMNS; at += 32) {
    const int r = at / COLUMNS, c = at % COLUMNS, key = base + r;
    const bool isWanted = key >= lo && key < hi && c * 8 < h.dim;
    const i64 page = isWanted ? pages[key >> h.shift] : 0;
    copy16(tile + tile_at<DIM>(r, c), h.first + page * h.pageStride + (key & h.mask) * h.slotStride + c * 8, isWanted);
  }
}

// The same for 16 keys that all are wanted and lie in one page, whose id is known: a few instructions for each copy. Short code
// matters here: the kernels run through it once per 16 keys, and longer code would not stay in the instruction cache.
template <int DIM>
__device__ __forceinline__ void copy_16_keys(u8* tile, const HeadPages& h, const int* pages, int page, int base, int lo, int hi) {
  constexpr int COLUMNS = DIM / 8, ROWS = 32 / COLUMNS;  // rows copied at a time
  if (32 % COLUMNS != 0 || h.shift < 4 || base < lo || base + 16 > hi || h.dim != DIM) {
    copy_16_any<DIM>(tile, h, pages, base, lo, hi);
    return;
  }
  const int lane = threadIdx.x & 31, first = lane / COLUMNS, c = lane % COLUMNS;
  const u16* from = h.first + (i64)page * h.pageStride + ((base & h.mask) + first) * h.slotStride + c * 8;
  u8* to = tile + tile_at<DIM>(first, c);
#pragma unroll
  for (int i = 0; i < 16 / (ROWS > 0 ? ROWS : 1); i++) {
    // Row first + i * ROWS: the column's XOR changes by the bits that i adds to the row.
    u8* at = (u8*)((u64)(to + i * ROWS * DIM * 2) ^ (u64)(((i * ROWS) & 7) << 4));
    copy16(at, from + i * ROWS * h.slotStride);
  }
}
