// The sums of a span on their way from integers to f32: sums += products * (unit of the output * scale of the row).
#pragma once
#include "../kernels/finish.h"
#include "span-matmul.h"
#include "turn.h"

namespace pg {
namespace PG_NS {

constexpr int64_t kTileSums = kTileRows * kTileRows;

// 16 rows by the 32 outputs of a panel.
template <bool MINIMUMS, int PLANES>
struct Fold {
  float* sums = nullptr;  // [16][kPanelRows]; null: there is nothing to fold
  const int32_t (*products)[kTileSums];  // [16 lines each][halves of the outputs]
  const float* scales;
  vf units[2];
  const SpanMinimums* minimums;  // [halves]
  const int16_t* row_sums;       // of the first row, the next row_stride on
  int64_t row_stride;
};

template <int PLANES>
PG_INLINE __m512i products_of(const int32_t (*products)[kTileSums], int64_t row, int half) {
  constexpr int64_t kRows = kTileRows / PLANES;  // of 16 lines
  const int32_t* at = products[row / kRows * 2 + half] + row % kRows * PLANES * 16;
  return whole_of<PLANES>(_mm512_load_si512(at), _mm512_load_si512(at + (PLANES - 1) * 16));
}

template <int N, bool MINIMUMS, int PLANES>
PG_INLINE void fold_rows(const Fold<MINIMUMS, PLANES>& f, int64_t begin) {
  if (f.sums == nullptr) return;
#pragma GCC unroll 2
  for (int half = 0; half < 2; half++)
#pragma GCC unroll 4
    for (int64_t i = begin; i < begin + N; i++) {
      const __m512i products = products_of<PLANES>(f.products, i, half);
      float* sums = f.sums + i * kPanelRows + half * 16;
      if constexpr (MINIMUMS)
        v_store(sums, add_span(v_load(sums), products, f.units[half], f.minimums[half], f.row_sums + i * f.row_stride, f.scales[i]));
      else v_store(sums, v_madd(_mm512_cvtepi32_ps(products), v_mul(f.units[half], v_set(f.scales[i])), v_load(sums)));
    }
}

// The same where outputs are the rows of products: the 32 outputs of a panel by W rows of x, 8 or 16.
template <int W>
struct TurnedFold {
  static constexpr int kVectors = kPanelRows * W / 16;
  float* sums = nullptr;    // [kPanelRows][W]; null: there is nothing to fold
  const int32_t* products;  // the same
  const float* units;       // [kPanelRows]
  vf scales;
};
template <int W>
PG_INLINE vf row_scales(const float* scales) {
  if constexpr (W == 8) return _mm512_broadcast_f32x8(_mm256_loadu_ps(scales));
  return v_load(scales);
}

template <int N, int W>
PG_INLINE void fold_outputs(const TurnedFold<W>& f, int64_t begin) {
  if (f.sums == nullptr) return;
#pragma GCC unroll 8
  for (int64_t v = begin; v < begin + N; v++) {
    vf units = v_set(f.units[v * 16 / W]);
    if constexpr (W == 8) units = _mm512_mask_broadcastss_ps(units, 0xff00, _mm_load_ss(f.units + v * 2 + 1));
    const vf whole = _mm512_cvtepi32_ps(_mm512_load_si512(f.products + v * 16));
    v_store(f.sums + v * 16, v_madd(whole, v_mul(units, f.scales), v_load(f.sums + v * 16)));
  }
}

// What is left: bias, scale and the like, as rows of x have it.
template <int W>
PG_INLINE void finish_turned(const Gemm& g, const float* sums, int64_t tile, int64_t panel) {
  alignas(64) float rows[W][kPanelRows];
  for (int half = 0; half < 2; half++) {
    const uint8_t* from = (const uint8_t*)(sums + half * 16 * W);
    if constexpr (W == 8) turn_8_back((uint8_t*)(rows[0] + half * 16), kPanelRows * 4, from);
    else turn_16((uint8_t*)(rows[0] + half * 16), kPanelRows * 4, from, W * 4);
  }
  finish(g, rows[0], g.tiles.first(tile), g.tiles.height(tile), panel * kPanelRows, kPanelRows);
}

}  // namespace PG_NS
}  // namespace pg
