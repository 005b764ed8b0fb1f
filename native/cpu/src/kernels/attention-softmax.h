// Online softmax in base 2, one query and one tile at a time, and the fold of two states.
#pragma once
#include "attention-tile.h"

namespace pg {
namespace PG_NS {

// One query's softmax over the keys [first, last) of a tile: scores -> probabilities in place, running max and sums by lane
// moved on, the output rescaled. Keys outside the range add exactly nothing.
struct SoftmaxStep {
  float cap;                  // 0: scores are in base 2 already; else they are score / cap, to become cap * tanh(.)
  const float* key_scales;    // [kTileKeys] or null
  const float* value_scales;  // [kTileKeys] or null: folded into the probabilities after they are summed

  PG_MEMBER void run(float* scores, int first, int last, float& running_max, float* sums, float* out, int out_steps) const {
    if (first == 0 && last == kTileKeys)
      steps<true>(scores, 0, kTileKeys, running_max, sums, out, out_steps);
    else
      steps<false>(scores, first, last, running_max, sums, out, out_steps);
  }

  // kWhole: all keys of the tile, so that the loops unroll and scores stay in registers.
  template <bool kWhole>
  __attribute__((noinline)) void steps(float* scores, int first, int last, float& running_max, float* sums, float* out,
                                       int out_steps) const {
    const vf lowest = v_set(kMinusInfinity);
    const int begin = kWhole ? 0 : first / VL;
    const int end = kWhole ? kTileSteps : (last + VL - 1) / VL;
    vf x[kTileSteps];
    vf top = lowest;
#pragma GCC unroll 16
    for (int v = begin; v < end; v++) {
      x[v] = v_load(scores + v * VL);
      if (key_scales != nullptr) x[v] = x[v] * v_load(key_scales + v * VL);
      if (cap != 0.0f) x[v] = v_set(cap * kLog2e) * v_tanh(x[v]);
      if (!kWhole) x[v] = v_select_lanes(x[v], lowest, i_max(first - v * VL, 0), i_min(last - v * VL, VL));
      top = v_max(x[v], top);
    }
    const float previous = running_max;
    const float tile_max = v_hmax(top);
    const float now = tile_max > previous ? tile_max : previous;
    // All scores -inf: any finite base will do.
    const vf base = v_set(now == kMinusInfinity ? 0.0f : now);
    vf sum = v_load(sums);
    if (now != previous) {
      running_max = now;
      if (previous != kMinusInfinity) {
        const vf shrink = v_exp2(v_set(previous) - base);
        sum = sum * shrink;
        for (int v = 0; v < out_steps; v++) v_store(out + v * VL, v_load(out + v * VL) * shrink);
      }
    }
#pragma GCC unroll 16
    for (int v = begin; v < end; v++) {
      vf p = v_exp2_clamped(x[v] - base);
      if (!kWhole) p = v_select_lanes(p, v_set(0.0f), i_max(first - v * VL, 0), i_min(last - v * VL, VL));
      sum = sum + p;
      if (value_scales != nullptr) p = p * v_load(value_scales + v * VL);
      v_store(scores + v * VL, p);
    }
    v_store(sums, sum);
  }
};

// (o, m, d) += (next_o, next_m, next_d), the later keys on the right. Folding an empty state changes nothing, not even the
// sign of a zero, so a row gets the same bits however many chunks its tile spans.
inline void fold(float* o, float& m, float& d, const float* next_o, float next_m, float next_d, int32_t dim) {
  if (next_d == 0.0f) return;
  if (d == 0.0f) {
    memcpy(o, next_o, sizeof(float) * dim);
    m = next_m;
    d = next_d;
    return;
  }
  const float top = next_m > m ? next_m : m;
  const vf keep = v_exp2(v_set(m - top));
  const vf join = v_exp2(v_set(next_m - top));
  each_step(dim, [&](int64_t i, int lanes) {
    v_store_some(o + i, v_madd(v_load_some(next_o + i, lanes), join, v_load_some(o + i, lanes) * keep), lanes);
  });
  d = s_madd(next_d, v_lane0(join), d * v_lane0(keep));
  m = top;
}

// Turns an unnormalised state into the output row: the sink joins the denominator, a row that saw no key gives zeros.
inline void finish_row(float* out, int32_t dim, const float* o, float m, float d, const float* sink) {
  float factor = 0.0f;
  if (d > 0.0f) {
    factor = 1.0f / d;
    if (sink != nullptr) {
      const float s = *sink * kLog2e;
      const float top = s > m ? s : m;
      const float shrink = v_lane0(v_exp2(v_set(m - top)));
      factor = shrink / (d * shrink + v_lane0(v_exp2(v_set(s - top))));
    }
  } else if (d != d) {
    factor = d;  // NaN in, NaN out
  }
  each_step(dim, [&](int64_t i, int lanes) { v_store_some(out + i, v_load_some(o + i, lanes) * v_set(factor), lanes); });
}

}  // namespace PG_NS
}  // namespace pg
