// Matmul with q8 and q4 weights whose sums stay integers over a span of columns, and the layout of x that it reads.
//
// Maths    w[j, k] = factor[j, block] * code[j, k]. The factors of a span are taken as integer multiples of one number,
//            unit[j] = max |factor| / kMost,  multiplier[j, block] = factor / unit to the nearest integer,
//          and x has one scale for a span, x[i, k] = scale[i, span] * q[i, k]:
//            out[i, j] = sum over spans, ascending, of  unit * scale * (sum of multiplier * code * q over the span)
// Order    the inner sum is over integers below 2^31 and exact in any order; the outer one is one fused multiply-add per span. So
//          dot products of vectors (span-few-rows.cpp) and tiles (span-many-rows.cpp) give the same bits.
// Rounding multiplier * code fits 16 bits: a factor is off by at most 1 / 8,190 of the span's largest in q4, 1 / 510 in q8. The panels
//          are those of the other variants, with the file's own factors, which is what lookups read.
#pragma once
#include "../encoding.h"
#include "../kernels/matmul.h"
#include "tiles.h"

namespace pg {
namespace PG_NS {

constexpr int64_t kSpanBlocks = 8;
constexpr int64_t kSpanCols = kSpanBlocks * kBlockCols;
constexpr int64_t spans_of(int64_t cols) { return (cols + kSpanCols - 1) / kSpanCols; }
// A tile has 64 columns of 16 rows of x.
constexpr int64_t kIntStepCols = 64;
constexpr int64_t kSpanSteps = kSpanCols / kIntStepCols;
constexpr int64_t kTileRowBytes = 64;
constexpr int64_t kTileBytes = kTileRows * kTileRowBytes;
constexpr int64_t int_steps_of(int64_t cols) { return (cols + kIntStepCols - 1) / kIntStepCols; }

// Span tiles, in the place of kLayoutIntPairs (integers for matrix instructions), for up to 16 rows:
//   quants  [steps][height][64 columns]; a tile that is loaded from fewer rows than 16 has what follows in memory below them
//   scales  f32 [spans][height]
//   sums    i32 [height][spans][blocks of a span]: less the sum of a block's integers, which unsigned codes add an offset of each
int64_t span_tile_bytes(int64_t cols);
void pack_span_rows(uint8_t* out, const RowsToPack& rows);

struct SpanRows {
  const uint8_t* quants;
  const float* scales;
  const int32_t* sums;
  int64_t height;
};

PG_INLINE SpanRows span_rows(const uint8_t* tile, int64_t height, int64_t cols) {
  const float* scales = (const float*)(tile + int_steps_of(cols) * height * kTileRowBytes);
  return {tile, scales, (const int32_t*)(scales + spans_of(cols) * height), height};
}

// The factors of 16 outputs over a span.
struct SpanFactors {
  vf unit;
  __m512i multipliers[kSpanBlocks];
};

// factors: of the first of `count` blocks, f16; the next are block_bytes on.
template <Codes C>
PG_INLINE void read_factors(SpanFactors& out, const uint8_t* factors, int64_t block_bytes, int64_t count) {
  constexpr float kMost = C == Codes::kByte ? 255.0f : 4095.0f;
  // Magnitudes order by their bits, and NaN comes out on top. What is not finite reaches the output by the unit.
  __m512i most = _mm512_setzero_si512();
  for (int64_t b = 0; b < count; b++) {
    const __m512i bits = _mm512_castps_si512(v_load_f16((const uint16_t*)(factors + b * block_bytes)));
    most = _mm512_max_epi32(most, _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff)));
  }
  const vf largest = _mm512_castsi512_ps(most);
  out.unit = v_mul(largest, v_set(1.0f / kMost));
  const vf inverse = _mm512_maskz_div_ps(_mm512_test_epi32_mask(most, most), v_set(kMost), largest);
  for (int64_t b = 0; b < count; b++)
    out.multipliers[b] = _mm512_cvtps_epi32(v_mul(v_load_f16((const uint16_t*)(factors + b * block_bytes)), inverse));
}

extern const GemmFn gemm_q8_few_rows, gemm_q4_few_rows;    // vpdpbusd
extern const GemmFn gemm_q8_many_rows, gemm_q4_many_rows;  // the same bits on int8 tiles

// Bytes that a worker needs beside the operands.
int64_t span_scratch_bytes();

}  // namespace PG_NS
}  // namespace pg
