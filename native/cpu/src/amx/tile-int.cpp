// Matmul with integer weights on int8 tiles, for many rows: the numbers of kernels/matmul-int.h, bit for bit.
//
// Maths    per block of 32 columns (half block where factors are): an exact integer product of 16 rows of x by 16 outputs in one
//          tile, then one fused multiply-add per output with the factors, blocks ascending.
// Tiling   A panel's codes are expanded once to int8 in the order of tiles and its factors to f32, into scratch that stays in L2;
//          then every row tile runs over it. Sums of 16 x 16 outputs stay in registers over all of k. The products of four
//          blocks are stored to L1 while the four before them are folded, so that tiles and vectors work at the same time.
// Traffic  per 16 x 16 x 32 products: 512 bytes of x, 512 of codes, 1 KiB out of the tile and back.
#include <utility>

#include "../kernels/matmul-int.h"
#include "tile-matmul.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int kGroup = 4;  // products in flight
constexpr int64_t kL2Rows = 768 << 10;  // bytes of x that stay in L2 beside a panel

// Where an expanded panel lies in scratch. A unit is a block, or half a block where factors are by halves.
//   codes [2 halves of the panel][units][rows of the tile][64], scales and minimums [units][32] f32
struct Expanded {
  int8_t* codes;
  float* scales;
  float* minimums;
  Expanded(uint8_t* scratch, int64_t blocks)
      : codes((int8_t*)scratch), scales((float*)(scratch + blocks * 1024)), minimums(scales + blocks * 64) {}
};

template <int E>
void expand(const Expanded& out, const uint8_t* codes, int64_t blocks) {
  constexpr EncodingSpec spec = spec_of(E);
  constexpr int halves = spec.scale == Factor::kSuper16 ? 2 : 1;
  const __m512i offset = _mm512_set1_epi8((char)offset_of(spec.codes));
  const uint8_t* header = codes;
  for (int64_t b = 0; b < blocks; b++, codes += block_bytes(spec)) {
    if (b % record_blocks(spec) == 0) {
      header = codes;
      codes += header_bytes(spec);
    }
    const uint8_t* scales = codes + code_bytes(spec.codes);
    const uint8_t* minimums = scales + factor_bytes(spec.scale);
    for (int64_t line = 0; line < block_bytes(spec); line += 64) __builtin_prefetch(codes + 8192 + line, 0, 2);
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++) {
      int8_t* to = out.codes + (v * blocks + b) * 512;
#pragma GCC unroll 8
      for (int group = 0; group < 8; group++)
        _mm512_storeu_si512(to + group * 64, _mm512_sub_epi8(load_codes<spec.codes>(codes, v, group), offset));
#pragma GCC unroll 2
      for (int half = 0; half < halves; half++) {
        const int64_t at = (b * halves + half) * 32 + v * VL;
        v_store(out.scales + at, scale_of<E>(scales, header, half, v));
        if constexpr (spec.minimum != Factor::kNone)
          v_store(out.minimums + at, load_factor<spec.minimum>(minimums, header + big_bytes(spec.scale), half, v));
      }
    }
  }
}

// tmm0..3: products; tmm4, 6: x; tmm5, 7: codes.
TileConfig configuration(int halves, int rows) {
  TileConfig config;
  for (int tile = 0; tile < kGroup; tile++) config.set(tile, rows, 64);
  for (int tile = kGroup; tile < 8; tile += 2) {
    config.set(tile, rows, 32 / halves);
    config.set(tile + 1, 8 / halves, 64);
  }
  return config;
}

// The integer products of unit `u`, the J-th of its group.
template <int J, int kHalves>
PG_INLINE void product(int32_t* out, const int8_t* codes, const uint8_t* x, int64_t u) {
  constexpr int a = 4 + J % 2 * 2, b = a + 1;
  const int64_t block = u / kHalves, half = u % kHalves;
  tile_load<a>(x + block * kBlockTileBytes + half * 16, 32);
  tile_load<b>(codes + u * (512 / kHalves), 64);
  tile_zero<J>();
  tile_dot_int8<J, a, b>();
  tile_store<J>(out + J * kTileRows * 16, 64);
}

template <int kHalves>
PG_INLINE void products(int32_t* out, const int8_t* codes, const uint8_t* x, int64_t u, int64_t count) {
  product<0, kHalves>(out, codes, x, u);
  if (count > 1) product<1, kHalves>(out, codes, x, u + 1);
  if (count > 2) product<2, kHalves>(out, codes, x, u + 2);
  if (count > 3) product<3, kHalves>(out, codes, x, u + 3);
}

// sum[i] += product[i] * (factor * scale of row i) (+ minimum * total of row i), for MR rows of one unit.
template <int E, int MR>
PG_INLINE void fold(vf (&sum)[MR], const int32_t* product, const Expanded& w, int v, const float* side, int64_t u) {
  constexpr EncodingSpec spec = spec_of(E);
  constexpr int halves = spec.scale == Factor::kSuper16 ? 2 : 1;
  const vf factor = v_load(w.scales + u * 32 + v * VL);
  side += u / halves * kBlockSideFloats;
#pragma GCC unroll 16
  for (int i = 0; i < MR; i++) {
    const vf d = _mm512_cvtepi32_ps(_mm512_load_si512(product + i * 16));
    sum[i] = v_madd(d, v_mul(factor, v_set(side[kTileScale * kTileRows + i])), sum[i]);
  }
  if constexpr (spec.minimum != Factor::kNone) {
    const vf minimum = v_load(w.minimums + u * 32 + v * VL);
    const float* total = side + (halves == 2 ? kTileSumLo + u % 2 : (int64_t)kTileSum) * kTileRows;
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) sum[i] = v_madd(minimum, v_set(total[i]), sum[i]);
  }
}

// 16 outputs (half v of the panel) of up to MR rows.
template <int E, int MR>
__attribute__((noinline)) void run_tile(const Gemm& g, int64_t panel, int v, int64_t row, int64_t height, const uint8_t* x, const Expanded& w) {
  constexpr int halves = spec_of(E).scale == Factor::kSuper16 ? 2 : 1;
  const int64_t blocks = blocks_of(g.cols), units = blocks * halves;
  const int8_t* codes = w.codes + v * blocks * 512;
  const float* side = (const float*)(x + blocks * kBlockTileBytes);
  // The two halves are not a multiple of 4 KiB apart: the processor would take loads from one for loads of what it is about to
  // store to the other, and wait.
  alignas(64) int32_t ready[2][kGroup * kTileRows * 16 + 272];
  vf sum[MR];
#pragma GCC unroll 16
  for (int i = 0; i < MR; i++) sum[i] = v_set(0.0f);
  int64_t u = 0;
  int turn = 0;
  if (units >= kGroup) {
    products<halves>(ready[0], codes, x, 0, kGroup);
    for (; u + 2 * kGroup <= units; u += kGroup, turn ^= 1) {
      products<halves>(ready[turn ^ 1], codes, x, u + kGroup, kGroup);
#pragma GCC unroll 4
      for (int j = 0; j < kGroup; j++) fold<E, MR>(sum, ready[turn] + j * kTileRows * 16, w, v, side, u + j);
    }
    if (u + kGroup < units) products<halves>(ready[turn ^ 1], codes, x, u + kGroup, units - u - kGroup);
    for (int j = 0; j < kGroup; j++) fold<E, MR>(sum, ready[turn] + j * kTileRows * 16, w, v, side, u + j);
    u += kGroup;
    turn ^= 1;
  } else {
    products<halves>(ready[0], codes, x, 0, units);
  }
  for (int j = 0; u + j < units; j++) fold<E, MR>(sum, ready[turn] + j * kTileRows * 16, w, v, side, u + j);
  alignas(64) float sums[MR][VL];
#pragma GCC unroll 16
  for (int i = 0; i < MR; i++) v_store(sums[i], sum[i]);
  finish(g, sums[0], row, height, panel * kPanelRows + v * VL, VL);
}

template <int E>
void int_tile_gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t* scratch) {
  const int64_t blocks = blocks_of(g.cols);
  const bool few = g.tiles.n <= 8;
  const TileScope scope(configuration(spec_of(E).scale == Factor::kSuper16 ? 2 : 1, few ? 8 : 16));
  const Expanded w(scratch, blocks);
  int64_t band = kL2Rows / g.x_tile_bytes;  // row tiles that are run with all panels before the next ones are read
  if (band < 4) band = 4;
  for (int64_t first = tile_begin; first < tile_end; first += band) {
    const int64_t last = first + band < tile_end ? first + band : tile_end;
    for (int64_t panel = panel_begin; panel < panel_end; panel++) {
      expand<E>(w, g.panels + panel * g.panel_bytes, blocks);
      for (int64_t t = first; t < last; t++)
        for (int v = 0; v < 2; v++) {
          const int64_t height = g.tiles.height(t);
          if (height <= 8)
            run_tile<E, 8>(g, panel, v, g.tiles.first(t), height, g.tile_of(t), w);
          else
            run_tile<E, 16>(g, panel, v, g.tiles.first(t), height, g.tile_of(t), w);
        }
    }
  }
}

template <int E>
constexpr GemmFn gemm_of() {
  if constexpr (is_integer(E)) return int_tile_gemm<E>;
  return nullptr;
}
template <int... E>
constexpr EncodingGemms all(std::integer_sequence<int, E...>) { return {{gemm_of<E>()...}}; }

}  // namespace

int64_t int_tile_scratch_bytes(int64_t cols) { return blocks_of(cols) * (1024 + 2 * 64 * 4); }

const EncodingGemms int_tile_gemms = all(std::make_integer_sequence<int, kNumEncodings>());

}  // namespace PG_NS
}  // namespace pg
