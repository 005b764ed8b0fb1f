// Matmul with q8 and q4 weights on int8 tiles, for several rows: the maths, the order and the bits of kernels/matmul-int.h.
//
// Tiling   A tile product takes one block of 32 columns of 16 rows of x and 16 outputs; its sums, 16 x 16 integers, are stored and
//          folded into f32 sums with the block's factors by vector instructions. Folding lags kGroup blocks behind the products:
//          what a tile stores is not forwarded to loads, so loads must find it in L1, and both units of the core work at once.
//          A chunk of kChunkBlocks blocks of a panel is made signed bytes in L1 once for all the rows of a band, which stay in L2.
// Traffic  weights come from memory once per band of rows; per block of 32 rows by 32 outputs, 2 KiB of operands from L1 and L2, 4 KiB
//          stored and loaded again in L1.
#include "../kernels/finish.h"
#include "tile-matmul.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int64_t kChunkBlocks = 16;
constexpr int kGroup = 2;
constexpr int64_t kBandTiles = 8;                                // of 32 rows
constexpr int64_t kAhead = 16384;                                // of the panels, while they come from memory
constexpr int64_t kRowBytes = kBlockCols;                        // of a tile of x, and of each of its rows
constexpr int64_t kXBlockBytes = kIntRows * kBlockCols;    // a block of a tile of x
constexpr int64_t kCodeTileBytes = kBlockCols * 16;              // [8 groups of columns][16 outputs][4 columns]
constexpr int64_t kTileSums = kTileRows * kTileRows;

// A worker's: a chunk of a panel, products under way, and the sums of a band.
struct alignas(64) Room {
  uint8_t codes[kChunkBlocks][2][kCodeTileBytes];
  float factors[kChunkBlocks][kPanelRows];
  int32_t products[2][4][kGroup][kTileSums];  // of the group under way and the one before: [rows and outputs by halves]
  float sums[kBandTiles][kIntRows][kPanelRows];
};

// tmm0..3: products of the halves of rows by the halves of outputs; tmm4, 5: x; tmm6, 7: codes.
TileConfig config_for(int rows) {
  TileConfig config;
  for (int tile = 0; tile < 4; tile++) config.set(tile, rows, 64);
  for (int tile = 4; tile < 6; tile++) config.set(tile, rows, kRowBytes);
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
      uint8_t* out = room.codes[b][half];
#pragma GCC unroll 4
      for (int group = 0; group < 4; group++) {
        const auto put = [&](int to, __m512i codes) { _mm512_store_si512(out + to * 64, codes); };
        const auto from = [&](int which) { return _mm512_loadu_si512(at + which * 128 + half * 64); };
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

// One block of a tile of x by the panel; kPair: both halves of the rows.
template <bool kPair>
PG_INLINE void multiply(const uint8_t* x, const uint8_t (&codes)[2][kCodeTileBytes], int32_t (&products)[4][kGroup][kTileSums], int at) {
  tile_load<4>(x, kRowBytes);
  tile_load<6>(codes[0], 64);
  tile_zero<0>();
  tile_dot_int8<0, 4, 6>();
  tile_load<7>(codes[1], 64);
  tile_zero<1>();
  tile_dot_int8<1, 4, 7>();
  if (kPair) {
    tile_load<5>(x + kXBlockBytes / 2, kRowBytes);
    tile_zero<2>();
    tile_dot_int8<2, 5, 6>();
    tile_zero<3>();
    tile_dot_int8<3, 5, 7>();
  }
  tile_store<0>(products[0][at], 64);
  tile_store<1>(products[1][at], 64);
  if (!kPair) return;
  tile_store<2>(products[2][at], 64);
  tile_store<3>(products[3][at], 64);
}

// What waits to be folded: a group of blocks of one tile of x.
struct Group {
  const int32_t (*products)[kGroup][kTileSums];
  const float* factors;  // [blocks][32 outputs]
  const float* scales;   // [blocks][32 rows]
  float* sums;           // [32 rows][32 outputs]
  int64_t count = 0;     // blocks; 0: nothing waits
};

// sums += product * (factor * scale) for a quarter: 16 outputs by kRows rows, blocks ascending.
template <int kRows, int kCount>
PG_INLINE void fold_blocks(const Group& group, int quarter) {
  const int row = quarter / 2 * kTileRows, col = quarter % 2 * 16;
  float* sums = group.sums + row * kPanelRows + col;
  vf sum[kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; i++) sum[i] = v_load(sums + i * kPanelRows);
#pragma GCC unroll 2
  for (int b = 0; b < kCount; b++) {
    const vf factor = v_load(group.factors + b * kPanelRows + col);
    const float* scale = group.scales + b * kIntRows + row;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; i++) {
      const vf product = _mm512_cvtepi32_ps(_mm512_load_si512(group.products[quarter][b] + i * 16));
      sum[i] = v_madd(product, v_mul(factor, v_set(scale[i])), sum[i]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; i++) v_store(sums + i * kPanelRows, sum[i]);
}

template <int kRows>
PG_INLINE void fold(const Group& group, int quarter) {
  group.count == kGroup ? fold_blocks<kRows, kGroup>(group, quarter) : fold_blocks<kRows, 1>(group, quarter);
}

// A chunk of a panel by the tiles of a band. Products of a group and the folding of the one before alternate.
template <bool kPair, int kRows>
void run_chunk(const Gemm& g, Room& room, int64_t tile_begin, int64_t tile_end, int64_t first, int64_t count) {
  constexpr int quarters = kPair ? 4 : 2;
  const int64_t x_bytes = blocks_of(g.cols) * kXBlockBytes;
  Group waiting;
  int next = 0;
  for (int64_t t = tile_begin; t < tile_end; t++) {
    const uint8_t* x = g.tile_of(t);
    for (int64_t b = 0; b < count; b += kGroup, next ^= 1) {
      Group group;
      group.products = room.products[next];
      group.factors = room.factors[b];
      group.scales = (const float*)(x + x_bytes) + (first + b) * kIntRows;
      group.sums = room.sums[t - tile_begin][0];
      group.count = count - b < kGroup ? count - b : kGroup;
      for (int i = 0; i < group.count; i++) {
        multiply<kPair>(x + (first + b + i) * kXBlockBytes, room.codes[b + i], room.products[next], i);
        if (waiting.count > 0)
          for (int q = i * quarters / kGroup; q < (i + 1) * quarters / kGroup; q++) fold<kRows>(waiting, q);
      }
      for (int q = (int)group.count * quarters / kGroup; q < quarters && waiting.count > 0; q++) fold<kRows>(waiting, q);
      waiting = group;
    }
  }
  for (int q = 0; q < quarters; q++) fold<kRows>(waiting, q);
}

// Rows of x that stay in L2 for all panels of a chunk of work.
int64_t band_tiles(int64_t cols) {
  const int64_t fit = (1 << 20) / (cols * kIntRows + 1);
  return fit < 1 ? 1 : fit > kBandTiles ? kBandTiles : fit;
}

template <int E>
void gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t* scratch) {
  Room& room = *(Room*)scratch;
  const int64_t blocks = blocks_of(g.cols), band = band_tiles(g.cols);
  const bool few = g.tiles.n <= kTileRows / 2, single = g.tiles.n <= kTileRows;
  const TileScope scope(config_for(few ? kTileRows / 2 : kTileRows));
  for (int64_t begin = tile_begin; begin < tile_end; begin += band) {
    const int64_t end = begin + band < tile_end ? begin + band : tile_end;
    for (int64_t panel = panel_begin; panel < panel_end; panel++) {
      memset(room.sums, 0, (size_t)(end - begin) * sizeof room.sums[0]);
      for (int64_t first = 0; first < blocks; first += kChunkBlocks) {
        const int64_t count = blocks - first < kChunkBlocks ? blocks - first : kChunkBlocks;
        prepare_chunk<E>(room, g.panels + panel * g.panel_bytes, first, count, begin == tile_begin);
        few ? run_chunk<false, kTileRows / 2>(g, room, begin, end, first, count)
            : single ? run_chunk<false, kTileRows>(g, room, begin, end, first, count)
                     : run_chunk<true, kTileRows>(g, room, begin, end, first, count);
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
