// Pages of a unit by bulk copies, for the one warp of a block that asks for them (sm_90 on).
#pragma once
#include "attention-mma.cuh"
#include "bulk.cuh"

// Lane l knows the l-th page of a unit; the elected lane, where one copies for all, finds them in `ids`.
struct UnitPages {
  const int* pages;  // the batch row's
  int* ids;          // [32], shared memory
  int lo, hi, copyKeys, shift, lane;
  __device__ __forceinline__ UnitPages(const AttentionArgs& a, const Item& item, int* ids_)
      : pages(a.step + item.pagesAt), ids(ids_), lo(item.lo), hi(item.kvEnd), copyKeys(min(a.pageSize, UNIT)), shift(a.pageShift), lane(threadIdx.x & 31) {}

  // This lane's page id; -1: none, or none of its keys is seen.
  __device__ __forceinline__ int of(int unit) const {
    const int key = unit + lane * copyKeys;
    return lane * copyKeys < UNIT && key < hi && key + copyKeys > lo ? pages[key >> shift] : -1;
  }
  // Says how many bytes the barrier will see of the unit's pages.
  __device__ __forceinline__ void expect(u64* barrier, int id, int dim) const {
    const int count = __popc(__ballot_sync(0xffffffffu, id >= 0));
    if (lane == 0) barrier_expect(barrier, count * copyKeys * dim * 2);
    __syncwarp();
  }
  // Copies the pages whose ids the lanes give, by one elected lane; nobody will read them again soon.
  __device__ __forceinline__ void copy_once(u8* slot, const HeadPages& from, int unit, int id, u64* barrier) const {
    const int bytes = copyKeys * from.dim * 2, copies = UNIT / copyKeys;
    __syncwarp();
    ids[lane] = id;
    __syncwarp();
    if (is_elected()) {
#pragma unroll 1
      for (int i = 0; i < copies; i++) {
        const int page = ids[i];
        if (page >= 0) bulk_copy_once(slot + i * bytes, from.at(page, unit + i * copyKeys), bytes, barrier);
      }
    }
  }
  // The same by the lanes, each its own page: the form in which the extend kernel was measured.
  __device__ __forceinline__ void copy(u8* slot, const HeadPages& from, int unit, int id, u64* barrier) const {
    const int bytes = copyKeys * from.dim * 2;
    if (id >= 0) bulk_copy(slot + lane * bytes, from.at(id, unit + lane * copyKeys), bytes, barrier);
  }
};
