// Matmul with integer weights on smmla, for several rows: the numbers of kernels/matmul-int.h, bit for bit.
//
// smmla adds the products of 2 rows x 8 columns by 2 outputs x 8 columns to a 2 x 2 of integers: 32 multiply-adds, twice those of
// sdot. Panels keep the order of the other variants, 4 outputs x 4 columns to a vector: two of them, zipped by words, are two
// operands of 2 outputs x 8 columns each, and every one serves four pairs of rows.
// Tiling   8 rows of x by 4 outputs: 8 integer and 8 f32 accumulators, both as 2 x 2, over the whole of k.
// Loads    per 8 columns: 2 vectors of codes and 4 of x for 256 multiply-adds (q4_0: both nibbles of a vector, 5 loads for 256).
#include <utility>

#include "../kernels/matmul-int.h"
#include "pair-matmul.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int kOutputs = 4;

// {w0, w1, w0, w1} and {w2, w3, w2, w3}: a factor of four outputs as the products of two pairs of them lie.
PG_INLINE void spread(vf (&out)[2], vf w) {
  out[0] = (vf)vdupq_laneq_f64((float64x2_t)w, 0);
  out[1] = (vf)vdupq_laneq_f64((float64x2_t)w, 1);
}

// As start_of, for the -8 * sum(q) of two rows.
template <Codes C>
PG_INLINE int32x4_t starts_of(int32x4_t field) {
  if constexpr (!is_offset_left(C)) return vdupq_n_s32(0);
  if constexpr (offset_of(C) % 8 == 0) return vmulq_n_s32(field, offset_of(C) / 8);
  return vmulq_n_s32(vshrq_n_s32(field, 3), offset_of(C));
}

// Integer products over the groups of 8 columns [G0, G1) of a block: d[o][p] is outputs {2 o, 2 o + 1} by the rows of pair p.
template <Codes C, int G0, int G1>
PG_INLINE void pair_dots(vf (&d)[2][kPairs], const uint8_t* codes, int v, const uint8_t* x, const int32_t* start) {
  int32x4_t sum[2][kPairs];
#pragma GCC unroll 4
  for (int p = 0; p < kPairs; p++) {
    sum[0][p] = sum[1][p] = starts_of<C>(vld1q_s32(start + 4 * p));
  }
#pragma GCC unroll 4
  for (int step = 0; step < G1 - G0; step++) {
    // Both nibbles of a vector one after the other: groups of 4 columns g and g + 4 share it.
    const int group = G1 - G0 == 4 ? step / 2 + step % 2 * 2 : G0 + step;
    const int32x4_t even = (int32x4_t)load_codes<C>(codes, v, 2 * group), odd = (int32x4_t)load_codes<C>(codes, v, 2 * group + 1);
    const int8x16_t w[2] = {(int8x16_t)vzip1q_s32(even, odd), (int8x16_t)vzip2q_s32(even, odd)};
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; p++) {
      const int8x16_t q = vld1q_s8((const int8_t*)x + (group * kPairs + p) * 16);
#pragma GCC unroll 2
      for (int o = 0; o < 2; o++) sum[o][p] = vmmlaq_s32(sum[o][p], q, w[o]);
    }
  }
#pragma GCC unroll 2
  for (int o = 0; o < 2; o++)
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; p++) d[o][p] = (vf)vcvtq_f32_s32(sum[o][p]);
}

// Four outputs (vector v of the panel) of a tile of rows.
template <int E>
__attribute__((noinline)) void run_tile(const Gemm& g, int64_t panel, int v, int64_t row, int64_t height, const uint8_t* x, bool ahead) {
  constexpr EncodingSpec spec = spec_of(E);
  constexpr bool halves = spec.scale == Factor::kSuper16;
  const int64_t blocks = blocks_of(g.cols);
  const uint8_t* codes = g.panels + panel * g.panel_bytes;
  const uint8_t* header = codes;
  const uint8_t* side = x + blocks * kPairBlockBytes;
  vf sum[2][kPairs];
#pragma GCC unroll 2
  for (int o = 0; o < 2; o++)
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; p++) sum[o][p] = v_set(0.0f);
  for (int64_t b = 0; b < blocks; b++) {
    if (b % record_blocks(spec) == 0) {
      header = codes;
      codes += header_bytes(spec);
    }
    const uint8_t* scales = codes + code_bytes(spec.codes);
    const uint8_t* minimums = scales + factor_bytes(spec.scale);
    if (ahead)
      for (int64_t line = 0; line < block_bytes(spec); line += 64) __builtin_prefetch(codes + kAhead + line, 0, 2);
    const auto field = [&](int32_t f) { return (const float*)side + f * kPairs * 4; };
#pragma GCC unroll 2
    for (int half = 0; half < (halves ? 2 : 1); half++) {
      const int32_t* start = (const int32_t*)field(halves ? kPairMinus8Lo + half : (int)kPairMinus8);
      vf d[2][kPairs], w[2];
      if constexpr (!halves) pair_dots<spec.codes, 0, 4>(d, codes, v, x, start);
      else if (half == 0) pair_dots<spec.codes, 0, 2>(d, codes, v, x, start);
      else pair_dots<spec.codes, 2, 4>(d, codes, v, x, start);
      spread(w, scale_of<E>(scales, header, half, v));
#pragma GCC unroll 4
      for (int p = 0; p < kPairs; p++) {
        const vf scale = v_load(field(kPairScale) + 4 * p);
#pragma GCC unroll 2
        for (int o = 0; o < 2; o++) sum[o][p] = v_madd(d[o][p], v_mul(w[o], scale), sum[o][p]);
      }
      if constexpr (spec.minimum != Factor::kNone) {
        vf m[2];
        spread(m, load_factor<spec.minimum>(minimums, header + big_bytes(spec.scale), half, v));
#pragma GCC unroll 4
        for (int p = 0; p < kPairs; p++) {
          const vf total = v_load(field(halves ? kPairSumLo + half : (int)kPairSum) + 4 * p);
#pragma GCC unroll 2
          for (int o = 0; o < 2; o++) sum[o][p] = v_madd(m[o], total, sum[o][p]);
        }
      }
    }
    codes += block_bytes(spec);
    x += kPairBlockBytes;
    side += kPairSideWords * 4;
  }
  alignas(64) float sums[kPairTileRows][kOutputs];
#pragma GCC unroll 4
  for (int p = 0; p < kPairs; p++) {
    v_store(sums[2 * p], (vf)vtrn1q_f64((float64x2_t)sum[0][p], (float64x2_t)sum[1][p]));
    v_store(sums[2 * p + 1], (vf)vtrn2q_f64((float64x2_t)sum[0][p], (float64x2_t)sum[1][p]));
  }
  finish(g, sums[0], row, height, panel * kPanelRows + v * kOutputs, kOutputs);
}

template <int E>
void pair_gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t*) {
  for (int64_t panel = panel_begin; panel < panel_end; panel++)
    for (int64_t t = tile_begin; t < tile_end; t++)
      for (int v = 0; v < kPanelRows / kOutputs; v++)
        run_tile<E>(g, panel, v, g.tiles.first(t), g.tiles.height(t), g.tile_of(t), t == tile_begin && v == 0);
}

template <int E>
constexpr GemmFn gemm_of() {
  if constexpr (is_integer(E)) return pair_gemm<E>;
  return nullptr;
}
template <int... E>
constexpr EncodingGemms all(std::integer_sequence<int, E...>) { return {{gemm_of<E>()...}}; }

}  // namespace

const EncodingGemms pair_gemms = all(std::make_integer_sequence<int, kNumEncodings>());

}  // namespace PG_NS
}  // namespace pg
