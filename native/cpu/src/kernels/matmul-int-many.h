// Matmul with integer weights for many rows: codes and factors are unpacked once for a band of rows, a few blocks of columns at a time, into
// L1, rather than once for every row tile. Sums wait in memory between those; the same products in the same order, so the same bits.
//
//   for each panel, for each band of kBandTiles row tiles
//     for each kUnpackedBlocks blocks of columns
//       unpack   codes [blocks][8 groups][planes][32 outputs][4 columns] bytes, factors [blocks][halves][32 outputs] f32
//       multiply every row tile of the band by it, sums [rows][32 outputs] from memory and back
#pragma once
#include "matmul-int.h"

namespace pg {
namespace PG_NS {
namespace {

#if PG_ISA >= 2

// Of AVX-512 as many as keep codes in L1: where a visit ends sums wait for products.
constexpr int kUnpackedBlocks = PG_ISA == 3 ? 2 * kSuperBlocks : kSuperBlocks;
constexpr int kBandTiles = 16;

template <int E>
struct UnpackedBlock {
  static constexpr EncodingSpec spec = spec_of(E);
  static constexpr int halves = spec.scale == Factor::kSuper16 ? 2 : 1;
  uint8_t codes[8 * unpacked_planes(spec.codes) * 128];
  float scales[halves * kPanelRows];
  float minimums[spec.minimum == Factor::kNone ? 1 : halves * kPanelRows];
};

// Blocks [begin, begin + count) of the panel; begin is a multiple of kUnpackedBlocks, so of a record's blocks.
template <int E>
void unpack(UnpackedBlock<E>* out, const uint8_t* panel, int64_t begin, int64_t count) {
  constexpr EncodingSpec spec = spec_of(E);
  const uint8_t* codes = panel + begin / record_blocks(spec) * record_bytes(spec);
  const uint8_t* header = codes;
  for (int64_t b = 0; b < count; b++, out++) {
    if (b % record_blocks(spec) == 0) {
      header = codes;
      codes += header_bytes(spec);
    }
    const uint8_t* scales = codes + code_bytes(spec.codes);
    const uint8_t* minimums = scales + factor_bytes(spec.scale);
    unpack_codes<spec.codes>(out->codes, codes);
    for (int half = 0; half < UnpackedBlock<E>::halves; half++)
      for (int v = 0; v < kPanelRows / VL; v++) {
        v_store(out->scales + half * kPanelRows + v * VL, scale_of<E>(scales, header, half, v));
        if constexpr (spec.minimum != Factor::kNone)
          v_store(out->minimums + half * kPanelRows + v * VL, load_factor<spec.minimum>(minimums, header + big_bytes(spec.scale), half, v));
      }
    codes += block_bytes(spec);
  }
}

// sums: [MR][32]; x and side at the first of these blocks.
template <int E, int MR>
void unpacked_tile(float* sums, const UnpackedBlock<E>* blocks, int64_t count, const uint8_t* x_first, const uint8_t* side_first, bool begins) {
  for (int first = 0; first < kPanelRows / VL; first += kIntVectors) {
    const uint8_t *x = x_first, *side = side_first;
    vf sum[kIntVectors][MR];
#pragma GCC unroll 8
    for (int v = 0; v < kIntVectors; v++)
#pragma GCC unroll 8
      for (int i = 0; i < MR; i++) sum[v][i] = begins ? v_set(0.0f) : v_load(sums + i * kPanelRows + (first + v) * VL);
    for (int64_t b = 0; b < count; b++) {
      const UnpackedBlock<E>& block = blocks[b];
      add_block<E, MR, kIntVectors, true>(
          sum, {block.codes, (const uint8_t*)block.scales, (const uint8_t*)block.minimums, nullptr}, first, x, side);
      x += 32 * MR;
      side += kSideFields * 4 * MR;
    }
#pragma GCC unroll 8
    for (int v = 0; v < kIntVectors; v++)
#pragma GCC unroll 8
      for (int i = 0; i < MR; i++) v_store(sums + i * kPanelRows + (first + v) * VL, sum[v][i]);
  }
}

template <int E, int MR>
PG_INLINE void unpacked_dispatch(const Gemm& g, int64_t tile, float* sums, const UnpackedBlock<E>* unpacked, int64_t begin, int64_t count) {
  if constexpr (MR >= 1) {
    if (g.tiles.height(tile) != MR) return unpacked_dispatch<E, MR - 1>(g, tile, sums, unpacked, begin, count);
    const uint8_t* x = g.tile_of(tile);
    const uint8_t* side = x + blocks_of(g.cols) * 32 * MR;
    unpacked_tile<E, MR>(sums, unpacked, count, x + begin * 32 * MR, side + begin * kSideFields * 4 * MR, begin == 0);
  }
}

template <int E>
void int_gemm_many(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t* scratch) {
  constexpr int64_t kSums = kIntTileRows * kPanelRows;  // of a row tile
  static_assert(kBandTiles * kSums * 4 + kUnpackedBlocks * (int64_t)sizeof(UnpackedBlock<E>) <= kUnpackedBytes, "more than the scratch of a worker");
  float* sums = (float*)scratch;
  UnpackedBlock<E>* unpacked = (UnpackedBlock<E>*)(sums + kBandTiles * kSums);
  const int64_t blocks = blocks_of(g.cols);
  for (int64_t panel = panel_begin; panel < panel_end; panel++)
    for (int64_t band = tile_begin; band < tile_end; band += kBandTiles) {
      const int64_t band_end = band + kBandTiles < tile_end ? band + kBandTiles : tile_end;
      for (int64_t begin = 0; begin < blocks; begin += kUnpackedBlocks) {
        const int64_t count = begin + kUnpackedBlocks < blocks ? kUnpackedBlocks : blocks - begin;
        unpack<E>(unpacked, g.panels + panel * g.panel_bytes, begin, count);
        for (int64_t tile = band; tile < band_end; tile++)
          unpacked_dispatch<E, kIntTileRows>(g, tile, sums + (tile - band) * kSums, unpacked, begin, count);
      }
      for (int64_t tile = band; tile < band_end; tile++)
        finish(g, sums + (tile - band) * kSums, g.tiles.first(tile), g.tiles.height(tile), panel * kPanelRows, kPanelRows);
    }
}

// q8_0, q4_0 and q4_1 have so little to unpack that it is no faster.
constexpr bool pays_to_unpack(Encoding encoding) { return encoding != kEncodingQ8 && encoding != kEncodingQ4 && encoding != kEncodingQ4M; }

#endif

template <Encoding E>
void take_kernel(Kernels& table) {
  table.matmul[E] = {int_gemm<E>, kLayoutInt, 0};
#if PG_ISA >= 2
  if constexpr (pays_to_unpack(E)) table.matmul_many[E] = {int_gemm_many<E>, kLayoutInt, 0, kUnpackedFrom};
#endif
}
template <Encoding... E>
void take_kernels(Kernels& table) { (take_kernel<E>(table), ...); }

}  // namespace
}  // namespace PG_NS
}  // namespace pg
