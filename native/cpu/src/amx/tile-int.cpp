// Matmul with q8 and q4 weights on int8 tiles, for many rows: the maths, the order and the bits of kernels/matmul-int.h.
//
// Tiling   A tile product takes one block of 32 columns of 16 rows of x and 16 outputs; its sums, 16 x 16 integers, are stored and
//          folded with the block's factors into f32 sums, which stay in 16 vector registers for a chunk of kChunkBlocks blocks: those of
//          the first half of a panel while the products are made, those of the second after that. Folding lags a block behind: what a
//          tile stores is not forwarded to loads, which must find it in L1. Few tile registers are in use: where two threads share a
//          core, those in use are taken from those in flight (docs/kernels.md). A chunk of a panel is made signed bytes in L1 once for all
//          the rows of a band, which stay in L2.
// Traffic  weights come from memory once per band of rows; per block of 16 rows by 16 outputs, 1 KiB of operands from L1 and L2, and 1 KiB
//          of products stored and loaded again in L1, which is what bounds it: products, stores and folds hardly overlap.
#include "../kernels/finish.h"
#include "tile-matmul.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int64_t kChunkBlocks = 8;
constexpr int64_t kBandTiles = 8;                         // of 32 rows
constexpr int64_t kAhead = 16384;                         // of the panels, while they come from memory
constexpr int64_t kXBlockBytes = kIntRows * kBlockCols;   // a block of a tile of x
constexpr int64_t kCodeTileBytes = kBlockCols * 16;       // [8 groups of columns][16 outputs][4 columns]
constexpr int64_t kTileSums = kTileRows * kTileRows;

// A worker's: a chunk of a panel, the products by the first half of its outputs (of two blocks) and by the second (of all), and the
// sums of a band.
struct alignas(64) Room {
  uint8_t codes[kChunkBlocks][2][kCodeTileBytes];
  float factors[kChunkBlocks][kPanelRows];
  int32_t first[2][kTileSums];
  int32_t second[kChunkBlocks][kTileSums];
  float sums[kBandTiles][kIntRows][kPanelRows];
};

// tmm0, 1: products by the halves of the outputs; tmm2: x; tmm3: codes.
TileConfig block_tiles() {
  TileConfig config;
  config.set(0, kTileRows, 64);
  config.set(1, kTileRows, 64);
  config.set(2, kTileRows, kBlockCols);
  config.set(3, 8, 64);
  return config;
}

// Blocks [first, first + count) of a panel as signed bytes in the order of tiles, and their factors as f32.
template <int E>
void prepare_chunk(Room& room, const uint8_t* panel, int64_t first, int64_t count, bool ahead) {
  constexpr EncodingSpec spec = spec_of(E);
  const uint8_t* at = panel + first * block_bytes(spec);
  for (int64_t b = 0; b < count; b++, at += block_bytes(spec)) {
    if (ahead)
      for (int64_t line = 0; line < block_bytes(spec); line += 64) __builtin_prefetch(at + kAhead + line, 0, 2);
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
      const auto put = [&](int group, __m512i codes) { _mm512_store_si512(room.codes[b][half] + group * 64, codes); };
      const auto from = [&](int group) { return _mm512_loadu_si512(at + group * 128 + half * 64); };
#pragma GCC unroll 4
      for (int group = 0; group < 4; group++) {
        if constexpr (spec.codes == Codes::kByte) {
          put(group, _mm512_xor_si512(from(group), _mm512_set1_epi8((char)0x80)));
          put(group + 4, _mm512_xor_si512(from(group + 4), _mm512_set1_epi8((char)0x80)));
        } else {
          const __m512i nibbles = from(group), mask = _mm512_set1_epi8(15), offset = _mm512_set1_epi8(8);
          put(group, _mm512_sub_epi8(_mm512_and_si512(nibbles, mask), offset));
          put(group + 4, _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(nibbles, 4), mask), offset));
        }
      }
      const __m256i halves = _mm256_loadu_si256((const __m256i*)(at + code_bytes(spec.codes) + half * 32));
      _mm512_store_ps(room.factors[b] + half * 16, _mm512_cvtph_ps(halves));
    }
  }
}

// One block of 16 rows by both halves of the outputs.
PG_INLINE void multiply(const uint8_t* x, const uint8_t (&codes)[2][kCodeTileBytes], int32_t* first, int32_t* second) {
  tile_load<2>(x, kBlockCols);
  tile_load<3>(codes[0], 64);
  tile_zero<0>();
  tile_dot_int8<0, 2, 3>();
  tile_store<0>(first, 64);
  tile_load<3>(codes[1], 64);
  tile_zero<1>();
  tile_dot_int8<1, 2, 3>();
  tile_store<1>(second, 64);
}

// sums [16 rows][16 outputs] += product * (factor of the output * scale of the row).
PG_INLINE void fold(vf (&sums)[kTileRows], const int32_t* products, const float* factors, const float* scales) {
  const vf factor = v_load(factors);
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; i++) {
    const vf product = _mm512_cvtepi32_ps(_mm512_load_si512(products + i * 16));
    sums[i] = v_madd(product, v_mul(factor, v_set(scales[i])), sums[i]);
  }
}

PG_INLINE void load_sums(vf (&held)[kTileRows], const float* sums) {
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; i++) held[i] = v_load(sums + i * kPanelRows);
}

PG_INLINE void store_sums(float* sums, const vf (&held)[kTileRows]) {
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; i++) v_store(sums + i * kPanelRows, held[i]);
}

// A chunk of a panel by 16 rows of x: [blocks][2][16][32] and its scales, [blocks][32], at these rows. sums: [16][32].
void run_blocks(Room& room, const uint8_t* x, const float* scales, float* sums, int64_t count) {
  vf held[kTileRows];
  load_sums(held, sums);
  for (int64_t b = 0; b < count; b++) {
    multiply(x + b * kXBlockBytes, room.codes[b], room.first[b % 2], room.second[b]);
    if (b > 0) fold(held, room.first[(b - 1) % 2], room.factors[b - 1], scales + (b - 1) * kIntRows);
  }
  fold(held, room.first[(count - 1) % 2], room.factors[count - 1], scales + (count - 1) * kIntRows);
  store_sums(sums, held);
  load_sums(held, sums + 16);
  for (int64_t b = 0; b < count; b++) fold(held, room.second[b], room.factors[b] + 16, scales + b * kIntRows);
  store_sums(sums + 16, held);
}

// A chunk of a panel by the tiles of a band.
void run_chunk(const Gemm& g, Room& room, int64_t tile_begin, int64_t tile_end, int64_t first, int64_t count) {
  const int64_t x_bytes = blocks_of(g.cols) * kXBlockBytes;
  for (int64_t t = tile_begin; t < tile_end; t++) {
    const uint8_t* tile = g.tile_of(t);
    const float* scales = (const float*)(tile + x_bytes) + first * kIntRows;
    for (int64_t row = 0; row < g.tiles.height(t); row += kTileRows)
      run_blocks(room, tile + first * kXBlockBytes + row * kBlockCols, scales + row, room.sums[t - tile_begin][row], count);
  }
}

// Tiles of x that stay in L2 for all panels of a chunk of work.
int64_t band_tiles(int64_t cols) {
  const int64_t fit = (1 << 20) / (cols * kIntRows + 1);
  return fit < 1 ? 1 : fit > kBandTiles ? kBandTiles : fit;
}

template <int E>
void gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t* scratch) {
  Room& room = *(Room*)scratch;
  const int64_t blocks = blocks_of(g.cols), band = band_tiles(g.cols);
  const TileScope scope(block_tiles());
  for (int64_t begin = tile_begin; begin < tile_end; begin += band) {
    const int64_t end = begin + band < tile_end ? begin + band : tile_end;
    for (int64_t panel = panel_begin; panel < panel_end; panel++) {
      memset(room.sums, 0, (size_t)(end - begin) * sizeof room.sums[0]);
      for (int64_t first = 0; first < blocks; first += kChunkBlocks) {
        const int64_t count = blocks - first < kChunkBlocks ? blocks - first : kChunkBlocks;
        prepare_chunk<E>(room, g.panels + panel * g.panel_bytes, first, count, begin == tile_begin);
        run_chunk(g, room, begin, end, first, count);
      }
      for (int64_t t = begin; t < end; t++)
        finish(g, room.sums[t - begin][0], g.tiles.first(t), g.tiles.height(t), panel * kPanelRows, kPanelRows);
    }
  }
}

}  // namespace

const GemmFn gemm_q8_tiles = gemm<kEncodingQ8>;
const GemmFn gemm_q4_tiles = gemm<kEncodingQ4>;

int64_t int_scratch_bytes() { return sizeof(Room); }

}  // namespace PG_NS
}  // namespace pg
