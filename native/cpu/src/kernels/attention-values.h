// Probabilities times values: a register-tiled multiplication whose B is rows of f32 or rows of the pool.
#pragma once
#include "attention-tile.h"

namespace pg {
namespace PG_NS {

// Register tile of the multiplication: kRows x kCols accumulators, leaving room for one row of B and one broadcast.
#if PG_ISA == 3
constexpr int kRows = 6;
constexpr int kCols = 4;
#elif PG_ISA == 2
constexpr int kRows = 6;
constexpr int kCols = 2;
#elif PG_NEON
constexpr int kRows = 6;
constexpr int kCols = 4;
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
  const uint8_t* const* next;  // the same rows of the next tile: prefetched one by one, a burst would stall
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

}  // namespace PG_NS
}  // namespace pg
