// The machine's own instructions, one wrapper each. This is the only file that differs when the kernels run on a CPU: there the
// emulator (test/cuda/emulator) gives every wrapper a plain body, so that index arithmetic is tried without a GPU.
//
// No header of the CUDA toolkit is needed: NVRTC alone compiles the kernels.
#pragma once
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;
typedef unsigned long long u64;
typedef long long i64;

// Codes of 16-bit element types, as src/device/cuda/codes.ts has them.
#define KIND_NONE 0
#define KIND_BF16 1
#define KIND_F16 2

#ifndef __CUDACC__
#include "emulator.h"
#else
#include "trace.cuh"
// Kernels of a step are launched so that each may begin before the one ahead of it has ended (programmatic dependent launch): what
// it reads or writes of others' results comes after wait_for_others(), which returns when everything ahead is done.
__device__ __forceinline__ void wait_for_others() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  trace_waited();
}
__device__ __forceinline__ void let_others_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// A kernel takes one struct of arguments, by value: the host builds it once and patches it. EARLY_KERNEL waits for others itself,
// after it has begun to fetch what does not depend on them: weights.
#define KERNEL(threads, name, Args)                                                                        \
  __device__ __forceinline__ void name##_body(const Args& a);                                              \
  extern "C" __global__ void __launch_bounds__(threads, 1) name(const __grid_constant__ Args a) {          \
    trace_begin(#name);                                                                                    \
    let_others_begin();                                                                                    \
    wait_for_others();                                                                                     \
    name##_body(a);                                                                                        \
    trace_end();                                                                                           \
  }                                                                                                        \
  __device__ __forceinline__ void name##_body(const Args& a)
#define EARLY_KERNEL(threads, name, Args)                                                                  \
  __device__ __forceinline__ void name##_body(const Args& a);                                              \
  extern "C" __global__ void __launch_bounds__(threads, 1) name(const __grid_constant__ Args a) {          \
    trace_begin(#name);                                                                                    \
    let_others_begin();                                                                                    \
    name##_body(a);                                                                                        \
    trace_end();                                                                                           \
  }                                                                                                        \
  __device__ __forceinline__ void name##_body(const Args& a)
// Waits and lets others begin itself; `perSm` blocks of it should fit a multiprocessor.
#define OPEN_KERNEL(threads, perSm, name, Args)                                                            \
  __device__ __forceinline__ void name##_body(const Args& a);                                              \
  extern "C" __global__ void __launch_bounds__(threads, perSm) name(const __grid_constant__ Args a) { \
    trace_begin(#name);                                                                                    \
    name##_body(a);                                                                                        \
    trace_end();                                                                                           \
  }                                                                                                        \
  __device__ __forceinline__ void name##_body(const Args& a)
#define DYNAMIC_SHARED(name) extern __shared__ __align__(1024) u8 name[]

__device__ __forceinline__ u16 bf16_bits(float x) {
  u16 r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}
__device__ __forceinline__ u16 f16_bits(float x) {
  u16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}
__device__ __forceinline__ float f16_value(u16 b) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(b));
  return r;
}
// Two numbers rounded to 16 bits, the first in the low half.
template <int KIND>
__device__ __forceinline__ u32 round2(float low, float high) {
  u32 r;
  if (KIND == KIND_BF16) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
// a * b + c of two bf16 numbers each, rounded once.
__device__ __forceinline__ u32 fma_bf16x2(u32 a, u32 b, u32 c) {
  u32 r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
// Each nibble of `choice` says which of the bytes 0-3 of a and 4-7 of b its byte is, the lowest first.
__device__ __forceinline__ u32 permute_bytes(u32 a, u32 b, u32 choice) {
  u32 r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(choice));
  return r;
}
// 2^x to 2 units in the last place; 2^-inf = 0, 2^0 = 1 exactly.
__device__ __forceinline__ float exp2_of(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
// 1 / x to 1 unit in the last place, for x of at least 1; of infinity 0.
__device__ __forceinline__ float reciprocal_of(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// What another block of the same launch wrote: L1 may hold what was there before.
__device__ __forceinline__ float load_past_l1(const float* p) {
  float r;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(r) : "l"(p) : "memory");
  return r;
}
// The same for four numbers, aligned to 16 bytes.
__device__ __forceinline__ void load_past_l1(float* to, const float* p) {
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "l"(p) : "memory");
}

// Asks for the cache line of p, which will be read soon.
__device__ __forceinline__ void fetch_ahead(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// Barrier `id` (1 to 15) of `threads` threads of the block, in whole warps: those that wait and those that only say they have come.
__device__ __forceinline__ void group_wait(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
__device__ __forceinline__ void group_arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

__device__ __forceinline__ u32 shared_at(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// --- asynchronous copies of 16 bytes a thread (sm_80) ---
// Past L1; with `isWanted` false, 16 zero bytes.
__device__ __forceinline__ void copy16(void* to, const void* from, bool isWanted = true) {
  int bytes = isWanted ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_at(to)), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// --- matrices from shared memory ---
__device__ __forceinline__ void ldmatrix_x4(u32* r, const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_at(p)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(u32* r, const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_at(p)) : "memory");
}

// d[16 x 8] += a[16 x 16] b[16 x 8], f32 sums. Fragments: a0 (row g, k 2q..), a1 (row g+8), a2 (k+8), a3 (row g+8, k+8);
// b0 (k 2q.., col g), b1 (k+8); d0,d1 (row g, col 2q..), d2,d3 (row g+8), where g = lane / 4, q = lane % 4.
template <int KIND>
__device__ __forceinline__ void mma16816(float* d, const u32* a, u32 b0, u32 b1) {
  if (KIND == KIND_BF16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}
#endif
