// Queries, keys and values as the projection left them: in steps of one token a row the decode kernel turns its queries itself, and the block
// that has a row's last unit turns and appends the row's key and value (rotary.cu does it for all other steps, with the same bits). That is
// a launch less between the projection and attention; and all pages are asked for before the kernels ahead have ended, since the new key and
// value go over what their pages held.
#pragma once
#include "attention-bulk.cuh"
#include "turn.cuh"

struct TurnedArgs : AttentionArgs {
  const float* k; const float* v;
  const float* cos; const float* sin;  // [token][keyDim / 2]
  i64 kStride, vStride;
};

__device__ __forceinline__ void load8(float* to, const float* from) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float2 x = ((const float2*)from)[i];
    to[2 * i] = x.x;
    to[2 * i + 1] = x.y;
  }
}
template <int KIND>
__device__ __forceinline__ uint4 pack8(const float* x) {
  return {pack2(x[0], x[1], KIND), pack2(x[2], x[3], KIND), pack2(x[4], x[5], KIND), pack2(x[6], x[7], KIND)};
}
// 8 dims of a token's head, from dim c on, turned: dim i and dim i + DIM / 2 are a pair.
template <int KIND, int DIM>
__device__ __forceinline__ uint4 turned_column(const TurnedArgs& a, const float* head, int token, int c) {
  constexpr int HALF = DIM / 2;
  const bool isSecond = c >= HALF;
  const int i = isSecond ? c - HALF : c;
  float x[8], y[8], cos[8], sin[8];
  load8(x, head + i);
  load8(y, head + HALF + i);
  load8(cos, a.cos + (i64)token * HALF + i);
  load8(sin, a.sin + (i64)token * HALF + i);
#pragma unroll
  for (int j = 0; j < 8; j++) {
    turn(x[j], y[j], cos[j], sin[j]);
    if (isSecond) x[j] = y[j];
  }
  return pack8<KIND>(x);
}

// The new key and value of an item's row, in columns of 16 bytes, until their unit is multiplied.
template <int DK, int DV>
struct NewKey {
  uint4 key[DK / 8], value[DV / 8];
};

// What the one token of an item's row sees (rows_of of attention-mma.cuh): the plan knows it.
__device__ __forceinline__ Rows rows_of_one(const Plan& plan, const Item& item) {
  const int g = (threadIdx.x & 31) >> 2, from = visible_start(item.newStart, plan), to = min(item.kvEnd, item.newStart + 1);
  Rows rows = {{0, 0}, {0, 0}};
#pragma unroll
  for (int r = 0; r < 2; r++)
    if (g + r * 8 < item.rows) { rows.from[r] = from; rows.to[r] = to; }
  return rows;
}

// The item's queries as a [16][DK] tile; in the row's last item also its new key and value, to `fresh` and to their pages. By the threads of
// WARPS warps: queries are the first threads' and the key follows them, the value is the last warp's, so that all loads are made at once.
template <int KIND, int DK, int DV, int THREADS>
__device__ __forceinline__ void load_turned(u8* tile, NewKey<DK, DV>& fresh, const TurnedArgs& a, const Plan& plan, const Item& item, int kvHead) {
  const int token = item.token0, key = item.newStart;
  const bool isLast = key < item.kvEnd;
  const int page = isLast ? a.step[item.pagesAt + (key >> a.pageShift)] : 0;  // asked for with all else
  auto append = [&](bool isValue, int column, const uint4& bits) {
    const HeadPages<KIND> pages(a, kvHead, isValue);
    *(uint4*)(pages.at(page, key & ~7) + column * 64 + (key & 7) * 8) = bits;
  };
#pragma unroll 1
  for (int at = threadIdx.x; at < 17 * (DK / 8); at += THREADS) {
    const int r = at / (DK / 8), column = at % (DK / 8);
    if (r > item.rows) {  // rows behind the item's
      *(uint4*)(tile + tile_at(r - 1, column, DK * 16)) = {0, 0, 0, 0};
      continue;
    }
    const bool isKey = r == item.rows;
    if (isKey && !isLast) continue;
    const float* head = isKey ? a.k + token * a.kStride + kvHead * DK : a.q + token * a.qStride + plan.head_of(item.packed0 + r, kvHead) * DK;
    const uint4 bits = turned_column<KIND, DK>(a, head, token, column * 8);
    *(isKey ? fresh.key + column : (uint4*)(tile + tile_at(r, column, DK * 16))) = bits;
    if (isKey) append(false, column, bits);
  }
  const int column = threadIdx.x - (THREADS - 32);
  if (isLast && column >= 0 && column < DV / 8) {
    float x[8];
    load8(x, a.v + token * a.vStride + kvHead * DV + column * 8);
    fresh.value[column] = pack8<KIND>(x);
    append(true, column, fresh.value[column]);
  }
}

// COUNT columns of a new key or value, from `column` on, over what its page held: for the warp that reads them. The next copy to the slot
// comes after it.
__device__ __forceinline__ void put_new(u8* slot, const uint4* columns, int row, int column, int count, int groupBytes) {
  const int lane = threadIdx.x & 31;
  if (lane < count) *(uint4*)(slot + tile_at(row, column + lane, groupBytes)) = columns[column + lane];
  fence_stores();
  __syncwarp();
}
