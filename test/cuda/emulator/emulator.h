// The kernels of native/cuda as plain C++ on a CPU: every thread of a block is a fibre, barriers and warp operations make fibres
// wait for one another, tensor-core and copy instructions have plain bodies. Slow, and right in everything but timing: what it
// finds is wrong indices, missing barriers within the order fibres run in, and copies read before they were waited for (a copy is
// made only when its group is waited for). It is no model of the memory system.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define KERNEL(threads, name, Args)                                           \
  static void name##_body(const Args& a);                                     \
  extern "C" void name(const void* p) { name##_body(*(const Args*)p); }       \
  static void name##_body(const Args& a)
#define EARLY_KERNEL KERNEL
#define OPEN_KERNEL(threads, perSm, name, Args) KERNEL(threads, name, Args)
inline void wait_for_others() {}
inline void let_others_begin() {}
inline void __threadfence() {}
inline float load_past_l1(const float* p) { return *p; }
inline void load_past_l1(float* to, const float* p) { for (int i = 0; i < 4; i++) to[i] = p[i]; }
inline void fetch_ahead(const void*) {}
#define DYNAMIC_SHARED(name) u8* name = emulator::dynamicShared()

struct alignas(8) float2 { float x, y; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }

namespace emulator {
struct Index { unsigned x, y, z; };
struct Thread;
extern Thread* current;
extern Index blockIndex, gridSize, blockSize, threadIndex;
unsigned char* dynamicShared();
void blockBarrier();
void warpBarrier();
// Every lane's 64 bits, readable by the others until the next warp barrier.
uint64_t* exchange();
unsigned aliveLanes();
void yieldNow();
void groupBarrier(int id, int threads, bool waits);
void copyLater(void* to, const void* from, bool isWanted);
void copyCommit();
void copyWait(int groups);
}  // namespace emulator
#define blockIdx emulator::blockIndex
#define gridDim emulator::gridSize
#define blockDim emulator::blockSize
#define threadIdx emulator::threadIndex

inline void __syncthreads() { emulator::blockBarrier(); }
inline void group_wait(int id, int threads) { emulator::groupBarrier(id, threads, true); }
inline void group_arrive(int id, int threads) { emulator::groupBarrier(id, threads, false); }
inline void __syncwarp() { emulator::warpBarrier(); }

template <typename T>
inline T laneValue(T v, int lane) {
  const int me = emulator::threadIndex.x & 31;
  uint64_t bits = 0;
  memcpy(&bits, &v, sizeof v);
  emulator::exchange()[me] = bits;
  emulator::warpBarrier();
  T other = v;
  if (lane >= 0 && lane < 32 && (emulator::aliveLanes() >> lane & 1)) memcpy(&other, &emulator::exchange()[lane], sizeof other);
  emulator::warpBarrier();
  return other;
}
template <typename T> inline T __shfl_xor_sync(unsigned, T v, int d) { return laneValue(v, (emulator::threadIndex.x & 31) ^ d); }
template <typename T> inline T __shfl_sync(unsigned, T v, int lane) { return laneValue(v, lane); }
template <typename T> inline T __shfl_up_sync(unsigned, T v, int d) { return laneValue(v, (int)(emulator::threadIndex.x & 31) - d); }
inline unsigned __ballot_sync(unsigned, bool v) {
  unsigned all = 0;
  for (int d = 0; d < 32; d++) all |= laneValue((unsigned)v, d) << d;
  return all & emulator::aliveLanes();
}
inline int __reduce_max_sync(unsigned, int v) {
  for (int d = 16; d > 0; d >>= 1) { int o = __shfl_xor_sync(0, v, d); v = o > v ? o : v; }
  return v;
}
inline unsigned __reduce_max_sync(unsigned, unsigned v) {
  for (int d = 16; d > 0; d >>= 1) { unsigned o = __shfl_xor_sync(0, v, d); v = o > v ? o : v; }
  return v;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __clz(unsigned v) { return v == 0 ? 32 : __builtin_clz(v); }
inline int __ffs(unsigned v) { return __builtin_ffs((int)v); }
inline unsigned long long atomicAdd(unsigned long long* p, unsigned long long v) { auto old = *p; *p += v; return old; }

inline unsigned atomicAdd(unsigned* p, unsigned v) { auto old = *p; *p += v; return old; }
inline unsigned atomicMax(unsigned* p, unsigned v) { auto old = *p; if (v > old) *p = v; return old; }
inline unsigned atomicExch(unsigned* p, unsigned v) { auto old = *p; *p = v; return old; }
inline int atomicAdd(int* p, int v) { int old = *p; *p += v; return old; }
inline unsigned atomicOr(unsigned* p, unsigned v) { unsigned old = *p; *p |= v; return old; }
inline int atomicOr(int* p, int v) { int old = *p; *p |= v; return old; }
inline unsigned long long atomicMax(unsigned long long* p, unsigned long long v) { auto old = *p; if (v > old) *p = v; return old; }
inline unsigned long long atomicExch(unsigned long long* p, unsigned long long v) { auto old = *p; *p = v; return old; }
inline int atomicExch(int* p, int v) { int old = *p; *p = v; return old; }

template <typename A> inline A min(A a, A b) { return b < a ? b : a; }
template <typename A> inline A max(A a, A b) { return a < b ? b : a; }
inline int min(int a, unsigned b) { return a < (int)b ? a : (int)b; }
inline int max(int a, unsigned b) { return a > (int)b ? a : (int)b; }

inline float __uint_as_float(unsigned v) { float f; memcpy(&f, &v, 4); return f; }
inline float __int_as_float(int v) { float f; memcpy(&f, &v, 4); return f; }
inline unsigned __float_as_uint(float f) { unsigned v; memcpy(&v, &f, 4); return v; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float exp2_of(float x) { return exp2f(x); }
inline float reciprocal_of(float x) { return 1.f / x; }

inline u16 bf16_bits(float x) {
  unsigned v = __float_as_uint(x);
  if (x != x) return 0x7fff;
  return (u16)((v + 0x7fff + (v >> 16 & 1)) >> 16);
}
inline u16 f16_bits(float x) { _Float16 h = (_Float16)x; u16 b; memcpy(&b, &h, 2); return b; }
inline float f16_value(u16 b) { _Float16 h; memcpy(&h, &b, 2); return (float)h; }

inline u32 fma_bf16x2(u32 a, u32 b, u32 c) {
  auto half = [](u32 x, int h) { return __uint_as_float(h ? x & 0xFFFF0000 : x << 16); };
  u32 r = 0;
  for (int h = 0; h < 2; h++) r |= (u32)bf16_bits(fmaf(half(a, h), half(b, h), half(c, h))) << (16 * h);
  return r;
}
inline u32 permute_bytes(u32 a, u32 b, u32 choice) {
  const u64 bytes = a | (u64)b << 32;
  u32 r = 0;
  for (int i = 0; i < 4; i++) r |= (u32)(bytes >> (8 * (choice >> (4 * i) & 7)) & 0xFF) << (8 * i);
  return r;
}
template <int KIND> inline u32 round2(float low, float high) {
  return KIND == KIND_BF16 ? bf16_bits(low) | (u32)bf16_bits(high) << 16 : f16_bits(low) | (u32)f16_bits(high) << 16;
}

inline void copy16(void* to, const void* from, bool isWanted = true) { emulator::copyLater(to, from, isWanted); }
inline void copy_commit() { emulator::copyCommit(); }
template <int N> inline void copy_wait() { emulator::copyWait(N); }

inline void ldmatrix(u32* r, const void* p, bool isTransposed) {
  const int lane = threadIdx.x & 31;
  emulator::exchange()[lane] = (uint64_t)(uintptr_t)p;
  emulator::warpBarrier();
  for (int i = 0; i < 4; i++) {
    u16 pair[2];
    for (int j = 0; j < 2; j++) {
      const int row = isTransposed ? 2 * (lane & 3) + j : lane >> 2, column = isTransposed ? lane >> 2 : 2 * (lane & 3) + j;
      pair[j] = ((const u16*)(uintptr_t)emulator::exchange()[8 * i + row])[column];
    }
    memcpy(&r[i], pair, 4);
  }
  emulator::warpBarrier();
}
inline void ldmatrix_x4(u32* r, const void* p) { ldmatrix(r, p, false); }
inline void ldmatrix_x4_trans(u32* r, const void* p) { ldmatrix(r, p, true); }

template <int KIND>
inline float element(u32 pair, int i) {
  const u16 bits = (u16)(i ? pair >> 16 : pair);
  return KIND == KIND_BF16 ? __uint_as_float((u32)bits << 16) : f16_value(bits);
}
// Sums of a k16 step are exact here and rounded once; the tensor cores truncate a little more.
template <int KIND>
inline void mma16816(float* d, const u32* a, u32 b0, u32 b1) {
  const int lane = threadIdx.x & 31, g = lane >> 2, q = lane & 3;
  u32 rows[2][8], columns[2][8];  // [row g, g+8 | column 2q, 2q+1][k pairs]
  for (int r = 0; r < 2; r++)
    for (int h = 0; h < 2; h++)
      for (int p = 0; p < 4; p++) rows[r][h * 4 + p] = laneValue(a[2 * h + r], g * 4 + p);
  for (int c = 0; c < 2; c++)
    for (int p = 0; p < 4; p++) {
      columns[c][p] = laneValue(b0, (2 * q + c) * 4 + p);
      columns[c][4 + p] = laneValue(b1, (2 * q + c) * 4 + p);
    }
  for (int r = 0; r < 2; r++)
    for (int c = 0; c < 2; c++) {
      double sum = d[2 * r + c];
      for (int p = 0; p < 8; p++)
        for (int i = 0; i < 2; i++) sum += (double)element<KIND>(rows[r][p], i) * element<KIND>(columns[c][p], i);
      d[2 * r + c] = (float)sum;
    }
}

// Barriers that copies complete: 8 bytes as in shared memory. A bulk copy is made at once.
struct CopyBarrier { u16 arrivals, pending; int bytes : 31; u32 phase : 1; };
static_assert(sizeof(CopyBarrier) == 8, "as large as the machine's");
inline CopyBarrier& barrierAt(u64* b) { return *(CopyBarrier*)b; }
inline void barrierAdvance(u64* at) {
  CopyBarrier& b = barrierAt(at);
  if (b.pending == 0 && b.bytes == 0) { b.phase ^= 1; b.pending = b.arrivals; }
}
inline void barrier_init(u64* at, int arrivals) { barrierAt(at) = {(u16)arrivals, (u16)arrivals, 0, 0}; }
inline void barrier_init_done() {}
inline void barrier_arrive(u64* at) { barrierAt(at).pending--; barrierAdvance(at); }
inline void barrier_expect(u64* at, int bytes) { barrierAt(at).bytes += bytes; barrier_arrive(at); }
inline void barrier_wait(u64* at, int parity) { while ((barrierAt(at).phase & 1) == parity) emulator::yieldNow(); }
inline void bulk_copy(void* to, const void* from, int bytes, u64* at) {
  memcpy(to, from, bytes);
  barrierAt(at).bytes -= bytes;
  barrierAdvance(at);
}
inline void bulk_copy_once(void* to, const void* from, int bytes, u64* at) { bulk_copy(to, from, bytes, at); }
inline bool is_elected() { return (threadIdx.x & 31) == 0; }

// Warpgroup products, warp by warp: a warp's 16 rows depend on its own registers and on b alone. A descriptor is the address / 16.
inline u64 describe_b(const void* p) { return (u64)(uintptr_t)p >> 4; }
inline void wgmma_fence() {}
inline void wgmma_commit() {}
template <int N> inline void wgmma_wait() {}
inline void group_sync(int) { emulator::blockBarrier(); }  // the others have left by then, or will
template <int N> inline void give_registers() {}
template <int N> inline void take_registers() {}
template <int KIND, int N>
struct Wgmma {
  static void run(float* d, const u32* a, u64 b) {
    const int lane = threadIdx.x & 31, q = lane & 3;
    u32 rows[2][8];
    for (int r = 0; r < 2; r++)
      for (int h = 0; h < 2; h++)
        for (int p = 0; p < 4; p++) rows[r][h * 4 + p] = laneValue(a[2 * h + r], (lane >> 2) * 4 + p);
    for (int i = 0; i < N / 8; i++)
      for (int j = 0; j < 4; j++) {
        const int token = i * 8 + 2 * q + (j & 1);
        double sum = d[4 * i + j];
        for (int k = 0; k < 16; k++) {
          uintptr_t at = (uintptr_t)(b << 4) + token / 8 * 1024 + token % 8 * 128 + k * 2;
          at ^= (at >> 7 & 7) << 4;
          const u16 bits = *(const u16*)at;
          sum += (double)element<KIND>(rows[j >> 1][k / 2], k & 1) * (KIND == KIND_BF16 ? __uint_as_float((u32)bits << 16) : f16_value(bits));
        }
        d[4 * i + j] = (float)sum;
      }
  }
};

// Products on core matrices of 8 x 8: a descriptor is the address / 16 and both distances / 16, in 44, 10 and 10 bits.
inline u64 describe_cores(const void* p, int leading, int stride) {
  return (u64)(uintptr_t)p >> 4 | (u64)(leading >> 4) << 44 | (u64)(stride >> 4) << 54;
}
inline void fence_stores() {}
template <int COUNT> inline void settle(float*) {}
struct Cores {
  const u8* base;
  int leading, stride;
  explicit Cores(u64 d) : base((const u8*)(uintptr_t)((d & (1ull << 44) - 1) << 4)), leading((d >> 44 & 1023) * 16), stride((d >> 54) * 16) {}
};
template <int KIND, int N, bool IS_TRANSPOSED>
struct CoreProduct {
  // a from shared memory: the warp's 16 of the 64 rows.
  static void run(float* d, u64 a, u64 b, int isAdded) {
    const Cores from(a);
    const int lane = threadIdx.x & 31, row = (threadIdx.x >> 5 & 3) * 16 + (lane >> 2);
    u32 fragment[4];
    for (int i = 0; i < 4; i++) memcpy(&fragment[i], from.base + (row / 8 + (i & 1)) * from.stride + (i >> 1) * from.leading + row % 8 * 16 + (lane & 3) * 4, 4);
    run(d, fragment, b, isAdded);
  }
  static void run(float* d, const u32* a, u64 b, int isAdded) {
    const int lane = threadIdx.x & 31, q = lane & 3;
    const auto [base, leading, stride] = Cores(b);
    u32 rows[2][8];
    for (int r = 0; r < 2; r++)
      for (int h = 0; h < 2; h++)
        for (int p = 0; p < 4; p++) rows[r][h * 4 + p] = laneValue(a[2 * h + r], (lane >> 2) * 4 + p);
    for (int i = 0; i < N / 8; i++)
      for (int j = 0; j < 4; j++) {
        const int n = i * 8 + 2 * q + (j & 1);
        double sum = isAdded ? d[4 * i + j] : 0.f;
        for (int k = 0; k < 16; k++) {
          // Rows of a core matrix are keys: n of keys, k of values.
          const u8* at = IS_TRANSPOSED ? base + n / 8 * stride + k / 8 * leading + k % 8 * 16 + n % 8 * 2
                                       : base + n / 8 * stride + k / 8 * leading + n % 8 * 16 + k % 8 * 2;
          u16 bits;
          memcpy(&bits, at, 2);
          sum += (double)element<KIND>(rows[j >> 1][k / 2], k & 1) * (KIND == KIND_BF16 ? __uint_as_float((u32)bits << 16) : f16_value(bits));
        }
        d[4 * i + j] = (float)sum;
      }
  }
};
