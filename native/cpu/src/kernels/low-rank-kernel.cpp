// The two narrow products of an adapter (low-rank.h).
//
// Maths    shrunk[i, r] = sum_k x[i, k] * a[r, k];   out[i, j] += scale * sum_r shrunk[i, r] * b[j, r]
// Order    a shrunk number has VL sums, of the inputs k = lane mod VL, ascending, which one fixed tree joins; an output has one sum, r
//          ascending. Neither depends on the rows or adapters beside it.
// Layout   numbers come in blocks of two vectors; of bf16, a word has one number of each, so that both take one load.
//            a [groups of 4 ranks][blocks of 2 VL inputs][rank of the group]     the last group has what is left of the rank
//            b [panels of 32 outputs][pairs of ranks][vectors of outputs]               block: the outputs at the even and at the odd rank
// Traffic  each matrix streams once per kBandRows rows, from L1 but for the first; a is read with no byte of padding but at the end of its inputs.
#include "../encoding.h"
#include "../low-rank.h"
#include "lanes.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int kBlock = 2 * VL;
constexpr int64_t kOutputs = kPanelRows;
constexpr int kOutVectors = kOutputs / VL;
// Rows of x side by side.
constexpr int kRows = PG_ISA == 3 || PG_NEON ? 4 : 2;
constexpr int kExpandRows = PG_ISA == 3 ? 4 : 2;

struct F32Block {
  static constexpr int kBytes = 4;
  PG_INLINE vf first(const uint8_t* p) { return v_load((const float*)p); }
  PG_INLINE vf second(const uint8_t* p) { return v_load((const float*)p + VL); }
};
struct Bf16Block {
  static constexpr int kBytes = 2;
  PG_INLINE vf first(const uint8_t* p) { return v_load_bf16_even((const uint16_t*)p); }
  PG_INLINE vf second(const uint8_t* p) { return v_load_bf16_odd((const uint16_t*)p); }
};

int64_t blocks_of(int64_t inputs) { return (inputs + kBlock - 1) / kBlock; }
int64_t pairs_of(int64_t rank) { return (rank + 1) / 2; }
int64_t panels_of(int64_t outputs) { return (outputs + kOutputs - 1) / kOutputs; }
int64_t width_of(const LowRank& low_rank) { return low_rank.is_bf16 ? Bf16Block::kBytes : F32Block::kBytes; }

void measure(LowRank& low_rank) {
  const int64_t block_bytes = kBlock * width_of(low_rank);
  low_rank.b_at = (low_rank.rank * blocks_of(low_rank.inputs) * block_bytes + 63) / 64 * 64;
  low_rank.bytes = low_rank.b_at + panels_of(low_rank.outputs) * pairs_of(low_rank.rank) * kOutVectors * block_bytes;
}

// Writes number i of a block's first or second vector.
void put(uint8_t* block, bool is_bf16, int i, bool is_second, float value) {
  if (!is_bf16) {
    ((float*)block)[i + (is_second ? VL : 0)] = value;
    return;
  }
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  ((uint16_t*)block)[2 * i + (is_second ? 1 : 0)] = (uint16_t)(bits >> 16);
}

void pack(LowRank& low_rank, const float* a, const float* b) {
  const int64_t block_bytes = kBlock * width_of(low_rank), blocks = blocks_of(low_rank.inputs);
  uint8_t* to = low_rank.block.data;
  for (int64_t group = 0; group < low_rank.rank; group += kRankGroup) {
    const int64_t height = low_rank.rank - group < kRankGroup ? low_rank.rank - group : kRankGroup;
    for (int64_t block = 0; block < blocks; block++)
      for (int64_t r = 0; r < height; r++, to += block_bytes)
        for (int i = 0; i < kBlock; i++) {
          const int64_t k = block * kBlock + i;
          if (k < low_rank.inputs) put(to, low_rank.is_bf16, i % VL, i >= VL, a[(group + r) * low_rank.inputs + k]);
        }
  }
  to = low_rank.block.data + low_rank.b_at;
  for (int64_t panel = 0; panel < panels_of(low_rank.outputs); panel++)
    for (int64_t pair = 0; pair < pairs_of(low_rank.rank); pair++)
      for (int v = 0; v < kOutVectors; v++, to += block_bytes)
        for (int i = 0; i < VL; i++) {
          const int64_t output = panel * kOutputs + v * VL + i;
          for (int64_t r = 2 * pair; r < 2 * pair + 2; r++)
            if (output < low_rank.outputs && r < low_rank.rank) put(to, low_rank.is_bf16, i, r % 2 != 0, b[output * low_rank.rank + r]);
        }
}

// A stream is asked for this far ahead of its use; what lies there behind its end is the next one as a rule.
constexpr int64_t kStreamAhead = 4096;
template <int kBytes>
PG_INLINE void ask_stream(const uint8_t* at) {
#pragma GCC unroll 16
  for (int line = 0; line < kBytes; line += 64) __builtin_prefetch(at + kStreamAhead + line, 0, 2);
}

// N rows by a group of R ranks.
template <class W, int R, int N>
void shrink_tile(float* out, int64_t out_stride, const float* x, int64_t x_stride, const uint8_t* a, int64_t inputs) {
  constexpr int kBytes = kBlock * W::kBytes;
  vf sum[R][N];
#pragma GCC unroll 4
  for (int r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int i = 0; i < N; i++) sum[r][i] = v_set(0.0f);
  int64_t k = 0;
  for (; k + kBlock <= inputs; k += kBlock, a += R * kBytes) {
    ask_stream<R * kBytes>(a);
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) {
      const vf first = W::first(a + r * kBytes), second = W::second(a + r * kBytes);
#pragma GCC unroll 4
      for (int i = 0; i < N; i++) {
        sum[r][i] = v_madd(first, v_load(x + i * x_stride + k), sum[r][i]);
        sum[r][i] = v_madd(second, v_load(x + i * x_stride + k + VL), sum[r][i]);
      }
    }
  }
  if (k < inputs) {
    float rest[N][kBlock] = {};
    for (int i = 0; i < N; i++)
      for (int64_t j = k; j < inputs; j++) rest[i][j - k] = x[i * x_stride + j];
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
      for (int i = 0; i < N; i++) {
        sum[r][i] = v_madd(W::first(a + r * kBytes), v_load(rest[i]), sum[r][i]);
        sum[r][i] = v_madd(W::second(a + r * kBytes), v_load(rest[i] + VL), sum[r][i]);
      }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int i = 0; i < N; i++) out[i * out_stride + r] = v_hsum(sum[r][i]);
}

template <class W, int N>
PG_INLINE void shrink_group(int64_t ranks, float* out, int64_t out_stride, const float* x, int64_t x_stride, const uint8_t* a, int64_t inputs) {
  if (ranks == 4) return shrink_tile<W, 4, N>(out, out_stride, x, x_stride, a, inputs);
  if (ranks == 3) return shrink_tile<W, 3, N>(out, out_stride, x, x_stride, a, inputs);
  if (ranks == 2) return shrink_tile<W, 2, N>(out, out_stride, x, x_stride, a, inputs);
  shrink_tile<W, 1, N>(out, out_stride, x, x_stride, a, inputs);
}

template <class W>
void shrink_rows(const LowRank& l, float* out, int64_t out_stride, const float* x, int64_t x_stride, int64_t n, int64_t begin, int64_t end) {
  const int64_t rank_bytes = blocks_of(l.inputs) * kBlock * W::kBytes;
  for (int64_t rank = begin; rank < end; rank += kRankGroup) {
    const int64_t ranks = end - rank < kRankGroup ? end - rank : kRankGroup;
    const uint8_t* a = l.a() + rank * rank_bytes;
    int64_t i = 0;
    for (; i + kRows <= n; i += kRows) shrink_group<W, kRows>(ranks, out + i * out_stride + rank, out_stride, x + i * x_stride, x_stride, a, l.inputs);
    for (; i < n; i++) shrink_group<W, 1>(ranks, out + i * out_stride + rank, out_stride, x + i * x_stride, x_stride, a, l.inputs);
  }
  if (end == l.rank && l.rank % 2 != 0)
    for (int64_t i = 0; i < n; i++) out[i * out_stride + l.rank] = 0.0f;
}

void shrink(const LowRank& l, float* out, int64_t out_stride, const float* x, int64_t x_stride, int64_t n, int64_t begin, int64_t end) {
  if (l.is_bf16) return shrink_rows<Bf16Block>(l, out, out_stride, x, x_stride, n, begin, end);
  shrink_rows<F32Block>(l, out, out_stride, x, x_stride, n, begin, end);
}

// N rows by the outputs of a panel, of which there are `valid`.
template <class W, int N>
void expand_tile(float* out, int64_t out_stride, const float* x, int64_t x_stride, const uint8_t* b, int64_t pairs, float scale, int64_t valid) {
  constexpr int kBytes = kBlock * W::kBytes;
  vf sum[N][kOutVectors];
#pragma GCC unroll 8
  for (int i = 0; i < N; i++)
#pragma GCC unroll 8
    for (int v = 0; v < kOutVectors; v++) sum[i][v] = v_set(0.0f);
  for (int64_t pair = 0; pair < pairs; pair++, b += kOutVectors * kBytes) {
    ask_stream<kOutVectors * kBytes>(b);
#pragma GCC unroll 8
    for (int v = 0; v < kOutVectors; v++) {
      const vf first = W::first(b + v * kBytes), second = W::second(b + v * kBytes);
#pragma GCC unroll 8
      for (int i = 0; i < N; i++) {
        sum[i][v] = v_madd(first, v_set(x[i * x_stride + 2 * pair]), sum[i][v]);
        sum[i][v] = v_madd(second, v_set(x[i * x_stride + 2 * pair + 1]), sum[i][v]);
      }
    }
  }
  const vf factor = v_set(scale);
#pragma GCC unroll 8
  for (int i = 0; i < N; i++) {
    float* to = out + i * out_stride;
#pragma GCC unroll 8
    for (int v = 0; v < kOutVectors; v++) {
      if (valid >= (v + 1) * VL) {
        v_store(to + v * VL, v_add(v_load(to + v * VL), v_mul(sum[i][v], factor)));
      } else if (valid > v * VL) {
        const int lanes = (int)(valid - v * VL);
        v_store_first(to + v * VL, v_add(v_load_first(to + v * VL, lanes), v_mul(sum[i][v], factor)), lanes);
      }
    }
  }
}

template <class W>
void expand_rows(const LowRank& l, float* out, int64_t out_stride, const float* x, int64_t x_stride, int64_t n, float scale, int64_t begin, int64_t end) {
  const int64_t pairs = pairs_of(l.rank), panel_bytes = pairs * kOutVectors * kBlock * W::kBytes;
  for (int64_t panel = begin; panel < end; panel++) {
    const uint8_t* b = l.b() + panel * panel_bytes;
    const int64_t col = (panel - begin) * kOutputs, valid = l.outputs - panel * kOutputs;
    int64_t i = 0;
    for (; i + kExpandRows <= n; i += kExpandRows)
      expand_tile<W, kExpandRows>(out + i * out_stride + col, out_stride, x + i * x_stride, x_stride, b, pairs, scale, valid);
    for (; i < n; i++) expand_tile<W, 1>(out + i * out_stride + col, out_stride, x + i * x_stride, x_stride, b, pairs, scale, valid);
  }
}

void expand(const LowRank& l, float* out, int64_t out_stride, const float* x, int64_t x_stride, int64_t n, float scale, int64_t begin, int64_t end) {
  if (l.is_bf16) return expand_rows<Bf16Block>(l, out, out_stride, x, x_stride, n, scale, begin, end);
  expand_rows<F32Block>(l, out, out_stride, x, x_stride, n, scale, begin, end);
}

}  // namespace

extern const LowRankKernels low_rank_kernels = {measure, pack, shrink, expand};

}  // namespace PG_NS
}  // namespace pg
