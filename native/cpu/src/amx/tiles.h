// The matrix tiles of AMX: eight registers of up to 16 rows x 64 bytes, and the products of two into a third.
//
//   C[m][n] += sum over k of A[m][k] * B[k][n]     A: 16 rows of 32 bf16, k contiguous. B: 16 rows of 4 bytes per n, which are 2 bf16
//                                                  with consecutive k. C: 16 x 16 f32. With int8: 64 and 4 of them, and C is i32;
//                                                  B may be unsigned.
//
// Products of int8 are exact. Of bf16, even and odd k are two chains of fused multiply-adds from zero, which are then added, and their
// sum is added to C; subnormals count as zero. A row of C depends on its own row of A alone.
//
// PG_TILES_TWIN compiles the same kernels over plain memory and loops: tests run them where the processor has no tiles.
#pragma once
#include "../kernels/simd.h"

namespace pg {
namespace PG_NS {

constexpr int kTileRows = 16;

// Rows and bytes per row of the eight registers, as LDTILECFG takes them.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
  void set(int tile, int num_rows, int num_bytes) {
    rows[tile] = (uint8_t)num_rows;
    row_bytes[tile] = (uint16_t)num_bytes;
  }
};

#ifndef PG_TILES_TWIN

// Configures the tiles for its lifetime; releasing them spares the system from saving 8 KiB at every switch of threads.
class TileScope {
 public:
  explicit TileScope(const TileConfig& config) { asm volatile("ldtilecfg %0" ::"m"(config)); }
  ~TileScope() { asm volatile("tilerelease"); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

template <int T>
PG_INLINE void tile_zero() { asm volatile("tilezero %%tmm%c0" ::"i"(T)); }
template <int T>
PG_INLINE void tile_load(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T) : "memory");
}
template <int T>
PG_INLINE void tile_store(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(T) : "memory");
}
template <int C, int A, int B>
PG_INLINE void tile_dot_bf16() { asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B)); }
template <int C, int A, int B>
PG_INLINE void tile_dot_int8() { asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B)); }
template <int C, int A, int B>
PG_INLINE void tile_dot_low_bytes() { asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B)); }

#else

struct TileFile {
  TileConfig config;
  alignas(64) uint8_t data[8][16][64];
};
inline thread_local TileFile t_tiles;

class TileScope {
 public:
  explicit TileScope(const TileConfig& config) {
    t_tiles.config = config;
    memset(t_tiles.data, 0, sizeof t_tiles.data);
  }
  ~TileScope() { t_tiles.config = TileConfig(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

PG_INLINE __m512 flushed(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __mmask16 is_small = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(0x7f800000));
  return _mm512_castsi512_ps(_mm512_mask_and_epi32(bits, is_small, bits, _mm512_set1_epi32((int)0x80000000u)));
}

template <int T>
PG_INLINE void tile_zero() { memset(t_tiles.data[T], 0, sizeof t_tiles.data[T]); }
template <int T>
PG_INLINE void tile_load(const void* from, int64_t stride) {
  tile_zero<T>();
  for (int r = 0; r < t_tiles.config.rows[T]; r++)
    memcpy(t_tiles.data[T][r], (const uint8_t*)from + r * stride, t_tiles.config.row_bytes[T]);
}
template <int T>
PG_INLINE void tile_store(void* to, int64_t stride) {
  for (int r = 0; r < t_tiles.config.rows[T]; r++)
    memcpy((uint8_t*)to + r * stride, t_tiles.data[T][r], t_tiles.config.row_bytes[T]);
}
template <int C, int A, int B>
PG_INLINE void tile_dot_bf16() {
  const TileConfig& c = t_tiles.config;
  const __m512i upper = _mm512_set1_epi32((int)0xffff0000u);
  for (int m = 0; m < c.rows[A]; m++) {
    __m512 even = _mm512_setzero_ps(), odd = even;
    for (int k = 0; k < c.row_bytes[A] / 4; k++) {
      int32_t pair;
      memcpy(&pair, t_tiles.data[A][m] + 4 * k, 4);
      const __m512i a = _mm512_set1_epi32(pair), b = _mm512_load_si512(t_tiles.data[B][k]);
      const auto chain = [](__m512i x, __m512i w, __m512 sum) {
        return flushed(_mm512_fmadd_ps(flushed(_mm512_castsi512_ps(x)), flushed(_mm512_castsi512_ps(w)), sum));
      };
      even = chain(_mm512_slli_epi32(a, 16), _mm512_slli_epi32(b, 16), even);
      odd = chain(_mm512_and_si512(a, upper), _mm512_and_si512(b, upper), odd);
    }
    float* sums = (float*)t_tiles.data[C][m];
    _mm512_store_ps(sums, flushed(_mm512_add_ps(flushed(_mm512_load_ps(sums)), flushed(_mm512_add_ps(even, odd)))));
  }
}
// first: what is added to a byte of B to make it unsigned.
template <int C, int A, int B>
PG_INLINE void tile_dot_bytes(int first) {
  const TileConfig& c = t_tiles.config;
  const __m512i offset = _mm512_set1_epi8((char)first);
  for (int m = 0; m < c.rows[A]; m++) {
    __m512i sum = _mm512_load_si512(t_tiles.data[C][m]), excess = _mm512_setzero_si512();
    for (int k = 0; k < c.row_bytes[A] / 4; k++) {
      int32_t four;
      memcpy(&four, t_tiles.data[A][m] + 4 * k, 4);
      const __m512i a = _mm512_set1_epi32(four);
      sum = _mm512_dpbusd_epi32(sum, _mm512_add_epi8(_mm512_load_si512(t_tiles.data[B][k]), offset), a);
      excess = _mm512_dpbusd_epi32(excess, offset, a);
    }
    _mm512_store_si512(t_tiles.data[C][m], _mm512_sub_epi32(sum, excess));
  }
}
template <int C, int A, int B>
PG_INLINE void tile_dot_int8() { tile_dot_bytes<C, A, B>(128); }
template <int C, int A, int B>
PG_INLINE void tile_dot_low_bytes() { tile_dot_bytes<C, A, B>(0); }

#endif

}  // namespace PG_NS
}  // namespace pg
