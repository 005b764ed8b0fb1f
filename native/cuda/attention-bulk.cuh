// Pages of a unit by bulk copies, for the one warp of a block that asks for them (sm_90 on).
#pragma once
#include "attention-mma.cuh"
#include "bulk.cuh"

// KEYS: of a unit, or of a part of one that is copied by itself. Lane l knows the l-th page of a unit.
template <int KEYS = UNIT>
struct UnitPages {
  const int* pages;  // the batch row's
  int lo, hi, copyKeys, shift, lane;
  __device__ __forceinline__ UnitPages(const AttentionArgs& a, const Item& item)
      : pages(a.step + item.pagesAt), lo(item.lo), hi(item.kvEnd), copyKeys(min(a.pageSize, KEYS)), shift(a.pageShift), lane(threadIdx.x & 31) {}

  // This lane's page id; -1: none, or none of its keys is seen.
  __device__ __forceinline__ int of(int unit) const {
    const int key = unit + lane * copyKeys;
    return lane * copyKeys < KEYS && key < hi && key + copyKeys > lo ? pages[key >> shift] : -1;
  }
  // Says how many bytes the barrier will see of the unit's pages.
  template <int PAGES>
  __device__ __forceinline__ void expect(u64* barrier, int id, int dim) const {
    const int count = __popc(__ballot_sync(0xffffffffu, id >= 0));
    if (lane == 0) barrier_expect(barrier, count * copyKeys * HeadPages<PAGES>::slot(dim) * HeadPages<PAGES>::BYTES);
    __syncwarp();
  }
  // Copies the pages whose ids the lanes give, each lane its own: about 120 clocks a copy. One elected lane that copies for all takes 160, also where it
  // has all addresses before it begins. IS_ONCE: nobody will read them again soon.
  template <bool IS_ONCE, int PAGES>
  __device__ __forceinline__ void copy(u8* slot, const HeadPages<PAGES>& from, int unit, int id, u64* barrier) const {
    const int bytes = copyKeys * from.slot(from.dim) * from.BYTES;
    if (id < 0) return;
    if (IS_ONCE) bulk_copy_once(slot + lane * bytes, from.at(id, unit + lane * copyKeys), bytes, barrier);
    else bulk_copy(slot + lane * bytes, from.at(id, unit + lane * copyKeys), bytes, barrier);
  }
};

// Work that blocks take one after the other: a block's first is its own, then whatever nobody has taken yet. The warp that copies takes it,
// so that pages of the next item come while the sums of the last one are still written; the others find it in shared memory.
// Which block takes an item does not change its bits.
struct Work {
  alignas(16) int item[ITEM_INTS];
  int kvHead;  // -1: there is no more
};
#define WORKS 4
struct WorkList {
  Work* slots;        // [WORKS], shared memory
  u64 *given, *done;  // [WORKS] each: completed when work is in its slot, when nobody reads it any more
  int n;              // works so far

  // The copying warp's: puts an item's record, of which lane i has the i-th number, into the next slot.
  __device__ __forceinline__ void give(int number, int kvHead) {
    const int lane = threadIdx.x & 31;
    if (n >= WORKS) barrier_wait(&done[n % WORKS], (n / WORKS - 1) & 1);
    if (lane < ITEM_INTS) slots[n % WORKS].item[lane] = number;
    if (lane == 0) slots[n % WORKS].kvHead = kvHead;
    __syncwarp();
    barrier_arrive(&given[n % WORKS]);  // every lane for itself, so that racecheck can follow it
    n++;
  }
  // The other warps': the next work; it stays in its slot until `end`.
  __device__ __forceinline__ const Work& next() {
    barrier_wait(&given[n % WORKS], n / WORKS & 1);
    return slots[n % WORKS];
  }
  // The work behind this, and whether there is any.
  __device__ __forceinline__ const Work& behind() const { return slots[(n + 1) % WORKS]; }
  __device__ __forceinline__ bool has_more() const {
    barrier_wait(&given[(n + 1) % WORKS], (n + 1) / WORKS & 1);
    return behind().kvHead >= 0;
  }
  __device__ __forceinline__ void end() {
    barrier_arrive(&done[n % WORKS]);
    n++;
  }
};
// The number of the copying warp's next work, `total` and more: none. As many blocks as work: they need not count.
__device__ __forceinline__ int take_work(int* taken, int total) {
  int next = total;
  if ((int)gridDim.x < total) {
    if ((threadIdx.x & 31) == 0) next = gridDim.x + atomicAdd(taken, 1);
    next = __shfl_sync(0xffffffffu, next, 0);
  }
  return next;
}
// The last block leaves zeros.
__device__ __forceinline__ void end_work(int* taken, int total) {
  if ((int)gridDim.x >= total || (threadIdx.x & 31) != 0) return;
  __threadfence();
  if (atomicAdd(taken + 1, 1) == (int)gridDim.x - 1) taken[0] = taken[1] = 0;
}
