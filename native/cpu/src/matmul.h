// What a matmul kernel is given. The driver (matmul.cpp) packs the activations once, cuts the work into rectangles of panels by
// row tiles, and calls the kernel of the segment's encoding on each from any thread.
#pragma once
#include <cstdint>

namespace pg {

// Rows of x are cut into `count` tiles: of nearly equal height, or of the full height with a shorter last one. Equal tiles waste
// the least where arithmetic decides; a full first tile hides the most of the memory's time where reading weights does.
struct RowTiles {
  int64_t n = 0;
  int64_t count = 0;
  int64_t full = 0;  // 0: equal
  int64_t first(int64_t tile) const {
    const int64_t row = full > 0 ? tile * full : tile * n / count;
    return row < n ? row : n;
  }
  int64_t height(int64_t tile) const { return first(tile + 1) - first(tile); }
};

// How activations are laid out for a kernel. A matmul packs its x once per layout that its segments read.
//   float      [cols][height] f32
//   int        int8 blocks of 32, x = scale * q, |q| <= 127:
//                quants [blocks][8 groups][height][4 columns]
//                side   [blocks][kSideFields][height] of 4 bytes: what the kernels need per (block, row) besides the integers
//   int pairs  integers for matrix instructions: the same numbers on arm64 (i8mm/pair-rows.cpp), spans on AMX (amx/span-matmul.h)
//   int planes  the same spans with numbers of 16 bits, in two bytes (amx/span-matmul.h)
//   int turned  the same spans as the other operand of AMX (amx/span-matmul.h)
//   bf16 tiles  for the tiles of AMX: see amx/tile-matmul.h
//   tall       as float, for tiles of more rows (matmul-float.cpp, gemm_tall)
enum Layout : int32_t { kLayoutFloat, kLayoutInt, kLayoutIntPairs, kLayoutIntPlanes, kLayoutIntTurned, kLayoutBf16Tiles, kLayoutTall, kNumLayouts };

// What of x goes into a tile: columns [begin, end) of its rows. begin is a multiple of kPackCols, whole blocks of every layout, so that
// several threads may share a tile.
constexpr int64_t kPackCols = 256;
struct RowsToPack {
  const float* x;
  int64_t stride;
  int64_t height;
  int64_t cols;
  int64_t begin, end;
  bool all_fields;  // half blocks and minimums need more of `side` than the plain encodings do
};

// A layout as a variant has it. Tile t begins at t * tile_bytes(cols).
struct LayoutSpec {
  int32_t tile_rows;  // at most; 0: the variant has no such layout
  bool equal;         // whether tiles are of nearly equal height
  int64_t (*tile_bytes)(int64_t cols);
  void (*pack)(uint8_t* out, const RowsToPack& rows);
};

// Fields of `side`. Stored codes are unsigned and larger than their values by an offset that is a power of two: starting the sum
// at -offset * sum(q) takes that back, exactly.
enum Side : int32_t {
  kSideScale,     // f32
  kSideMinus128,  // i32: -128 * sum(q)
  kSideMinus8,    // i32: -8 * sum(q)
  kSideMinus8Lo,  // i32: the same for each half of the block
  kSideMinus8Hi,
  kSideSum,    // f32: scale * sum(q), the factor of minimums
  kSideSumLo,  // f32: of each half
  kSideSumHi,
  kSideFields
};

struct Gemm {
  float* out;  // [n, rows of the segment], out_stride apart, already at the segment's first column
  int64_t out_stride;
  int64_t first_row = 0, first_col = 0;  // with which `out` begins, where it is a part of that
  const float* bias;  // [rows of the segment] or null
  float scale;
  int32_t accumulate;
  const uint8_t* panels;
  int64_t panel_bytes;
  int64_t rows;  // of the segment
  int64_t cols;
  RowTiles tiles;
  const uint8_t* x;  // packed in the kernel's layout
  int64_t x_tile_bytes;
  const uint8_t* tile_of(int64_t tile) const { return x + tile * x_tile_bytes; }
};

// The work of one chunk: panels [panel_begin, panel_end) by row tiles [tile_begin, tile_end). scratch: the worker's own.
using GemmFn = void (*)(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t* scratch);

struct MatmulKernel {
  GemmFn run;  // null: there is none
  Layout layout;
  int32_t panels;  // that a chunk should have where there are enough rows and panels to choose; 0: as few as balance asks for
  int64_t from = 0;  // rows, of a kernel for many; 0: as the variant's others
};

}  // namespace pg
