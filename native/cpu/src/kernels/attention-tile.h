// The pieces of an attention tile: transposing keys, the register-tiled multiplication, and one softmax step.
//
// One rule keeps every result independent of tile shapes: each output element has one accumulator that takes its terms in
// ascending order (a score: the head dims; an output: the key positions), one FMA a term. Register tiles only choose which
// elements run side by side. Key positions sit in lanes by absolute position modulo VL, so sums of probabilities by lane are
// the same whichever tile a query is in.
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
  vf load(int k, int64_t col) const { return Row::load(rows[k], col); }
};

// c[r, v] (+)= sum over k in [from, to) of a[r, k] * b[k, v], k ascending. c: M rows, c_stride apart, N vectors from column 0.
// Not inlined: there are many shapes and each call does enough.
template <int M, int N, bool kFromZero, typename B>
__attribute__((noinline)) void multiply(float* c, int64_t c_stride, const float* a, int64_t a_stride, const B& b, int64_t col, int from, int to) {
  vf acc[M][N];
#pragma GCC unroll 8
  for (int r = 0; r < M; r++)
#pragma GCC unroll 8
    for (int v = 0; v < N; v++) acc[r][v] = kFromZero ? v_set(0.0f) : v_load(c + r * c_stride + v * VL);
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

template <int M, bool kFromZero, typename B>
void multiply_cols(int cols, float* c, int64_t cs, const float* a, int64_t as, const B& b, int64_t col, int from, int to) {
  static_assert(kCols <= 4);
  switch (cols) {
    case 1: return multiply<M, 1, kFromZero>(c, cs, a, as, b, col, from, to);
    case 2: return multiply<M, 2, kFromZero>(c, cs, a, as, b, col, from, to);
    case 3: return multiply<M, kCols < 3 ? kCols : 3, kFromZero>(c, cs, a, as, b, col, from, to);
    default: return multiply<M, kCols, kFromZero>(c, cs, a, as, b, col, from, to);
  }
}

// The same for `rows` <= kRows rows and vectors [first, last) of c and b.
template <bool kFromZero, typename B>
void multiply_block(int rows, int first, int last, float* c, int64_t cs, const float* a, int64_t as, const B& b,
                           int from, int to) {
  static_assert(kRows <= 6);
  for (int v = first; v < last; v += kCols) {
    const int cols = last - v < kCols ? last - v : kCols;
    const int64_t col = int64_t{v} * VL;
    float* part = c + col;
    switch (rows) {
      case 1: multiply_cols<1, kFromZero>(cols, part, cs, a, as, b, col, from, to); break;
      case 2: multiply_cols<2, kFromZero>(cols, part, cs, a, as, b, col, from, to); break;
      case 3: multiply_cols<kRows < 3 ? kRows : 3, kFromZero>(cols, part, cs, a, as, b, col, from, to); break;
      case 4: multiply_cols<kRows < 4 ? kRows : 4, kFromZero>(cols, part, cs, a, as, b, col, from, to); break;
      case 5: multiply_cols<kRows < 5 ? kRows : 5, kFromZero>(cols, part, cs, a, as, b, col, from, to); break;
      default: multiply_cols<kRows, kFromZero>(cols, part, cs, a, as, b, col, from, to); break;
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

  void run(float* scores, int first, int last, float& running_max, float* sums, float* out, int out_steps) const {
    const vf lowest = v_set(kMinusInfinity);
    const int begin = first / VL;
    const int end = (last + VL - 1) / VL;
    vf x[kTileSteps];
    vf top = lowest;
    for (int v = begin; v < end; v++) {
      x[v] = v_load(scores + v * VL);
      if (key_scales != nullptr) x[v] = x[v] * v_load(key_scales + v * VL);
      if (cap != 0.0f) x[v] = v_set(cap * kLog2e) * v_tanh(x[v]);
      const int from = first > v * VL ? first - v * VL : 0;
      const int to = last < v * VL + VL ? last - v * VL : VL;
      if (from > 0 || to < VL) x[v] = v_select_lanes(x[v], lowest, from, to);
      top = v_max(x[v], top);
    }
    const float previous = running_max;
    const float tile_max = v_hmax(top);
    const float now = tile_max > previous ? tile_max : previous;
    // All scores -inf: any finite base gives probabilities of 0.
    const vf base = v_set(now == kMinusInfinity ? 0.0f : now);
    vf sum = v_load(sums);
    if (now != previous) {
      const vf shrink = v_exp2(v_set(previous) - base);
      sum = sum * shrink;
      for (int v = 0; v < out_steps; v++) v_store(out + v * VL, v_load(out + v * VL) * shrink);
      running_max = now;
    }
    for (int v = begin; v < end; v++) {
      vf p = v_exp2(x[v] - base);
      sum = sum + p;
      if (value_scales != nullptr) p = p * v_load(value_scales + v * VL);
      v_store(scores + v * VL, p);
    }
    v_store(sums, sum);
  }
};

}  // namespace PG_NS
}  // namespace pg
