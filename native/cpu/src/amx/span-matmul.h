// Matmul with weights as bytes of a span (span-factors.h), and the layout of x that it reads.
//
// Maths    x has one scale for a span, x[i, k] = scale[i, span] * q[i, k], and weights have a unit, w[j, k] = unit[j, span] * byte[j, k]:
//            out[i, j] = sum over spans, ascending, of  unit * scale * (sum of byte * q over the span)
//          with minimums  scale * (unit * (sum of byte * q) + minimum's unit * (sum over blocks of its integer * (sum of q)))
// Order    the inner sum is over integers below 2^31 and exact in any order; the outer one is one fused multiply-add per span. So
//          dot products of vectors (span-few-rows.cpp) and tiles (span-many-rows.cpp) give the same bits, and so do products turned round,
//          whose rows are outputs.
// Planes   x meets q8_0 as integers of 16 bits, q = 256 * upper + lower, two bytes that are multiplied apart: int8 over a span would cost more
//          than q8_0 itself does. A row then is two lines of a tile; their sums are put together before anything is rounded. The amx-fast
//          variant has one line for q8_0 too.
// Panels   are those of the other variants, with the file's own codes and factors, which is what lookups read.
#pragma once
#include "../kernels/matmul.h"
#include "span-bytes.h"

namespace pg {
namespace PG_NS {

// Span tiles, in the place of kLayoutIntPairs (integers for matrix instructions) and, with two planes, of kLayoutIntPlanes, for up to 16 rows:
//   quants  [steps][height][planes][64 columns]; a tile that is loaded from fewer lines than 16 has what follows in memory below them
//   scales  f32 [spans][height]
//   sums    i16 [height][planes][spans][blocks of a span]: less the sum of a block's integers, for minimums and for bytes larger than they are
template <int PLANES>
int64_t span_tile_bytes(int64_t cols);
template <int PLANES>
void pack_span_rows(uint8_t* out, const RowsToPack& rows);

template <int PLANES>
struct SpanRows {
  const uint8_t* quants;
  const float* scales;
  const int16_t* sums;
  int64_t height;
  int64_t step_bytes() const { return height * PLANES * kTileRowBytes; }
};

template <int PLANES>
PG_INLINE SpanRows<PLANES> span_rows(const uint8_t* tile, int64_t height, int64_t cols) {
  const float* scales = (const float*)(tile + int_steps_of(cols) * height * PLANES * kTileRowBytes);
  return {tile, scales, (const int16_t*)(scales + spans_of(cols) * height), height};
}

// The sums of a row, of those of its lines.
template <int PLANES>
PG_INLINE __m512i whole_of(__m512i upper, __m512i lower) {
  return PLANES == 1 ? upper : _mm512_add_epi32(_mm512_slli_epi32(upper, 8), lower);
}

// Turned tiles (kLayoutIntTurned), of x as the other operand of a product, whose rows are then outputs; for up to 16 rows:
//   quants  [quads of blocks][first 16 columns of its blocks, last][16 groups of 4 columns][width][4]
//   scales  f32 [spans][width]
// width: 8 or 16 rows, those beyond the last zeros. A tile that is loaded as if it were wider has what follows in memory beside them.
int64_t turned_tile_bytes(int64_t cols);
void pack_turned_rows(uint8_t* out, const RowsToPack& rows);
constexpr int64_t turned_steps_of(int64_t cols) { return (cols + 2 * kIntStepCols - 1) / (2 * kIntStepCols) * 2; }

struct TurnedRows {
  const uint8_t* quants;
  const float* scales;
  int64_t width;
  int64_t group_bytes() const { return width * 4; }
  int64_t step_bytes() const { return width * kTileRowBytes; }
};

PG_INLINE TurnedRows turned_rows(const uint8_t* tile, int64_t height, int64_t cols) {
  const int64_t width = height <= 8 ? 8 : kTileRows;
  return {tile, (const float*)(tile + turned_steps_of(cols) * width * kTileRowBytes), width};
}

// Kernels by encoding, null where there is none: for few rows by vpdpbusd, and the same bits on int8 tiles. Of q8 and span8 with two planes of
// x, and those with one.
extern const EncodingGemms span_few_rows, span_many_rows;
extern const EncodingGemms q8_few_rows_fast, q8_many_rows_fast;
constexpr bool has_planes(int32_t encoding) { return encoding == kEncodingQ8 || encoding == kEncodingSpan8; }
constexpr Encoding kSpanEncodings[] = {kEncodingQ8,  kEncodingQ4,  kEncodingQ4M, kEncodingQ5, kEncodingQ5M, kEncodingQ4K,  kEncodingQ5K,
                                       kEncodingQ6K, kEncodingN4,  kEncodingN4K, kEncodingMx4, kEncodingSpan8, kEncodingSpan4};

// Up to so many row tiles span-some-rows.cpp runs what span-many-rows.cpp would.
constexpr int64_t kSomeTiles = 2;
template <int E, int PLANES>
void some_rows_gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end);
// The same of span4: span-turned-rows.cpp.
template <>
void some_rows_gemm<kEncodingSpan4, 1>(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end);

// span-panel.cpp: panels of q8 as span8, which saves making bytes of them at every matmul, and of q4 as span4, of which that is less work.
void to_span8(uint8_t* panel, int64_t cols, uint8_t* room);
int64_t span8_bytes(int64_t cols);
void to_span4(uint8_t* panel, int64_t cols, uint8_t* room);
int64_t span4_bytes(int64_t cols);

// Bytes that a worker needs beside the operands.
int64_t span_scratch_bytes();

}  // namespace PG_NS
}  // namespace pg
