// Activations into the layouts of span-matmul.h.
#include "span-matmul.h"
#include "turn.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int kSpanVectors = kSpanCols / 16;

// The columns of a row from c on; zeros beyond the last.
PG_INLINE void load_span(vf (&out)[kSpanVectors], const float* row, int64_t c, int64_t cols) {
#pragma GCC unroll 16
  for (int v = 0; v < kSpanVectors; v++) {
    const int64_t left = cols - c - v * 16;
    const __mmask16 lanes = left >= 16 ? 0xffff : left <= 0 ? 0 : (__mmask16)((1u << left) - 1);
    out[v] = _mm512_maskz_loadu_ps(lanes, row + c + v * 16);
  }
}

PG_INLINE float largest_of(const vf (&x)[kSpanVectors]) {
  __m512i most = _mm512_setzero_si512();
#pragma GCC unroll 16
  for (int v = 0; v < kSpanVectors; v++)
    most = _mm512_max_epi32(most, _mm512_and_si512(_mm512_castps_si512(x[v]), _mm512_set1_epi32(0x7fffffff)));
  return s_from_bits((uint32_t)_mm512_reduce_max_epi32(most));
}

// 64 integers as int8. Packing works within quarters of the vector.
PG_INLINE __m512i as_bytes(__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i bytes = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
  return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), bytes);
}

// 64 columns as integers, to nearest even: of 8 bits, or of 16 as 256 * the first byte + the second, neither of which is less than -128.
template <int PLANES>
PG_INLINE void quantize_step(__m512i (&out)[PLANES], const vf* x, vf inverse) {
  __m512i whole[4];
#pragma GCC unroll 4
  for (int v = 0; v < 4; v++) whole[v] = _mm512_cvtps_epi32(v_mul(x[v], inverse));
  if constexpr (PLANES == 1) {
    out[0] = as_bytes(whole[0], whole[1], whole[2], whole[3]);
  } else {
    __m512i upper[4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
      upper[v] = _mm512_srai_epi32(_mm512_add_epi32(whole[v], _mm512_set1_epi32(128)), 8);
      whole[v] = _mm512_sub_epi32(whole[v], _mm512_slli_epi32(upper[v], 8));
    }
    out[0] = as_bytes(upper[0], upper[1], upper[2], upper[3]);
    out[1] = as_bytes(whole[0], whole[1], whole[2], whole[3]);
  }
}

// Less the sums of the span's blocks. Unsigned sums of value + 128 over eight columns fit 16 bits, those over a block do too: four steps
// share a vector of them, [halves of a step][quarters of the half][steps].
template <int PLANES>
PG_INLINE __m128i block_sums(const __m512i (&bytes)[kSpanSteps][PLANES], int plane) {
  static_assert(kSpanSteps == 4, "one step for each 16 bits of 64");
  __m512i sums = _mm512_setzero_si512();
#pragma GCC unroll 4
  for (int step = 0; step < kSpanSteps; step++) {
    const __m512i eights = _mm512_sad_epu8(_mm512_xor_si512(bytes[step][plane], _mm512_set1_epi8((char)0x80)), _mm512_setzero_si512());
    sums = _mm512_or_si512(sums, _mm512_slli_epi64(eights, 16 * step));
  }
  sums = _mm512_add_epi16(sums, _mm512_permutex_epi64(sums, 0x4e));
  sums = _mm512_add_epi16(sums, _mm512_permutex_epi64(sums, 0xb1));
  const __m128i halves = _mm_unpacklo_epi16(_mm512_castsi512_si128(sums), _mm512_extracti64x2_epi64(sums, 2));  // [steps][halves]
  return _mm_sub_epi16(_mm_set1_epi16(kBlockCols * 128), halves);
}

// A span of a row as integers, and its scale, which is as quantize-block.h has it for 32 columns: max|x| / 127, with two planes / (127 * 256),
// integers to nearest even; NaN and infinities reach the output by the scale.
template <int PLANES>
PG_INLINE float quantize_span(__m512i (&bytes)[kSpanSteps][PLANES], const float* row, int64_t span, int64_t cols) {
  vf values[kSpanVectors];
  load_span(values, row, span * kSpanCols, cols);
  const float max = largest_of(values);
  constexpr float kMost = PLANES == 1 ? 127.0f : 127.0f * 256.0f;
  const vf inverse = v_set(max > 0.0f ? kMost / max : 0.0f);
#pragma GCC unroll 4
  for (int step = 0; step < kSpanSteps; step++) quantize_step(bytes[step], values + 4 * step, inverse);
  return max * (1.0f / kMost);
}

// An odd number of kSlotBytes: tiles a power of two apart would have the same columns in the same few sets of L2.
int64_t in_slots(int64_t bytes) {
  constexpr int64_t kSlotBytes = 8 * kTileBytes;
  return ((bytes + kSlotBytes - 1) / kSlotBytes | 1) * kSlotBytes;
}

}  // namespace

template <int PLANES>
int64_t span_tile_bytes(int64_t cols) {
  return in_slots(int_steps_of(cols) * PLANES * kTileBytes + spans_of(cols) * (4 + 2 * PLANES * kSpanBlocks) * kTileRows);
}

template <int PLANES>
void pack_span_rows(uint8_t* out, const RowsToPack& rows) {
  const int64_t height = rows.height, spans = spans_of(rows.cols), steps = int_steps_of(rows.cols);
  const SpanRows<PLANES> tile = span_rows<PLANES>(out, height, rows.cols);
  for (int64_t i = 0; i < height; i++)
    for (int64_t span = rows.begin / kSpanCols; span < spans_of(rows.end); span++) {
      __m512i bytes[kSpanSteps][PLANES];
      ((float*)tile.scales)[span * height + i] = quantize_span(bytes, rows.x + i * rows.stride, span, rows.cols);
#pragma GCC unroll 2
      for (int plane = 0; plane < PLANES; plane++) {
        const int64_t line = i * PLANES + plane;
#pragma GCC unroll 4
        for (int step = 0; step < kSpanSteps; step++)
          if (const int64_t at = span * kSpanSteps + step; at < steps)
            _mm512_storeu_si512(out + at * tile.step_bytes() + line * kTileRowBytes, bytes[step][plane]);
        _mm_storeu_si128((__m128i*)(tile.sums + (line * spans + span) * kSpanBlocks), block_sums(bytes, plane));
      }
    }
}
template int64_t span_tile_bytes<1>(int64_t);
template int64_t span_tile_bytes<2>(int64_t);
template void pack_span_rows<1>(uint8_t*, const RowsToPack&);
template void pack_span_rows<2>(uint8_t*, const RowsToPack&);

int64_t turned_tile_bytes(int64_t cols) { return in_slots(turned_steps_of(cols) * kTileBytes + spans_of(cols) * kTileRows * 4); }

void pack_turned_rows(uint8_t* out, const RowsToPack& rows) {
  const TurnedRows tile = turned_rows(out, rows.height, rows.cols);
  const int64_t steps = turned_steps_of(rows.cols);
  // Rows that are not there stay zero.
  alignas(64) uint8_t quants[kSpanSteps][kTileRows][kTileRowBytes] = {};
  alignas(64) float scales[kTileRows] = {};
  for (int64_t span = rows.begin / kSpanCols; span < spans_of(rows.end); span++) {
    for (int64_t i = 0; i < rows.height; i++) {
      __m512i bytes[kSpanSteps][1];
      scales[i] = quantize_span(bytes, rows.x + i * rows.stride, span, rows.cols);
#pragma GCC unroll 2
      for (int step = 0; step < kSpanSteps; step += 2) {  // two steps in their order have the first and last columns of four blocks
        _mm512_store_si512(quants[step][i], _mm512_shuffle_i32x4(bytes[step][0], bytes[step + 1][0], 0x88));
        _mm512_store_si512(quants[step + 1][i], _mm512_shuffle_i32x4(bytes[step][0], bytes[step + 1][0], 0xdd));
      }
    }
    for (int64_t step = 0; step < kSpanSteps && span * kSpanSteps + step < steps; step++) {
      uint8_t* to = out + (span * kSpanSteps + step) * tile.step_bytes();
      if (tile.width == kTileRows) turn_16(to, kTileRowBytes, quants[step][0], kTileRowBytes);
      else turn_8(to, quants[step][0], kTileRowBytes);
    }
    memcpy((float*)tile.scales + span * tile.width, scales, (size_t)tile.width * sizeof(float));
  }
}

}  // namespace PG_NS
}  // namespace pg
