// The pieces of an attention tile: scores, one softmax step, probabilities times values.
//
// What keeps every result independent of tile shapes is that each number is made of its terms in one fixed order, and register
// tiles only choose which numbers run side by side:
//   score    q . k in VL partial sums, p_l over the dims d = l (mod VL) ascending, one FMA a term; then t_r = p_r + p_r+4 + ...
//            and t_0 + t_1 + t_2 + t_3, left to right. Few queries: lanes are dims, read straight from the page (score_rows).
//            Many: keys are transposed once, lanes are keys (score_packed). Both follow the same order.
//   output   one accumulator a number, keys ascending, one FMA a key.
//   sum      of probabilities: by lane, keys in lanes by absolute position modulo VL, tiles ascending.
#pragma once
#include "kv-rows.h"
#include "simd-math.h"

namespace pg {
namespace PG_NS {

constexpr int kTileKeys = 64;  // keys of one tile; tiles begin at absolute multiples of it
constexpr int kTileSteps = kTileKeys / VL;

// Register tile of the multiplication: kRows x kCols accumulators, leaving room for one row of B and one broadcast.
#if PG_ISA == 3
constexpr int kRows = 6;
constexpr int kCols = 4;
#elif PG_ISA == 2
constexpr int kRows = 6;
constexpr int kCols = 2;
#else
constexpr int kRows = 4;
constexpr int kCols = 2;
#endif

// B of the multiplication: f32 rows one after the other ...
struct PackedB {
  const float* rows;
  int64_t stride;
  vf load(int k, int64_t col) const { return v_load(rows + k * stride + col); }
};
// ... or rows of the pool where they lie.
template <typename Row>
struct PagedB {
  const uint8_t* const* rows;
  const uint8_t* const* next;  // the same rows of the tile that follows: asked for one by one, a burst would stall
  vf load(int k, int64_t col) const {
    __builtin_prefetch(next[k] + col * Row::bytes, 0, 2);
    return Row::load(rows[k], col);
  }
};

// c[r, v] += sum over k in [from, to) of a[r, k] * b[k, v], k ascending. c: M rows, c_stride apart, N vectors from column 0.
// Not inlined: there are many shapes and each call does enough.
template <int M, int N, typename B>
__attribute__((noinline)) void multiply(float* c, int64_t c_stride, const float* a, int64_t a_stride, const B& b, int64_t col, int from, int to) {
  vf acc[M][N];
#pragma GCC unroll 8
  for (int r = 0; r < M; r++)
#pragma GCC unroll 8
    for (int v = 0; v < N; v++) acc[r][v] = v_load(c + r * c_stride + v * VL);
  for (int k = from; k < to; k++) {
    vf row[N];
#pragma GCC unroll 8
    for (int v = 0; v < N; v++) row[v] = b.load(k, col + v * VL);
#pragma GCC unroll 8
    for (int r = 0; r < M; r++) {
      const vf x = v_set(a[r * a_stride + k]);
#pragma GCC unroll 8
      for (int v = 0; v < N; v++) acc[r][v] = v_madd(x, row[v], acc[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < M; r++)
#pragma GCC unroll 8
    for (int v = 0; v < N; v++) v_store(c + r * c_stride + v * VL, acc[r][v]);
}

template <int M, typename B>
void multiply_cols(int cols, float* c, int64_t cs, const float* a, int64_t as, const B& b, int64_t col, int from, int to) {
  static_assert(kCols <= 4);
  switch (cols) {
    case 1: return multiply<M, 1>(c, cs, a, as, b, col, from, to);
    case 2: return multiply<M, 2>(c, cs, a, as, b, col, from, to);
    case 3: return multiply<M, kCols < 3 ? kCols : 3>(c, cs, a, as, b, col, from, to);
    default: return multiply<M, kCols>(c, cs, a, as, b, col, from, to);
  }
}

// The same for `rows` <= kRows rows and vectors [first, last) of c and b.
template <typename B>
void multiply_block(int rows, int first, int last, float* c, int64_t cs, const float* a, int64_t as, const B& b,
                           int from, int to) {
  static_assert(kRows <= 6);
  for (int v = first; v < last; v += kCols) {
    const int cols = last - v < kCols ? last - v : kCols;
    const int64_t col = int64_t{v} * VL;
    float* part = c + col;
    switch (rows) {
      case 1: multiply_cols<1>(cols, part, cs, a, as, b, col, from, to); break;
      case 2: multiply_cols<2>(cols, part, cs, a, as, b, col, from, to); break;
      case 3: multiply_cols<kRows < 3 ? kRows : 3>(cols, part, cs, a, as, b, col, from, to); break;
      case 4: multiply_cols<kRows < 4 ? kRows : 4>(cols, part, cs, a, as, b, col, from, to); break;
      case 5: multiply_cols<kRows < 5 ? kRows : 5>(cols, part, cs, a, as, b, col, from, to); break;
      default: multiply_cols<kRows>(cols, part, cs, a, as, b, col, from, to); break;
    }
  }
}

// --- scores -------------------------------------------------------------------------------------------------------------

constexpr int kLanes = VL / 4;  // 128-bit lanes of a vector
#if PG_ISA == 3
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
#if PG_ISA == 3
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
  vf r;
  for (int j = 0; j < 4; j++) r[j] = ((t[j][0] + t[j][1]) + t[j][2]) + t[j][3];
  return r;
#endif
}

// scores[r, j] for M queries and the keys [first, last), in whole steps of VL: lanes are dims. q: [M, q_stride], zero from dim
// up to a multiple of VL. next: the rows of the tile that follows, to be asked for meanwhile.
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

// x[i][j] -> x[j][i] for a VL x VL block of lanes.
PG_INLINE void transpose(vf (&x)[VL]) {
#if PG_ISA == 3
  __m512 t[16];
  for (int i = 0; i < 16; i += 2) {  // pairs of rows, interleaved
    t[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
  }
  __m512 u[16];
  for (int i = 0; i < 16; i += 4) {  // four rows, interleaved: u[i + c] has column c of each 128-bit lane
    u[i + 0] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
    u[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
    u[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
    u[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
  }
  for (int c = 0; c < 4; c++) {  // 4 x 4 transpose of 128-bit lanes
    const __m512 a = _mm512_shuffle_f32x4(u[c], u[c + 4], 0x88);
    const __m512 b = _mm512_shuffle_f32x4(u[c + 8], u[c + 12], 0x88);
    const __m512 d = _mm512_shuffle_f32x4(u[c], u[c + 4], 0xdd);
    const __m512 e = _mm512_shuffle_f32x4(u[c + 8], u[c + 12], 0xdd);
    x[c] = _mm512_shuffle_f32x4(a, b, 0x88);
    x[c + 8] = _mm512_shuffle_f32x4(a, b, 0xdd);
    x[c + 4] = _mm512_shuffle_f32x4(d, e, 0x88);
    x[c + 12] = _mm512_shuffle_f32x4(d, e, 0xdd);
  }
#elif PG_ISA == 2
  __m256 t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
  }
  __m256 u[8];
  for (int i = 0; i < 8; i += 4) {
    u[i + 0] = _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(t[i]), _mm256_castps_pd(t[i + 2])));
    u[i + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(t[i]), _mm256_castps_pd(t[i + 2])));
    u[i + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(t[i + 1]), _mm256_castps_pd(t[i + 3])));
    u[i + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(t[i + 1]), _mm256_castps_pd(t[i + 3])));
  }
  for (int c = 0; c < 4; c++) {
    x[c] = _mm256_permute2f128_ps(u[c], u[c + 4], 0x20);
    x[c + 4] = _mm256_permute2f128_ps(u[c], u[c + 4], 0x31);
  }
#else
  for (int i = 0; i < VL; i++)
    for (int j = 0; j < i; j++) {
      const float swapped = x[i][j];
      x[i][j] = x[j][i];
      x[j][i] = swapped;
    }
#endif
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

// One query's softmax over the keys [first, last) of a tile: scores -> probabilities in place, running max and sums by lane
// moved on, the output rescaled. Keys outside the range add exactly nothing.
struct SoftmaxStep {
  float cap;                  // 0: scores are in base 2 already; else they are score / cap, to become cap * tanh(.)
  const float* key_scales;    // [kTileKeys] or null
  const float* value_scales;  // [kTileKeys] or null: folded into the probabilities after they are summed

  PG_MEMBER void run(float* scores, int first, int last, float& running_max, float* sums, float* out, int out_steps) const {
    if (first == 0 && last == kTileKeys)
      steps<true>(scores, 0, kTileKeys, running_max, sums, out, out_steps);
    else
      steps<false>(scores, first, last, running_max, sums, out, out_steps);
  }

  // kWhole: all keys of the tile, so that the loops unroll and scores stay in registers.
  template <bool kWhole>
  __attribute__((noinline)) void steps(float* scores, int first, int last, float& running_max, float* sums, float* out,
                                       int out_steps) const {
    const vf lowest = v_set(kMinusInfinity);
    const int begin = kWhole ? 0 : first / VL;
    const int end = kWhole ? kTileSteps : (last + VL - 1) / VL;
    vf x[kTileSteps];
    vf top = lowest;
#pragma GCC unroll 16
    for (int v = begin; v < end; v++) {
      x[v] = v_load(scores + v * VL);
      if (key_scales != nullptr) x[v] = x[v] * v_load(key_scales + v * VL);
      if (cap != 0.0f) x[v] = v_set(cap * kLog2e) * v_tanh(x[v]);
      if (!kWhole) x[v] = v_select_lanes(x[v], lowest, i_max(first - v * VL, 0), i_min(last - v * VL, VL));
      top = v_max(x[v], top);
    }
    const float previous = running_max;
    const float tile_max = v_hmax(top);
    const float now = tile_max > previous ? tile_max : previous;
    // All scores -inf: any finite base will do.
    const vf base = v_set(now == kMinusInfinity ? 0.0f : now);
    vf sum = v_load(sums);
    if (now != previous) {
      running_max = now;
      if (previous != kMinusInfinity) {
        const vf shrink = v_exp2(v_set(previous) - base);
        sum = sum * shrink;
        for (int v = 0; v < out_steps; v++) v_store(out + v * VL, v_load(out + v * VL) * shrink);
      }
    }
#pragma GCC unroll 16
    for (int v = begin; v < end; v++) {
      vf p = v_exp2_clamped(x[v] - base);
      if (!kWhole) p = v_select_lanes(p, v_set(0.0f), i_max(first - v * VL, 0), i_min(last - v * VL, VL));
      sum = sum + p;
      if (value_scales != nullptr) p = p * v_load(value_scales + v * VL);
      v_store(scores + v * VL, p);
    }
    v_store(sums, sum);
  }
};

}  // namespace PG_NS
}  // namespace pg
