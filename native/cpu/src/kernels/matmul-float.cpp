// Matmul with f32, f16 or bf16 weights.
//
// Maths    out[i, j] = scale * (sum_k x[i, k] * w[j, k] + bias[j])
// Order    every output has one f32 accumulator and k ascends, one fused multiply-add each: the same in every tile shape, so a
//          row's result does not depend on the rows beside it. Parallelism comes from independent outputs only.
// Tiling   a tile is MR rows of x by kFloatVectors vectors of outputs, held in registers over the whole of k. Per k it loads
//          the weight vectors once (converted in registers) and MR broadcast values of x. Few rows of x (decode) leave
//          registers free: then twice the panels are taken side by side to cover the latency of the additions.
// Traffic  weights stream once per row tile, from memory for the first tile of a panel and from L1/L2 for the others; packed x
//          ([k][MR], contiguous) streams from L1/L2 once per panel group.
#include "finish.h"
#include "matmul.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int kPanel = 16;
constexpr int kPanelVectors = kPanel / VL;

// Loads vector v (of one panel) at column k. Column step 1.
struct F32Weights {
  static constexpr int kStep = 1;
  static constexpr int kBytes = 4;
  PG_INLINE vf load(const uint8_t* panel, int64_t k, int v, int) {
    return v_load((const float*)panel + k * kPanel + v * VL);
  }
};
struct F16Weights {
  static constexpr int kStep = 1;
  static constexpr int kBytes = 2;
  PG_INLINE vf load(const uint8_t* panel, int64_t k, int v, int) {
    return v_load_f16((const uint16_t*)panel + k * kPanel + v * VL);
  }
};
// Columns come in pairs; the panel is padded to an even number of them.
struct Bf16Weights {
  static constexpr int kStep = 2;
  static constexpr int kBytes = 2;
  PG_INLINE vf load(const uint8_t* panel, int64_t k, int v, int odd) {
    const uint16_t* p = (const uint16_t*)panel + k * kPanel + v * VL * 2;
    return odd ? v_load_bf16_odd(p) : v_load_bf16_even(p);
  }
};

template <class W, int MR, int NV>
void tile(const Gemm& g, int64_t panel, int64_t row, const float* x) {
  const uint8_t* base = g.panels + panel * g.panel_bytes;
  vf sum[MR][NV];
  for (int i = 0; i < MR; i++)
    for (int v = 0; v < NV; v++) sum[i][v] = v_set(0.0f);
  const int64_t cols = g.cols;
  int64_t k = 0;
  for (; k + W::kStep <= cols; k += W::kStep) {
#pragma GCC unroll 2
    for (int odd = 0; odd < W::kStep; odd++) {
      vf w[NV];
#pragma GCC unroll 8
      for (int v = 0; v < NV; v++)
        w[v] = W::load(base + (v / kPanelVectors) * g.panel_bytes, k, v % kPanelVectors, odd);
#pragma GCC unroll 16
      for (int i = 0; i < MR; i++) {
        const vf xi = v_set(x[i]);
#pragma GCC unroll 8
        for (int v = 0; v < NV; v++) sum[i][v] = v_madd(xi, w[v], sum[i][v]);
      }
      x += MR;
    }
  }
  if (k < cols) {  // the last even column of an odd number of them
    for (int v = 0; v < NV; v++) {
      const vf w = W::load(base + (v / kPanelVectors) * g.panel_bytes, k, v % kPanelVectors, 0);
      for (int i = 0; i < MR; i++) sum[i][v] = v_madd(v_set(x[i]), w, sum[i][v]);
    }
  }
  for (int v = 0; v < NV; v++) {
    const int64_t col = panel * kPanel + v * VL;
    const int64_t left = g.rows - col;
    if (left <= 0) break;
    for (int i = 0; i < MR; i++) finish(g, row + i, col, sum[i][v], left);
  }
}

// Calls the tile of the height at hand.
template <class W, int NV, int MR>
PG_INLINE void dispatch(const Gemm& g, int64_t height, int64_t panel, int64_t row, const float* x) {
  if constexpr (MR >= 1) {
    if (height == MR) return tile<W, MR, NV>(g, panel, row, x);
    dispatch<W, NV, MR - 1>(g, height, panel, row, x);
  }
}

constexpr int kPanels = kFloatVectors * VL / kPanel;           // panels side by side in a full tile
constexpr int kSkinnyRows = kFloatTileRows >= 4 ? (kFloatTileRows - 2) / 2 : 1;  // heights that leave room for twice as many
constexpr int kSkinnyPanels = 2 * kPanels;

template <class W>
void gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end) {
  int64_t panel = panel_begin;
  while (panel < panel_end) {
    const bool skinny = g.tiles.n <= kSkinnyRows && panel + kSkinnyPanels <= panel_end;
    for (int64_t t = tile_begin; t < tile_end; t++) {
      const int64_t row = g.tiles.first(t);
      const int64_t height = g.tiles.height(t);
      const float* x = g.x + row * g.cols;
      if (skinny)
        dispatch<W, 2 * kFloatVectors, kSkinnyRows>(g, height, panel, row, x);
      else
        dispatch<W, kFloatVectors, kFloatTileRows>(g, height, panel, row, x);
    }
    panel += skinny ? kSkinnyPanels : kPanels;
  }
}

}  // namespace

const GemmFn gemm_f32 = gemm<F32Weights>;
const GemmFn gemm_f16 = gemm<F16Weights>;
const GemmFn gemm_bf16 = gemm<Bf16Weights>;

}  // namespace PG_NS
}  // namespace pg
