// Scores of a tile, q . k, by two kernels with one order of summation (attention-tile.h). Few queries: lanes are dims, keys are read
// where they lie (score_rows). Many: keys are transposed once (pack_keys) and lanes are keys (score_packed).
#pragma once
#include "attention-tile.h"
#include "transpose.h"

namespace pg {
namespace PG_NS {

constexpr int kLanes = VL / 4;  // 128-bit lanes of a vector
#if PG_ISA == 3 || PG_NEON
constexpr int kScoreRows = 4;
#else
constexpr int kScoreRows = 2;
#endif
constexpr int kScoreCols = 2;

// scores[r, j] for M queries and N vectors of packed keys [dim, kTileKeys]: lanes are keys.
template <int M, int N>
__attribute__((noinline)) void score_packed(float* scores, const float* q, int64_t q_stride, const float* keys, int dim) {
  vf total[M][N];
#pragma GCC unroll 4
  for (int residue = 0; residue < 4; residue++) {
    vf sum[M][N];
#pragma GCC unroll 4
    for (int lane = 0; lane < kLanes; lane++) {
      vf acc[M][N];
#pragma GCC unroll 8
      for (int r = 0; r < M; r++)
#pragma GCC unroll 8
        for (int v = 0; v < N; v++) acc[r][v] = v_set(0.0f);
#if PG_ISA != 3
#pragma GCC unroll 4
#endif
      for (int d = 4 * lane + residue; d < dim; d += VL) {
        vf row[N];
#pragma GCC unroll 8
        for (int v = 0; v < N; v++) row[v] = v_load(keys + d * kTileKeys + v * VL);
#pragma GCC unroll 8
        for (int r = 0; r < M; r++) {
          const vf x = v_set(q[r * q_stride + d]);
#pragma GCC unroll 8
          for (int v = 0; v < N; v++) acc[r][v] = v_madd(x, row[v], acc[r][v]);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < M; r++)
#pragma GCC unroll 8
        for (int v = 0; v < N; v++) sum[r][v] = lane == 0 ? acc[r][v] : sum[r][v] + acc[r][v];
    }
#pragma GCC unroll 8
    for (int r = 0; r < M; r++)
#pragma GCC unroll 8
      for (int v = 0; v < N; v++) total[r][v] = residue == 0 ? sum[r][v] : total[r][v] + sum[r][v];
  }
#pragma GCC unroll 8
  for (int r = 0; r < M; r++)
#pragma GCC unroll 8
    for (int v = 0; v < N; v++) v_store(scores + r * kTileKeys + v * VL, total[r][v]);
}

// The same for any number of rows and the vectors [first, last) of the tile.
inline void score_packed_block(int rows, int first, int last, float* scores, const float* q, int64_t q_stride, const float* keys,
                               int dim) {
  for (int r = 0; r < rows; r += kScoreRows)
    for (int v = first; v < last; v += kScoreCols) {
      float* to = scores + r * kTileKeys + v * VL;
      const float* from = q + r * q_stride;
      const float* key = keys + v * VL;
      const bool is_pair = last - v > 1;
      switch (rows - r) {
        case 1: is_pair ? score_packed<1, 2>(to, from, q_stride, key, dim) : score_packed<1, 1>(to, from, q_stride, key, dim); break;
#if PG_ISA == 3 || PG_NEON
        case 2: is_pair ? score_packed<2, 2>(to, from, q_stride, key, dim) : score_packed<2, 1>(to, from, q_stride, key, dim); break;
        case 3: is_pair ? score_packed<3, 2>(to, from, q_stride, key, dim) : score_packed<3, 1>(to, from, q_stride, key, dim); break;
#endif
        default:
          is_pair ? score_packed<kScoreRows, 2>(to, from, q_stride, key, dim)
                  : score_packed<kScoreRows, 1>(to, from, q_stride, key, dim);
      }
    }
}

// Partial sums of kLanes keys -> t_r of each: lane L of the result is key L's.
PG_INLINE vf sum_lanes(const vf (&p)[kLanes]) {
#if PG_ISA == 3
  const __m512 a = _mm512_shuffle_f32x4(p[0], p[1], 0x44);  // lanes 0 1 of both
  const __m512 b = _mm512_shuffle_f32x4(p[2], p[3], 0x44);
  const __m512 c = _mm512_shuffle_f32x4(p[0], p[1], 0xee);  // lanes 2 3 of both
  const __m512 d = _mm512_shuffle_f32x4(p[2], p[3], 0xee);
  const __m512 first = _mm512_shuffle_f32x4(a, b, 0x88) + _mm512_shuffle_f32x4(a, b, 0xdd);
  return (first + _mm512_shuffle_f32x4(c, d, 0x88)) + _mm512_shuffle_f32x4(c, d, 0xdd);
#elif PG_ISA == 2
  return _mm256_permute2f128_ps(p[0], p[1], 0x20) + _mm256_permute2f128_ps(p[0], p[1], 0x31);
#else
  return p[0];
#endif
}

// t_0 + t_1 + t_2 + t_3 of 4 * kLanes keys; t[j] holds, in lane L, those of key 4 L + j.
PG_INLINE vf sum_residues(const vf (&t)[4]) {
#if PG_ISA == 3
  const __m512 a = _mm512_unpacklo_ps(t[0], t[1]);
  const __m512 b = _mm512_unpacklo_ps(t[2], t[3]);
  const __m512 c = _mm512_unpackhi_ps(t[0], t[1]);
  const __m512 d = _mm512_unpackhi_ps(t[2], t[3]);
  const __m512 first = _mm512_shuffle_ps(a, b, 0x44) + _mm512_shuffle_ps(a, b, 0xee);
  return (first + _mm512_shuffle_ps(c, d, 0x44)) + _mm512_shuffle_ps(c, d, 0xee);
#elif PG_ISA == 2
  const __m256 a = _mm256_unpacklo_ps(t[0], t[1]);
  const __m256 b = _mm256_unpacklo_ps(t[2], t[3]);
  const __m256 c = _mm256_unpackhi_ps(t[0], t[1]);
  const __m256 d = _mm256_unpackhi_ps(t[2], t[3]);
  const __m256 first = _mm256_shuffle_ps(a, b, 0x44) + _mm256_shuffle_ps(a, b, 0xee);
  return (first + _mm256_shuffle_ps(c, d, 0x44)) + _mm256_shuffle_ps(c, d, 0xee);
#else
  vf x[4] = {t[0], t[1], t[2], t[3]};
  transpose4(x);
  return ((x[0] + x[1]) + x[2]) + x[3];
#endif
}

// scores[r, j] for M queries and the keys [first, last), in whole steps of VL: lanes are dims. q: [M, q_stride], zero from dim
// up to a multiple of VL. next: the rows of the tile that follows, prefetched meanwhile.
template <int M, typename Row>
__attribute__((noinline)) void score_rows(float* scores, const float* q, int64_t q_stride, const uint8_t* const* keys,
                                          const uint8_t* const* next, int dim, int first, int last) {
  const int whole = dim / VL * VL;
  for (int j = first / VL * VL; j < last; j += VL) {
    vf t[M][4];
    for (int step = 0; step < 4; step++) {
      vf p[M][kLanes];
#pragma GCC unroll 8
      for (int r = 0; r < M; r++)
#pragma GCC unroll 8
        for (int key = 0; key < kLanes; key++) p[r][key] = v_set(0.0f);
      const auto add_dims = [&](int d, int lanes) {
        vf row[kLanes];
#pragma GCC unroll 8
        for (int key = 0; key < kLanes; key++) {
          row[key] = load_row_some<Row>(keys[j + 4 * key + step], d, lanes);
          __builtin_prefetch(next[j + 4 * key + step] + d * Row::bytes, 0, 2);
        }
#pragma GCC unroll 8
        for (int r = 0; r < M; r++) {
          const vf x = v_load(q + r * q_stride + d);
#pragma GCC unroll 8
          for (int key = 0; key < kLanes; key++) p[r][key] = v_madd(x, row[key], p[r][key]);
        }
      };
      for (int d = 0; d < whole; d += VL) add_dims(d, VL);
      if (whole < dim) add_dims(whole, dim - whole);
#pragma GCC unroll 8
      for (int r = 0; r < M; r++) t[r][step] = sum_lanes(p[r]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < M; r++) v_store(scores + r * kTileKeys + j, sum_residues(t[r]));
  }
}

template <typename Row>
inline void score_rows_block(int rows, float* scores, const float* q, int64_t q_stride, const uint8_t* const* keys,
                             const uint8_t* const* next, int dim, int first, int last) {
  for (int r = 0; r < rows; r += 4) {
    float* to = scores + r * kTileKeys;
    const float* from = q + r * q_stride;
    switch (rows - r) {
      case 1: score_rows<1, Row>(to, from, q_stride, keys, next, dim, first, last); break;
      case 2: score_rows<2, Row>(to, from, q_stride, keys, next, dim, first, last); break;
      case 3: score_rows<3, Row>(to, from, q_stride, keys, next, dim, first, last); break;
      default: score_rows<4, Row>(to, from, q_stride, keys, next, dim, first, last); break;
    }
  }
}

// packed[d, j] = key j's dim d, for keys [first, last) in whole steps of VL. packed: [dim, kTileKeys].
template <typename Row>
void pack_keys(float* packed, const uint8_t* const* keys, int dim, int first, int last) {
  for (int j = first / VL * VL; j < last; j += VL)
    for (int d = 0; d < dim; d += VL) {
      vf x[VL];
#pragma GCC unroll 16
      for (int i = 0; i < VL; i++) x[i] = Row::load(keys[j + i], d);
      transpose(x);
      const int count = dim - d < VL ? dim - d : VL;
      float* to = packed + int64_t{d} * kTileKeys + j;
      if (count == VL) {
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++) v_store(to + i * kTileKeys, x[i]);
      } else {
        for (int i = 0; i < count; i++) v_store(to + i * kTileKeys, x[i]);
      }
    }
}

}  // namespace PG_NS
}  // namespace pg
