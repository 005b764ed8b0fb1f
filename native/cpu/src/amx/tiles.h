// The matrix tiles of AMX: eight registers of up to 16 rows x 64 bytes, and the products of two into a third.
//
//   C[m][n] += sum over k of A[m][k] * B[k][n]     A: 16 rows of 32 bf16, k contiguous. B: 16 rows of 4 bytes per n, which are 2 bf16
//                                                  with consecutive k. C: 16 x 16 f32.
//
// Even and odd k are two chains of fused multiply-adds from zero, which are then added, and their sum is added to C; subnormals count
// as zero. A row of C depends on its own row of A alone.
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

// 32 numbers to bf16: the nearest, ties to even, subnormals to zero. Words 0 to 15 are of `first`, the others of `second`.
PG_INLINE __m512i to_bf16(__m512 first, __m512 second) { return (__m512i)_mm512_cvtne2ps_pbh(second, first); }
// `into`, with the bytes of `from` that `index` names at the places that `places` marks.
PG_INLINE __m512i put_bytes(__m512i into, uint64_t places, __m512i index, __m512i from) {
  return _mm512_mask_permutexvar_epi8(into, places, index, from);
}

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

PG_INLINE float flushed(float x) { return (s_bits(x) & 0x7f800000u) == 0 ? s_from_bits(s_bits(x) & 0x80000000u) : x; }

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
  const auto bf16_at = [](int tile, int row, int index) {
    uint16_t bits;
    memcpy(&bits, t_tiles.data[tile][row] + 2 * index, 2);
    return flushed(s_from_bf16(bits));
  };
  for (int m = 0; m < c.rows[A]; m++)
    for (int n = 0; n < c.row_bytes[B] / 4; n++) {
      float chain[2] = {0.0f, 0.0f};
      for (int k = 0; k < c.row_bytes[A] / 4; k++)
        for (int odd = 0; odd < 2; odd++)
          chain[odd] = flushed(s_madd(bf16_at(A, m, 2 * k + odd), bf16_at(B, k, 2 * n + odd), chain[odd]));
      float sum;
      memcpy(&sum, t_tiles.data[C][m] + 4 * n, 4);
      sum = flushed(flushed(sum) + flushed(chain[0] + chain[1]));
      memcpy(t_tiles.data[C][m] + 4 * n, &sum, 4);
    }
}

PG_INLINE __m512i to_bf16(__m512 first, __m512 second) {
  float numbers[32];
  uint16_t words[32];
  _mm512_storeu_ps(numbers, first);
  _mm512_storeu_ps(numbers + 16, second);
  for (int i = 0; i < 32; i++) words[i] = s_to_bf16(flushed(numbers[i]));
  return _mm512_loadu_si512(words);
}
PG_INLINE __m512i put_bytes(__m512i into, uint64_t places, __m512i index, __m512i from) {
  uint8_t out[64], at[64], bytes[64];
  _mm512_storeu_si512(out, into);
  _mm512_storeu_si512(at, index);
  _mm512_storeu_si512(bytes, from);
  for (int i = 0; i < 64; i++)
    if (places >> i & 1) out[i] = bytes[at[i]];
  return _mm512_loadu_si512(out);
}

#endif

}  // namespace PG_NS
}  // namespace pg
