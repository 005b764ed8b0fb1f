// A timeline of a step as it runs, overlaps included: compiled in only with -DPAGODA_TRACE (src/device/cuda/trace.ts). The first and the
// last block of each launch write when they began, when what they waited for was there, and when their last warp ended.
#pragma once

struct TraceRecord {
  char name[32];
  u64 begin, waited, end;  // ns of the GPU's own clock
  u32 blocks, isLast;
};
#define TRACE_RECORDS (1 << 17)  // the latest stay
#ifdef PAGODA_TRACE
struct TraceLog {
  u64 count, pad[7];
  TraceRecord records[TRACE_RECORDS];
};
extern "C" {
__device__ TraceLog* trace_log;  // the host sets it once the module is loaded
}
__device__ __forceinline__ u64 now_ns() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)::"memory");
  return t;
}
__device__ __forceinline__ TraceRecord** traced() {
  __shared__ TraceRecord* record;
  return &record;
}
__device__ __forceinline__ void trace_begin(const char* name) {
  const u32 block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z), blocks = gridDim.x * gridDim.y * gridDim.z;
  if (threadIdx.x == 0) {
    *traced() = nullptr;
    if (trace_log != nullptr && (block == 0 || block == blocks - 1)) {
      TraceRecord* r = &trace_log->records[atomicAdd(&trace_log->count, 1ull) % TRACE_RECORDS];
      for (int i = 0; i < 32; i++) {
        r->name[i] = *name;
        if (*name != 0) name++;
      }
      r->blocks = blocks;
      r->isLast = block == blocks - 1;
      r->waited = r->end = 0;
      r->begin = now_ns();
      *traced() = r;
    }
  }
  __syncthreads();
}
__device__ __forceinline__ void trace_waited() {
  if (*traced() != nullptr && (threadIdx.x & 31) == 0) atomicMax(&(*traced())->waited, now_ns());
}
__device__ __forceinline__ void trace_end() {
  if (*traced() != nullptr && (threadIdx.x & 31) == 0) atomicMax(&(*traced())->end, now_ns());
}
#else
#define trace_begin(name)
#define trace_waited()
#define trace_end()
#endif
