// Matmul with q8 and q4 weights on int8 tiles, for many rows: the maths, the order and the bits of kernels/matmul-int.h.
//
// Tiling   A tile product takes one block of 32 columns of 16 rows of x and 16 outputs; its sums, 16 x 16 integers, are stored and
//          folded into f32 sums with the block's factors by vector instructions. Folding lags a block behind the products: what a
//          tile stores is not forwarded to loads, which must find it in L1. A chunk of kChunkBlocks blocks of a panel is made signed
//          bytes in L1 once for all the rows of a band, which stay in L2.
// Traffic  weights come from memory once per band of rows; per block of 32 rows by 32 outputs, 2 KiB of operands from L1 and L2, 4 KiB
//          stored and loaded again in L1, and that is what bounds it.
#include "../kernels/finish.h"
#include "tile-matmul.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int64_t kChunkBlocks = 16;
constexpr int64_t kBandTiles = 8;                         // of 32 rows
constexpr int64_t kAhead = 16384;                         // of the panels, while they come from memory
constexpr int64_t kXBlockBytes = kIntRows * kBlockCols;   // a block of a tile of x
constexpr int64_t kCodeTileBytes = kBlockCols * 16;       // [8 groups of columns][16 outputs][4 columns]
constexpr int64_t kTileSums = kTileRows * kTileRows;

// Of a block: [halves of the rows][halves of the outputs].
using Products = int32_t[4][kTileSums];

// A worker's: a chunk of a panel, the products of two blocks, and the sums of a band.
struct alignas(64) Room {
  uint8_t codes[kChunkBlocks][2][kCodeTileBytes];
  float factors[kChunkBlocks][kPanelRows];
  Products products[2];
  float sums[kBandTiles][kIntRows][kPanelRows];
};

// tmm0..3: products of the halves of rows by the halves of outputs; tmm4, 5: x; tmm6, 7: codes.
TileConfig block_tiles() {
  TileConfig config;
  for (int tile = 0; tile < 4; tile++) config.set(tile, kTileRows, 64);
  for (int tile = 4; tile < 6; tile++) config.set(tile, kTileRows, kBlockCols);
  for (int tile = 6; tile < 8; tile++) config.set(tile, 8, 64);
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

// One block of a tile of x by the panel.
PG_INLINE void multiply(const uint8_t* x, const uint8_t (&codes)[2][kCodeTileBytes], Products& products) {
  tile_load<4>(x, kBlockCols);
  tile_load<6>(codes[0], 64);
  tile_zero<0>();
  tile_dot_int8<0, 4, 6>();
  tile_load<7>(codes[1], 64);
  tile_zero<1>();
  tile_dot_int8<1, 4, 7>();
  tile_load<5>(x + kXBlockBytes / 2, kBlockCols);
  tile_zero<2>();
  tile_dot_int8<2, 5, 6>();
  tile_zero<3>();
  tile_dot_int8<3, 5, 7>();
  tile_store<0>(products[0], 64);
  tile_store<1>(products[1], 64);
  tile_store<2>(products[2], 64);
  tile_store<3>(products[3], 64);
}

// sums [32 rows][32 outputs] += product * (factor of the output * scale of the row).
PG_INLINE void fold(float* sums, const Products& products, const float* factors, const float* scales) {
  for (int quarter = 0; quarter < 4; quarter++) {
    const int row = quarter / 2 * kTileRows, col = quarter % 2 * 16;
    const vf factor = v_load(factors + col);
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; i++) {
      float* sum = sums + (row + i) * kPanelRows + col;
      const vf product = _mm512_cvtepi32_ps(_mm512_load_si512(products[quarter] + i * 16));
      v_store(sum, v_madd(product, v_mul(factor, v_set(scales[row + i])), v_load(sum)));
    }
  }
}

// A chunk of a panel by the tiles of a band: the products of a block, then the folding of the one before.
void run_chunk(const Gemm& g, Room& room, int64_t tile_begin, int64_t tile_end, int64_t first, int64_t count) {
  const int64_t x_bytes = blocks_of(g.cols) * kXBlockBytes;
  const auto fold_nth = [&](int64_t n) {
    const int64_t t = n / count, b = n % count;
    const float* scales = (const float*)(g.tile_of(tile_begin + t) + x_bytes);
    fold(room.sums[t][0], room.products[n % 2], room.factors[b], scales + (first + b) * kIntRows);
  };
  const int64_t end = (tile_end - tile_begin) * count;
  for (int64_t n = 0; n < end; n++) {
    const int64_t b = n % count;
    multiply(g.tile_of(tile_begin + n / count) + (first + b) * kXBlockBytes, room.codes[b], room.products[n % 2]);
    if (n > 0) fold_nth(n - 1);
  }
  fold_nth(end - 1);
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
