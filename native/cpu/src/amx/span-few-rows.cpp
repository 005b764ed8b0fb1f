// Matmul of span-matmul.h for few rows: vpdpbusd on codes made bytes in registers, or, for a row or two of q4, on codes as they are.
//
// Tiling   up to kFewRows rows of x by the 32 outputs of a panel.
// Traffic  codes and factors stream once per kFewRows rows, at 8.5 or 4.5 bits a weight.
#include "../kernels/finish.h"
#include "span-ahead.h"
#include "span-matmul.h"
#include "span-nibbles.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int kFewRows = 3;

// Some lines of a tile of x, from a block on.
struct BlockRows {
  const uint8_t* quants;  // kTileRowBytes apart
  const int16_t* sums;    // less those of the block, row_sums apart
  int64_t row_sums;
  [[gnu::always_inline]] __m512i columns(int64_t row, int group) const {  // four of a row, for every output
    int32_t four;
    memcpy(&four, quants + row * kTileRowBytes + group * 4, 4);
    return _mm512_set1_epi32(four);
  }
  [[gnu::always_inline]] int32_t minus(int64_t row) const { return sums[row * row_sums]; }
};

// 16 outputs of a block by MR rows, as bytes.
template <int E, int MR>
PG_INLINE void add_bytes(__m512i (&sums)[MR], const uint8_t* codes, const SpanMultipliers<E>& multipliers, int64_t b, const BlockRows& x) {
  const BlockBytes<E> block(multipliers, b, 128);
  if constexpr (!byte_rule(E).is_unsigned)
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) sums[i] = _mm512_add_epi32(sums[i], _mm512_set1_epi32(x.minus(i) * 128));
#pragma GCC unroll 8
  for (int v = 0; v < 8 / block.kParts; v++) {
    __m512i w[block.kParts];
    block.make(w, codes, v);
#pragma GCC unroll 2
    for (int part = 0; part < block.kParts; part++)
#pragma GCC unroll 8
      for (int i = 0; i < MR; i++) sums[i] = _mm512_dpbusd_epi32(sums[i], w[part], x.columns(i, v + part * (8 / block.kParts)));
  }
}

// The same for q4: multiplier * code / 4 = whole * code + rest, the products with x of codes and of rests added up apart. That is less work
// than making bytes of both where rows are one or two.
template <int MR>
PG_INLINE void add_codes(__m512i (&sums)[MR], const uint8_t* codes, __m512i multiplier, const BlockRows& x) {
  const __m512i mask = _mm512_set1_epi8(15), table = _mm512_load_si512(kCodeQuarters);
  const __m512i rest = _mm512_and_si512(_mm512_slli_epi32(multiplier, 4), _mm512_set1_epi32(0x30)), quarters = each_byte(rest);
  const __m512i whole = _mm512_and_si512(_mm512_srai_epi32(multiplier, 2), _mm512_set1_epi32(0xffff));
  // What is too much for a code (8, and 16 times the quarters, which lie above it) and for a rest (8 times the quarters, over 4).
  const __m512i of_codes = _mm512_add_epi32(rest, _mm512_set1_epi32(8)), of_rests = _mm512_srli_epi32(rest, 3);
  __m512i dots[MR];  // of codes: 32 * 8 * 127 < 2^15
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++) {
    const __m512i minus = _mm512_set1_epi32(x.minus(i) & 0xffff);
    dots[i] = _mm512_dpwssd_epi32(_mm512_setzero_si512(), of_codes, minus);
    sums[i] = _mm512_dpwssd_epi32(sums[i], of_rests, minus);
  }
#pragma GCC unroll 8
  for (int v = 0; v < 4; v++) {
    const __m512i both = _mm512_loadu_si512(codes + v * 128);
#pragma GCC unroll 2
    for (int part = 0; part < 2; part++) {
      const __m512i index = _mm512_ternarylogic_epi32(part == 0 ? both : _mm512_srli_epi16(both, 4), mask, quarters, 0xea);  // a & b | c
      const __m512i rests = looked_up(index, table);
#pragma GCC unroll 8
      for (int i = 0; i < MR; i++) {
        const __m512i four = x.columns(i, v + part * 4);
        dots[i] = _mm512_dpbusd_epi32(dots[i], index, four);
        sums[i] = _mm512_dpbusd_epi32(sums[i], rests, four);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++) sums[i] = _mm512_dpwssd_epi32(sums[i], dots[i], whole);
}

template <int MR>
PG_INLINE void finish_few_rows(const Gemm& g, const vf (&sum)[2][MR], int64_t panel, int64_t row) {
  alignas(64) float sums[MR][kPanelRows];
#pragma GCC unroll 2
  for (int j = 0; j < 2; j++)
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) v_store(sums[i] + j * 16, sum[j][i]);
  finish(g, sums[0], row, MR, panel * kPanelRows, kPanelRows);
}

// Rows [first, first + MR) of a tile of x by one panel.
template <int E, int MR, int PLANES>
void few_rows(const Gemm& g, int64_t panel, int64_t tile, int64_t first, bool ahead) {
  constexpr int kLines = MR * PLANES;
  const SpanRows x = span_rows<PLANES>(g.tile_of(tile), g.tiles.height(tile), g.cols);
  const int64_t blocks = blocks_of(g.cols), row_sums = spans_of(g.cols) * kSpanBlocks;
  const uint8_t* span = g.panels + panel * g.panel_bytes;
  vf sum[2][MR];
#pragma GCC unroll 2
  for (int j = 0; j < 2; j++)
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) sum[j][i] = v_set(0.0f);
  for (int64_t begin = 0; begin < blocks; begin += kSpanBlocks, span += span_bytes<E>()) {
    const int64_t count = begin + kSpanBlocks < blocks ? kSpanBlocks : blocks - begin;
    SpanMultipliers<E> multipliers[2];
    __m512i whole[2][kLines];
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
      read_multipliers(multipliers[j], span, j, count);
#pragma GCC unroll 8
      for (int i = 0; i < kLines; i++) whole[j][i] = _mm512_setzero_si512();
    }
    for (int64_t b = 0; b < count; b++) {
      const uint8_t* codes = block_at<E>(span, b);
      if (ahead) ask_ahead_of(codes, block_bytes(spec_of(E)));
      const int64_t at = begin + b;
      const BlockRows rows = {x.quants + at / 2 * x.step_bytes() + first * PLANES * kTileRowBytes + at % 2 * kBlockCols,
                              x.sums + first * PLANES * row_sums + at, row_sums};
#pragma GCC unroll 2
      for (int j = 0; j < 2; j++) {
        if constexpr (E == kEncodingQ4 && MR <= 2) add_codes<MR>(whole[j], codes + j * 64, multipliers[j].of[b][0], rows);
        else add_bytes<E, kLines>(whole[j], codes + j * 64, multipliers[j], b, rows);
      }
    }
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
      SpanMinimums minimums;
      if constexpr (kHasMinimums<E>) read_minimums<E>(minimums, span, j, count);
#pragma GCC unroll 8
      for (int i = 0; i < MR; i++) {
        const float scale = x.scales[begin / kSpanBlocks * x.height + first + i];
        if constexpr (kHasMinimums<E>)
          sum[j][i] = add_span(sum[j][i], whole[j][i], multipliers[j].unit, minimums, x.sums + (first + i) * row_sums + begin, scale);
        else {
          const __m512i products = whole_of<PLANES>(whole[j][i * PLANES], whole[j][i * PLANES + PLANES - 1]);
          sum[j][i] = v_madd(_mm512_cvtepi32_ps(products), v_mul(multipliers[j].unit, v_set(scale)), sum[j][i]);
        }
      }
    }
  }
  finish_few_rows(g, sum, panel, g.tiles.first(tile) + first);
}

// Rows [first, first + MR) of a tile of x by one panel of span8.
template <int MR, int PLANES>
void few_rows_of_bytes(const Gemm& g, int64_t panel, int64_t tile, int64_t first, bool ahead) {
  constexpr int kLines = MR * PLANES;
  const SpanRows x = span_rows<PLANES>(g.tile_of(tile), g.tiles.height(tile), g.cols);
  const int64_t steps = int_steps_of(g.cols), row_sums = spans_of(g.cols) * kSpanBlocks;
  const uint8_t* bytes = g.panels + panel * g.panel_bytes;
  const __m512i excess = _mm512_set1_epi8((char)0x80);
  vf sum[2][MR] = {};
  for (int64_t begin = 0; begin < steps; begin += kSpanSteps, bytes += kSpanUnits) {
    const int64_t end = begin + kSpanSteps < steps ? begin + kSpanSteps : steps;
    __m512i whole[2][kLines];
    for (int i = 0; i < kLines; i++) {
      int32_t minus = 0;
      for (int64_t b = 0; b < kSpanBlocks; b++) minus += x.sums[(first * PLANES + i) * row_sums + begin * 2 + b];
      whole[0][i] = whole[1][i] = _mm512_set1_epi32(minus * 128);
    }
    for (int64_t step = begin; step < end; step++, bytes += kStepBytes) {
      const uint8_t* q = x.quants + step * x.step_bytes() + first * PLANES * kTileRowBytes;
#pragma GCC unroll 16
      for (int group = 0; group < 16; group++) {
        if (ahead) ask_ahead_of(bytes + group * 128, 128);
#pragma GCC unroll 8
        for (int i = 0; i < kLines; i++) {
          int32_t columns;
          memcpy(&columns, q + i * kTileRowBytes + group * 4, 4);
          const __m512i four = _mm512_set1_epi32(columns);
#pragma GCC unroll 2
          for (int j = 0; j < 2; j++)
            whole[j][i] = _mm512_dpbusd_epi32(whole[j][i], _mm512_xor_si512(_mm512_loadu_si512(bytes + j * kTileBytes + group * 64), excess), four);
        }
      }
    }
    for (int j = 0; j < 2; j++) {
      const vf unit = load_unit<kEncodingQ8>(bytes, j);
      for (int i = 0; i < MR; i++) {
        const vf factor = v_mul(unit, v_set(x.scales[begin / kSpanSteps * x.height + first + i]));
        const __m512i products = whole_of<PLANES>(whole[j][i * PLANES], whole[j][i * PLANES + PLANES - 1]);
        sum[j][i] = v_madd(_mm512_cvtepi32_ps(products), factor, sum[j][i]);
      }
    }
  }
  finish_few_rows(g, sum, panel, g.tiles.first(tile) + first);
}

// A span of MR rows: of each quad the first 16 columns of its blocks, and the last.
template <int MR>
struct QuadColumns {
  __m512i of[MR][kSpanQuads][2];
};

// Four outputs of a span by MR rows: [4 outputs] in every lane, whose sum is that of the span.
template <bool kWhole, int MR>
PG_INLINE void dot_four(__m512i (&out)[MR], const uint8_t* span, int64_t blocks, int64_t output, const QuadColumns<MR>& x, bool ahead) {
  const int64_t quads = kWhole ? kSpanQuads : quads_of(blocks);
  __m512i parts[MR][4] = {};
#pragma GCC unroll 2
  for (int64_t q = 0; q < quads; q++) {
    const Quad quad = quad_of(span, kWhole ? kSpanBlocks : blocks, q);
    if (ahead) ask_ahead_of(quad.codes + output * 64, 4 * 64);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      const __m512i tables = loaded_tables<kWhole>(quad, output + i), codes = quad_codes<kWhole>(quad, output + i);
      const __m512i first = _mm512_shuffle_epi8(tables, lower_nibbles(codes)), last = _mm512_shuffle_epi8(tables, upper_nibbles(codes));
#pragma GCC unroll 8
      for (int r = 0; r < MR; r++) parts[r][i] = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(parts[r][i], first, x.of[r][q][0]), last, x.of[r][q][1]);
    }
  }
  const auto pair = [](__m512i a, __m512i b) { return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b)); };
#pragma GCC unroll 8
  for (int r = 0; r < MR; r++) {
    const __m512i a = pair(parts[r][0], parts[r][1]), b = pair(parts[r][2], parts[r][3]);
    const __m512d others = _mm512_shuffle_pd(_mm512_castsi512_pd(a), _mm512_castsi512_pd(b), 0x55);
    out[r] = _mm512_add_epi32(_mm512_mask_blend_epi64(0xaa, a, b), _mm512_castpd_si512(others));
  }
}
template <int MR>
[[gnu::noinline]] void dot_part_of_four(__m512i (&out)[MR], const uint8_t* span, int64_t blocks, int64_t output, const QuadColumns<MR>& x) {
  dot_four<false>(out, span, blocks, output, x, false);
}

// Four such, which are 16 outputs.
PG_INLINE __m512i sum_lanes(__m512i first, __m512i second, __m512i third, __m512i fourth) {
  const auto halves = [](__m512i a, __m512i b) { return _mm512_add_epi32(_mm512_mask_blend_epi64(0xf0, a, b), _mm512_shuffle_i32x4(a, b, 0x4e)); };
  const __m512i a = halves(first, second), b = halves(third, fourth);
  return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

// Rows [first, first + MR) of a tile of x by one panel of span4.
template <int MR>
void few_rows_of_nibbles(const Gemm& g, int64_t panel, int64_t tile, int64_t first, bool ahead) {
  const SpanRows x = span_rows<1>(g.tile_of(tile), g.tiles.height(tile), g.cols);
  const int64_t blocks = blocks_of(g.cols), steps = int_steps_of(g.cols), row_sums = spans_of(g.cols) * kSpanBlocks;
  const uint8_t* span = g.panels + panel * g.panel_bytes;
  vf sum[2][MR] = {};
  for (int64_t begin = 0; begin < blocks; begin += kSpanBlocks, span += kSpan4Bytes) {
    const int64_t count = blocks - begin < kSpanBlocks ? blocks - begin : kSpanBlocks;
    int32_t minus[MR];
    for (int i = 0; i < MR; i++) {
      minus[i] = 0;
      for (int64_t b = 0; b < kSpanBlocks; b++) minus[i] += x.sums[(first + i) * row_sums + begin + b];
    }
    QuadColumns<MR> columns;
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
      for (int64_t quad = 0; quad < kSpanQuads; quad++) {
        const int64_t step = begin / 2 + 2 * quad;
        const auto at = [&](int64_t s) {
          return s < steps ? _mm512_loadu_si512(x.quants + (s * x.height + first + i) * kTileRowBytes) : _mm512_setzero_si512();
        };
        const __m512i a = at(step), b = at(step + 1);
        columns.of[i][quad][0] = _mm512_shuffle_i32x4(a, b, 0x88);
        columns.of[i][quad][1] = _mm512_shuffle_i32x4(a, b, 0xdd);
      }
    if (ahead) ask_ahead_of(span + count * kSpan4Block, kSpan4Bytes - kSpanBlocks * kSpan4Block);
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
      __m512i fours[4][MR];
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) {
        const int64_t output = half * kTileRows + i * 4;
        if (count == kSpanBlocks) dot_four<true>(fours[i], span, count, output, columns, ahead);
        else dot_part_of_four(fours[i], span, count, output, columns);
      }
      const vf unit = load_unit<kEncodingQ4>(span + span4_units_at(count), half);
#pragma GCC unroll 8
      for (int i = 0; i < MR; i++) {
        const __m512i whole = _mm512_add_epi32(sum_lanes(fours[0][i], fours[1][i], fours[2][i], fours[3][i]), _mm512_set1_epi32(minus[i] * 128));
        const vf factor = v_mul(unit, v_set(x.scales[begin / kSpanBlocks * x.height + first + i]));
        sum[half][i] = v_madd(_mm512_cvtepi32_ps(whole), factor, sum[half][i]);
      }
    }
  }
  finish_few_rows(g, sum, panel, g.tiles.first(tile) + first);
}

template <int E, int MR, int PLANES>
constexpr auto kRun = few_rows<E, MR, PLANES>;
template <int MR, int PLANES>
constexpr auto kRun<kEncodingSpan8, MR, PLANES> = few_rows_of_bytes<MR, PLANES>;
template <int MR, int PLANES>
constexpr auto kRun<kEncodingSpan4, MR, PLANES> = few_rows_of_nibbles<MR>;

template <int E, int PLANES = 1>
void few_rows_gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t*) {
  using Run = void (*)(const Gemm&, int64_t, int64_t, int64_t, bool);
  constexpr Run run[kFewRows] = {kRun<E, 1, PLANES>, kRun<E, 2, PLANES>, kRun<E, 3, PLANES>};
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

const EncodingGemms span_few_rows = [] {
  EncodingGemms gemms = {};
  gemms.of[kEncodingSpan8] = few_rows_gemm<kEncodingSpan8, 2>;
  gemms.of[kEncodingSpan4] = few_rows_gemm<kEncodingSpan4>;
  gemms.of[kEncodingQ8] = few_rows_gemm<kEncodingQ8, 2>;
  gemms.of[kEncodingQ4] = few_rows_gemm<kEncodingQ4>;
  gemms.of[kEncodingQ4M] = few_rows_gemm<kEncodingQ4M>;
  gemms.of[kEncodingQ5] = few_rows_gemm<kEncodingQ5>;
  gemms.of[kEncodingQ5M] = few_rows_gemm<kEncodingQ5M>;
  gemms.of[kEncodingQ4K] = few_rows_gemm<kEncodingQ4K>;
  gemms.of[kEncodingQ5K] = few_rows_gemm<kEncodingQ5K>;
  gemms.of[kEncodingQ6K] = few_rows_gemm<kEncodingQ6K>;
  gemms.of[kEncodingN4] = few_rows_gemm<kEncodingN4>;
  gemms.of[kEncodingN4K] = few_rows_gemm<kEncodingN4K>;
  gemms.of[kEncodingMx4] = few_rows_gemm<kEncodingMx4>;
  return gemms;
}();

const EncodingGemms q8_few_rows_fast = [] {
  EncodingGemms gemms = {};
  gemms.of[kEncodingQ8] = few_rows_gemm<kEncodingQ8>;
  gemms.of[kEncodingSpan8] = few_rows_gemm<kEncodingSpan8>;
  return gemms;
}();

}  // namespace PG_NS
}  // namespace pg
