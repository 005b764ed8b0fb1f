// Activations into the layout of tile-matmul.h.
#include "../kernels/quantize-block.h"
#include "tile-matmul.h"

namespace pg {
namespace PG_NS {
namespace {

// Upper halves are the nearest bf16, ties to even; NaN stays NaN.
PG_INLINE __m512i rounded(__m512 v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i lsb = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), lsb);
  return _mm512_mask_or_epi32(up, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), bits, _mm512_set1_epi32(0x400000));
}

PG_INLINE void store_upper(uint16_t* out, __m512i bits) {
  _mm256_storeu_si256((__m256i*)out, _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
}

// 16 numbers as high and low bf16. What has no finite high part (infinities, NaN) has no low part.
PG_INLINE void store_split(uint16_t* high, uint16_t* low, __m512 x) {
  const __m512i h = _mm512_and_si512(rounded(x), _mm512_set1_epi32((int)0xffff0000u));
  const __mmask16 finite = _mm512_cmp_ps_mask(_mm512_abs_ps(_mm512_castsi512_ps(h)), _mm512_set1_ps(3.4e38f), _CMP_LE_OQ);
  store_upper(high, h);
  store_upper(low, _mm512_maskz_mov_epi32(finite, rounded(_mm512_sub_ps(x, _mm512_castsi512_ps(h)))));
}

}  // namespace

int64_t split_tile_bytes(int64_t cols) { return steps_of(cols) * 4 * kStepTileBytes; }

void pack_split_rows(uint8_t* out, const float* x, int64_t x_stride, int64_t height, int64_t cols, bool) {
  const int64_t halves = height > kTileRows ? 2 : 1;
  const int64_t step_bytes = halves * 2 * kStepTileBytes;
  if (height < halves * kTileRows) memset(out, 0, (size_t)(steps_of(cols) * step_bytes));
  for (int64_t step = 0; step < steps_of(cols); step++)
    for (int64_t i = 0; i < height; i++) {
      uint16_t* high = (uint16_t*)(out + step * step_bytes + i / kTileRows * 2 * kStepTileBytes) + i % kTileRows * kStepCols;
      for (int64_t c = 0; c < kStepCols; c += 16) {
        const int64_t left = cols - step * kStepCols - c;
        const __mmask16 lanes = left >= 16 ? 0xffff : left <= 0 ? 0 : (__mmask16)((1u << left) - 1);
        store_split(high + c, high + kStepTileBytes / 2 + c, _mm512_maskz_loadu_ps(lanes, x + i * x_stride + step * kStepCols + c));
      }
    }
}

int64_t int_tiles_bytes(int64_t cols) { return blocks_of(cols) * kIntRows * (kBlockCols + 4); }

void pack_int_tiles(uint8_t* out, const float* x, int64_t x_stride, int64_t height, int64_t cols, bool) {
  const int64_t blocks = blocks_of(cols);
  float padded[kBlockCols] = {};  // the last block, where it is short
  float* scales = (float*)(out + blocks * kIntRows * kBlockCols);
  if (height < kIntRows) memset(out, 0, (size_t)int_tiles_bytes(cols));
  for (int64_t b = 0; b < blocks; b++)
    for (int64_t i = 0; i < height; i++) {
      const float* from = x + i * x_stride + b * kBlockCols;
      if (cols - b * kBlockCols < kBlockCols) {
        memcpy(padded, from, (size_t)(cols - b * kBlockCols) * sizeof(float));
        from = padded;
      }
      QuantizedBlock block;
      quantize_block(block, from);
      memcpy(out + (b * kIntRows + i) * kBlockCols, block.q, kBlockCols);
      scales[b * kIntRows + i] = block.scale;
    }
}

}  // namespace PG_NS
}  // namespace pg
