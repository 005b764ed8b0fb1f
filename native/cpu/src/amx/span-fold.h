// The sums of a span on their way from integers to f32: sums += products * (unit of the output * scale of the row).
#pragma once
#include "span-matmul.h"

namespace pg {
namespace PG_NS {

constexpr int64_t kTileSums = kTileRows * kTileRows;

// 16 rows by the 32 outputs of a panel.
struct Fold {
  float* sums = nullptr;  // [16][kPanelRows]; null: there is nothing to fold
  const int32_t (*products)[kTileSums];  // [halves of the outputs]
  const float* scales;
  vf units[2];
};

template <int N>
PG_INLINE void fold_rows(const Fold& f, int64_t begin) {
  if (f.sums == nullptr) return;
#pragma GCC unroll 4
  for (int64_t i = begin; i < begin + N; i++)
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
      const vf whole = _mm512_cvtepi32_ps(_mm512_load_si512(f.products[half] + i * 16));
      float* sums = f.sums + i * kPanelRows + half * 16;
      v_store(sums, v_madd(whole, v_mul(f.units[half], v_set(f.scales[i])), v_load(sums)));
    }
}

}  // namespace PG_NS
}  // namespace pg
