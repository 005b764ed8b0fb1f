// What adapters add to a product: out[t] += b (scale * (a x[t])), each row by its own adapter, in two launches whatever adapters there are.
//
//   low_rank_shrink   partial[chunk][p][rank] = a x[t] over the columns of the chunk      a [rank][inputs], x [n][inputs]
//                     shrunk[p][rank] = scale * sum over chunks, by the block that comes last: while the product runs, nobody waits for it
//   low_rank_expand   out[t][firstCol + c] += b[c] . shrunk[p]                            b [cols][rank]
//
// The product itself comes first where its kernel holds others back until its own input is there (matmul-stream.cuh): then x is shrunk while it runs.
//
// Rows come in items: up to 8 * TILES list entries p of one adapter. Items are data, as is the table of what each slot's adapter has here, so
// that a graph serves every grouping; blocks without an item or without a matrix end at once. Rows of no adapter are in no item.
//
// Matrices are bf16, those that bf16 does not hold a second plane of what it leaves; x and what it is shrunk to are split the same way, so
// that products on the tensor cores keep 16 bits. Ranks are true: rows past a's rank are registers of zeros, never memory.
//
// Batch invariance: chunks of 256 or 512 inputs, of which each warp takes every fourth 32, and sums of warps and of chunks added in order: the
// inputs alone decide it. A column of a product on the tensor cores does not know its neighbours.
#include "common.cuh"

#define SHRINK_WARPS 4
#define EXPAND_WARPS 8
#define EXPAND_TILES 2   // of 16 columns, of a warp
#define RANK_SLICE 64    // ranks an expanding block holds at a time
#define SLICE_STRIDE 72  // of its rows: no two tokens in one bank

struct LowRankSite {
  const u16* a; const u16* b;  // padded to 32 inputs and 8 ranks; the second planes follow
  int rank, ranks8, firstCol, cols, offset, isWide;
  float scale; int pad;
};
struct Item { int slot, from, to, pad; };

struct LowRankArgs {
  float* out; const float* x; float* partial;
  float* shrunk;  // [entries][width]
  int* arrived;   // [items][sites] blocks of the shrinking launch that have come; zero between launches
  const LowRankSite* table; const Item* items; const int* rows;  // rows: t by list entry
  i64 outStride, xStride;
  int sites;     // of a slot in the table
  int n;         // rows of x and out
  int firstRow;  // t of row 0
  int firstEntry, entries;  // p = list entry - firstEntry, below entries
  int inputs, chunk, width;  // width: ranks of all sites of an adapter, at most
  int waitsLast, pad;        // shrink: x is there, since the product ahead began when it was; the wait, for what comes behind, is the end
};

__device__ __forceinline__ float high_part(float v) { return __uint_as_float((u32)bf16_bits(v) << 16); }

// Two numbers as bf16, and what that leaves of them.
__device__ __forceinline__ void split2(float v0, float v1, u32& high, u32& low) {
  high = round2<KIND_BF16>(v0, v1);
  low = round2<KIND_BF16>(v0 - __uint_as_float(high << 16), v1 - __uint_as_float(high & 0xFFFF0000u));
}

// Eight inputs of a row from k on; those past the end are zero.
__device__ __forceinline__ void read8(float* v, const float* x, int k, int inputs, bool isAligned) {
  if (isAligned && k + 8 <= inputs) {
    load_past_l1(v, x + k);
    load_past_l1(v + 4, x + k + 4);
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; i++) v[i] = k + i < inputs ? load_past_l1(x + k + i) : 0.f;
}

__device__ __forceinline__ uint4 read_weights(const u16* row, bool isThere) {
  return isThere ? *(const uint4*)row : uint4{0, 0, 0, 0};
}

// The block that comes last of an item's at a site adds its chunks up, in order.
__device__ __forceinline__ void add_chunks(const LowRankArgs& a, const Item& item, const LowRankSite& site) {
  __shared__ int isLast;
  int* const arrived = a.arrived + blockIdx.y * a.sites + blockIdx.z;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    isLast = atomicAdd(arrived, 1) == (int)gridDim.x - 1;
    if (isLast) *arrived = 0;
  }
  __syncthreads();
  if (!isLast) return;
  __threadfence();
  const i64 stride = (i64)a.entries * a.width;
  for (int at = threadIdx.x; at < (item.to - item.from) * site.rank; at += 32 * SHRINK_WARPS) {
    const i64 to = (i64)(item.from + at / site.rank - a.firstEntry) * a.width + site.offset + at % site.rank;
    float total = 0.f;
#pragma unroll 16
    for (int c = 0; c < (int)gridDim.x; c++) total += load_past_l1(a.partial + to + c * stride);
    a.shrunk[to] = total * site.scale;
  }
}

// grid: chunks, items, sites.
template <int TILES>
__device__ __forceinline__ void shrink(const LowRankArgs& a) {
  __shared__ float sums[SHRINK_WARPS][16 * 8 * TILES];
  const Item item = a.items[blockIdx.y];
  LowRankSite site;
  site.rank = 0;
  if (item.slot >= 0) site = a.table[item.slot * a.sites + blockIdx.z];
  if (site.rank == 0) {
    wait_for_others();  // what comes after this launch counts on it
    return;
  }
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, q = lane & 3;
  const int first = blockIdx.x * a.chunk, end = min(first + a.chunk, a.inputs);
  const i64 padded = (a.inputs + 31) / 32 * 32, plane = site.rank * padded;
  // Neither a nor the list of rows is a kernel's result: they are on their way while others end.
  for (int r = g; r < min(site.rank, 16); r += 8)
    for (int k = first + 32 * warp + 8 * q; k < end; k += 32 * SHRINK_WARPS) fetch_ahead(site.a + r * padded + k);
  const float* x[TILES];
#pragma unroll
  for (int i = 0; i < TILES; i++) {
    const int p = item.from + 8 * i + g;
    const int t = p < item.to ? a.rows[p] - a.firstRow : -1;
    x[i] = t >= 0 && t < a.n ? a.x + t * a.xStride : nullptr;
  }
  if (!a.waitsLast) wait_for_others();
  const bool isAligned = ((u64)a.x & 15) == 0 && (a.xStride & 3) == 0;
  for (int r0 = 0; r0 < site.rank; r0 += 16) {
    float sum[TILES][4] = {};
    const bool hasLow = r0 + g < site.rank, hasHigh = r0 + g + 8 < site.rank;
    for (int k0 = first + 32 * warp; k0 < end; k0 += 2 * 32 * SHRINK_WARPS) {
      // Two steps of 32 inputs: all they need is asked for before the first is used.
      float v[2][TILES][8] = {};
      uint4 w[2][2][2];  // step; plane; rows g, g + 8
#pragma unroll
      for (int u = 0; u < 2; u++) {
        const int k = k0 + u * 32 * SHRINK_WARPS + 8 * q;
        const bool isIn = k0 + u * 32 * SHRINK_WARPS < end;
        const u16* row = site.a + (r0 + g) * padded + k;
        w[u][0][0] = read_weights(row, isIn && hasLow);
        w[u][0][1] = read_weights(row + 8 * padded, isIn && hasHigh);
        w[u][1][0] = read_weights(row + plane, isIn && hasLow && site.isWide);
        w[u][1][1] = read_weights(row + plane + 8 * padded, isIn && hasHigh && site.isWide);
#pragma unroll
        for (int i = 0; i < TILES; i++)
          if (isIn && x[i] != nullptr) read8(v[u][i], x[i], k, a.inputs, isAligned);
      }
#pragma unroll
      for (int u = 0; u < 2; u++) {
        if (k0 + u * 32 * SHRINK_WARPS >= end) break;
#pragma unroll
        for (int i = 0; i < TILES; i++) {
          // The order of k's within 32 is the same on both sides, and so any.
#pragma unroll
          for (int step = 0; step < 2; step++) {
            const float* own = v[u][i] + 4 * step;
            u32 high[2], low[2];
            split2(own[0], own[1], high[0], low[0]);
            split2(own[2], own[3], high[1], low[1]);
            auto half = [&](const uint4& m, int j) { return step ? (j ? m.w : m.z) : (j ? m.y : m.x); };
            const u32 m[4] = {half(w[u][0][0], 0), half(w[u][0][1], 0), half(w[u][0][0], 1), half(w[u][0][1], 1)};
            mma16816<KIND_BF16>(sum[i], m, high[0], high[1]);
            mma16816<KIND_BF16>(sum[i], m, low[0], low[1]);
            if (site.isWide) {
              const u32 rest[4] = {half(w[u][1][0], 0), half(w[u][1][1], 0), half(w[u][1][0], 1), half(w[u][1][1], 1)};
              mma16816<KIND_BF16>(sum[i], rest, high[0], high[1]);
            }
          }
        }
      }
    }
    __syncthreads();  // the sums of the ranks before are read
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) sums[warp][(8 * i + 2 * q + (j & 1)) * 16 + g + (j >> 1) * 8] = sum[i][j];
    __syncthreads();
    for (int at = threadIdx.x; at < 16 * 8 * TILES; at += 32 * SHRINK_WARPS) {
      const int r = r0 + (at & 15), p = item.from + (at >> 4);
      if (r >= site.rank || p >= item.to) continue;
      float total = sums[0][at];
#pragma unroll
      for (int i = 1; i < SHRINK_WARPS; i++) total += sums[i][at];
      a.partial[((i64)blockIdx.x * a.entries + p - a.firstEntry) * a.width + site.offset + r] = total;
    }
  }
  add_chunks(a, item, site);
  if (a.waitsLast) wait_for_others();
}
EARLY_KERNEL(32 * SHRINK_WARPS, low_rank_shrink_8, LowRankArgs) { shrink<1>(a); }
EARLY_KERNEL(32 * SHRINK_WARPS, low_rank_shrink_32, LowRankArgs) { shrink<4>(a); }

// grid: blocks of columns, items, sites.
template <int TILES>
__device__ __forceinline__ void expand(const LowRankArgs& a) {
  __shared__ u16 shrunk[2][8 * TILES * SLICE_STRIDE];  // high and low part: [entry][rank of the slice]
  const Item item = a.items[blockIdx.y];
  LowRankSite site;
  site.rank = 0;
  if (item.slot >= 0) site = a.table[item.slot * a.sites + blockIdx.z];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, q = lane & 3;
  const int block = blockIdx.x * EXPAND_WARPS * EXPAND_TILES * 16;
  if (site.rank == 0 || block >= site.cols) {
    wait_for_others();
    return;
  }
  const i64 plane = (i64)site.cols * site.ranks8;
  const int c0 = block + warp * EXPAND_TILES * 16;  // the warp's first column
  int t[TILES][2];
#pragma unroll
  for (int i = 0; i < TILES; i++) {
#pragma unroll
    for (int odd = 0; odd < 2; odd++) {
      const int p = item.from + 8 * i + 2 * q + odd;
      t[i][odd] = p < item.to ? a.rows[p] - a.firstRow : -1;
      if (t[i][odd] >= a.n) t[i][odd] = -1;
    }
  }
  // Those of the first 16 ranks before others end: most adapters have no more.
  auto columns_of = [&](uint2 (*w)[2], int tile, int r) {
    const int c = c0 + 16 * tile + g;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const bool isWanted = r < site.ranks8 && c + 8 * h < site.cols;
      const u16* row = site.b + (i64)(c + 8 * h) * site.ranks8 + r;
      w[0][h] = isWanted ? *(const uint2*)row : uint2{0, 0};
      w[1][h] = isWanted && site.isWide ? *(const uint2*)(row + plane) : uint2{0, 0};
    }
  };
  uint2 first[EXPAND_TILES][2][2];  // plane; columns c, c + 8
#pragma unroll
  for (int tile = 0; tile < EXPAND_TILES; tile++) columns_of(first[tile], tile, 4 * q);
  wait_for_others();
  // What the sums are added to comes while they are made.
  float old[TILES][2][2 * EXPAND_TILES];
#pragma unroll
  for (int i = 0; i < TILES; i++)
#pragma unroll
    for (int odd = 0; odd < 2; odd++)
#pragma unroll
      for (int h = 0; h < 2 * EXPAND_TILES; h++) {
        const int c = c0 + 8 * h + g;
        old[i][odd][h] = t[i][odd] >= 0 && c < site.cols ? a.out[t[i][odd] * a.outStride + site.firstCol + c] : 0.f;
      }
  float sum[EXPAND_TILES][TILES][4] = {};
  for (int r0 = 0; r0 < site.rank; r0 += RANK_SLICE) {
    const int ranks = min(RANK_SLICE, (site.rank - r0 + 15) / 16 * 16);
    __syncthreads();
    for (int at = threadIdx.x; at < ranks * 8 * TILES; at += 32 * EXPAND_WARPS) {
      const int r = at % ranks, i = at / ranks, p = item.from + i;
      const bool isThere = p < item.to && r0 + r < site.rank;
      const float total = isThere ? load_past_l1(a.shrunk + (i64)(p - a.firstEntry) * a.width + site.offset + r0 + r) : 0.f;
      const float high = high_part(total);
      shrunk[0][i * SLICE_STRIDE + r] = bf16_bits(total);
      shrunk[1][i * SLICE_STRIDE + r] = bf16_bits(total - high);
    }
    __syncthreads();
    for (int k = 4 * q; k < ranks; k += 16) {
#pragma unroll
      for (int tile = 0; tile < EXPAND_TILES; tile++) {
        uint2 w[2][2];
        if (r0 + k < 16) {
#pragma unroll
          for (int i = 0; i < 4; i++) w[i >> 1][i & 1] = first[tile][i >> 1][i & 1];
        } else columns_of(w, tile, r0 + k);
        const u32 m[4] = {w[0][0].x, w[0][1].x, w[0][0].y, w[0][1].y};
        const u32 rest[4] = {w[1][0].x, w[1][1].x, w[1][0].y, w[1][1].y};
#pragma unroll
        for (int i = 0; i < TILES; i++) {
          const uint2 high = *(const uint2*)&shrunk[0][(8 * i + g) * SLICE_STRIDE + k];
          const uint2 low = *(const uint2*)&shrunk[1][(8 * i + g) * SLICE_STRIDE + k];
          mma16816<KIND_BF16>(sum[tile][i], m, high.x, high.y);
          mma16816<KIND_BF16>(sum[tile][i], m, low.x, low.y);
          if (site.isWide) mma16816<KIND_BF16>(sum[tile][i], rest, high.x, high.y);
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < TILES; i++)
#pragma unroll
    for (int odd = 0; odd < 2; odd++) {
      if (t[i][odd] < 0) continue;
      float* out = a.out + t[i][odd] * a.outStride + site.firstCol;
#pragma unroll
      for (int h = 0; h < 2 * EXPAND_TILES; h++)
        if (c0 + 8 * h + g < site.cols) out[c0 + 8 * h + g] = old[i][odd][h] + sum[h >> 1][i][2 * (h & 1) + odd];
    }
}
EARLY_KERNEL(32 * EXPAND_WARPS, low_rank_expand_8, LowRankArgs) { expand<1>(a); }
EARLY_KERNEL(32 * EXPAND_WARPS, low_rank_expand_32, LowRankArgs) { expand<4>(a); }
