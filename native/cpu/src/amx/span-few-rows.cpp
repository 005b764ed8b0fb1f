// Matmul of span-matmul.h for few rows: vpdpbusd on codes as they are stored, a block's sums times its multipliers in integers.
//
// Tiling   up to kFewRows rows of x by the 32 outputs of a panel. The sums of 4-bit codes over a block fit 16 bits (32 * 8 * 127 < 2^15), so
//          vpdpwssd multiplies and adds them up at once.
// Traffic  codes and factors stream once per kFewRows rows, at 8.5 or 4.5 bits a weight.
#include "../kernels/finish.h"
#include "span-matmul.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int kFewRows = 8;
// Weights are asked for a while before their use, into L2, and those of few rows or of 8 bits soon before again, into L1 (8 rows of q8: 5 %
// less time; of q4: no less). The factors of a span are read at its beginning.
constexpr int64_t kLongBefore = 16384, kSoonBefore = 2048;

template <Codes C>
PG_INLINE __m512i unsigned_codes(const uint8_t* codes, int half, int group) {
  if constexpr (C == Codes::kByte) return _mm512_loadu_si512(codes + group * 128 + half * 64);
  const __m512i both = _mm512_loadu_si512(codes + (group & 3) * 128 + half * 64);
  return _mm512_and_si512(group < 4 ? both : _mm512_srli_epi16(both, 4), _mm512_set1_epi8(15));
}

// sum + dot * multiplier, both of which the low halves hold where codes have 4 bits.
template <Codes C>
PG_INLINE __m512i add_multiple(__m512i sum, __m512i dot, __m512i multiplier) {
  if constexpr (C == Codes::kByte) return _mm512_add_epi32(sum, _mm512_mullo_epi32(dot, multiplier));
  return _mm512_dpwssd_epi32(sum, dot, _mm512_and_si512(multiplier, _mm512_set1_epi32(0xffff)));
}

// The sums of a span: [halves of the panel][rows].
template <int E, int MR>
PG_INLINE void span_sums(__m512i (&whole)[2][MR], const uint8_t* codes, const SpanFactors (&factors)[2], const SpanRows& x,
                         int64_t row_sums, int64_t first, int64_t begin, int64_t end, bool ahead) {
  constexpr EncodingSpec spec = spec_of(E);
#pragma GCC unroll 2
  for (int j = 0; j < 2; j++)
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) whole[j][i] = _mm512_setzero_si512();
  for (int64_t b = begin; b < end; b++, codes += block_bytes(spec)) {
    if (ahead)
      for (int64_t line = 0; line < block_bytes(spec); line += 64) {
        __builtin_prefetch(codes + kLongBefore + line, 0, 2);
        if (MR <= 3 || spec.codes == Codes::kByte) __builtin_prefetch(codes + kSoonBefore + line, 0, 3);
      }
    const uint8_t* q = x.quants + (b / 2 * x.height + first) * kTileRowBytes + b % 2 * kBlockCols;
    const int32_t* minus = x.sums + first * row_sums + b;
    __m512i dot[2][MR];
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) dot[0][i] = dot[1][i] = _mm512_set1_epi32(minus[i * row_sums] * offset_of(spec.codes));
#pragma GCC unroll 8
    for (int group = 0; group < 8; group++) {
      const __m512i w[2] = {unsigned_codes<spec.codes>(codes, 0, group), unsigned_codes<spec.codes>(codes, 1, group)};
#pragma GCC unroll 8
      for (int i = 0; i < MR; i++) {
        int32_t columns;
        memcpy(&columns, q + i * kTileRowBytes + group * 4, 4);
        const __m512i four = _mm512_set1_epi32(columns);
        dot[0][i] = _mm512_dpbusd_epi32(dot[0][i], w[0], four);
        dot[1][i] = _mm512_dpbusd_epi32(dot[1][i], w[1], four);
      }
    }
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++)
#pragma GCC unroll 8
      for (int i = 0; i < MR; i++) whole[j][i] = add_multiple<spec.codes>(whole[j][i], dot[j][i], factors[j].multipliers[b - begin]);
  }
}

// Rows [first, first + MR) of a tile of x by one panel.
template <int E, int MR>
void few_rows(const Gemm& g, int64_t panel, int64_t tile, int64_t first, bool ahead) {
  constexpr EncodingSpec spec = spec_of(E);
  const SpanRows x = span_rows(g.tile_of(tile), g.tiles.height(tile), g.cols);
  const int64_t blocks = blocks_of(g.cols);
  const uint8_t* codes = g.panels + panel * g.panel_bytes;
  vf sum[2][MR];
#pragma GCC unroll 2
  for (int j = 0; j < 2; j++)
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) sum[j][i] = v_set(0.0f);
  for (int64_t begin = 0; begin < blocks; begin += kSpanBlocks, codes += kSpanBlocks * block_bytes(spec)) {
    const int64_t end = begin + kSpanBlocks < blocks ? begin + kSpanBlocks : blocks;
    const uint8_t* at = codes + code_bytes(spec.codes);
    SpanFactors factors[2];
    read_factors<spec.codes>(factors[0], at, block_bytes(spec), end - begin);
    read_factors<spec.codes>(factors[1], at + 32, block_bytes(spec), end - begin);
    __m512i whole[2][MR];
    span_sums<E, MR>(whole, codes, factors, x, spans_of(g.cols) * kSpanBlocks, first, begin, end, ahead);
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++)
#pragma GCC unroll 8
      for (int i = 0; i < MR; i++) {
        const vf factor = v_mul(factors[j].unit, v_set(x.scales[begin / kSpanBlocks * x.height + first + i]));
        sum[j][i] = v_madd(_mm512_cvtepi32_ps(whole[j][i]), factor, sum[j][i]);
      }
  }
  alignas(64) float sums[MR][kPanelRows];
#pragma GCC unroll 2
  for (int j = 0; j < 2; j++)
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) v_store(sums[i] + j * 16, sum[j][i]);
  finish(g, sums[0], g.tiles.first(tile) + first, MR, panel * kPanelRows, kPanelRows);
}

template <int E>
void few_rows_gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t*) {
  using Run = void (*)(const Gemm&, int64_t, int64_t, int64_t, bool);
  constexpr Run run[kFewRows] = {few_rows<E, 1>, few_rows<E, 2>, few_rows<E, 3>, few_rows<E, 4>,
                                 few_rows<E, 5>, few_rows<E, 6>, few_rows<E, 7>, few_rows<E, 8>};
  for (int64_t panel = panel_begin; panel < panel_end; panel++)
    for (int64_t tile = tile_begin; tile < tile_end; tile++) {
      const int64_t height = g.tiles.height(tile), parts = (height + kFewRows - 1) / kFewRows;
      for (int64_t part = 0; part < parts; part++) {
        const int64_t first = part * height / parts, rows = (part + 1) * height / parts - first;
        run[rows - 1](g, panel, tile, first, tile == tile_begin && part == 0);
      }
    }
}

}  // namespace

const GemmFn gemm_q8_few_rows = few_rows_gemm<kEncodingQ8>;
const GemmFn gemm_q4_few_rows = few_rows_gemm<kEncodingQ4>;

}  // namespace PG_NS
}  // namespace pg
