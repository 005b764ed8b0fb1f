// Hopper's bulk copies and the barriers they complete (sm_90): one instruction moves kilobytes, and no thread waits for addresses.
#pragma once
#include "ptx.cuh"

#ifdef __CUDACC__
__device__ __forceinline__ void barrier_init(u64* b, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_at(b)), "r"(arrivals));
}
__device__ __forceinline__ void barrier_init_done() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void barrier_expect(u64* b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_at(b)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u64* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_at(b)) : "memory");
}
__device__ __forceinline__ void barrier_wait(u64* b, int parity) {
  u32 isDone;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(isDone) : "r"(shared_at(b)), "r"(parity) : "memory");
  } while (!isDone);
}
// One lane of a whole warp, the same each time. A bulk copy takes its addresses from registers that a warp shares: where the compiler
// knows that one lane runs, copies follow one another; of diverging lanes each goes through a loop of its own, about 120 clocks.
__device__ __forceinline__ bool is_elected() {
  u32 isElected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(isElected));
  return isElected != 0;
}
// What ordinary stores wrote to shared memory comes before what wgmma reads and bulk copies write there from now on.
__device__ __forceinline__ void fence_stores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Contiguous bytes (a multiple of 16) to shared memory; the barrier counts them.
__device__ __forceinline__ void bulk_copy(void* to, const void* from, int bytes, u64* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_at(to)), "l"(from),
               "r"(bytes), "r"(shared_at(b)) : "memory");
}
// The same for bytes that are read once: they are the first to leave L2 and push nothing else out of it.
__device__ __forceinline__ void bulk_copy_once(void* to, const void* from, int bytes, u64* b) {
  const u64 evictFirst = 0x12F0000000000000ull;
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(shared_at(to)),
               "l"(from), "r"(bytes), "r"(shared_at(b)), "l"(evictFirst) : "memory");
}
#endif
