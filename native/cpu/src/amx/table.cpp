// The amx variant: everything of avx512, with bf16 weights and attention over bf16 pages on tiles, and codes of four bits and more in sums
// over spans of columns, on tiles for many rows. For any number of rows: sums are in another order than those of avx512, and a row must not depend
// on the rows beside it.
#include "../kernels.h"
#include "bf12.h"
#include "span-matmul.h"
#include "tile-matmul.h"

namespace pg {
namespace avx512 {
const Kernels* kernels();
}
namespace PG_NS {

extern const AttentionKernels attention_on_tiles;

// From here on int8 tiles do more than vpdpbusd; of span4, whose bytes tiles read as they are made, from three rows on.
constexpr int64_t kManyRows = 4, kManyOfSpan4 = 3;

constexpr int64_t larger_of(int64_t a, int64_t b) { return a > b ? a : b; }

const Kernels* kernels() {
  static const Kernels table = [] {
    Kernels t = *avx512::kernels();
    t.isa = kIsaAmx;
    t.layouts[kLayoutBf16Tiles] = {kTileRows, false, bf16_tile_bytes, pack_bf16_rows};
    t.matmul[kEncodingBf16] = {gemm_bf16_tiles, kLayoutBf16Tiles, kTilePanels};
    t.matmul[kEncodingBf12] = {gemm_bf12_tiles, kLayoutBf16Tiles, kTilePanels};
    t.layouts[kLayoutIntPairs] = {kTileRows, false, span_tile_bytes<1>, pack_span_rows<1>};
    t.layouts[kLayoutIntPlanes] = {kTileRows, false, span_tile_bytes<2>, pack_span_rows<2>};
    t.layouts[kLayoutIntTurned] = {kTileRows, false, turned_tile_bytes, pack_turned_rows};
    for (const Encoding encoding : kSpanEncodings) {
      const Layout layout = has_planes(encoding) ? kLayoutIntPlanes : kLayoutIntPairs;
      t.matmul[encoding] = {span_few_rows.of[encoding], layout, 0};
      t.matmul_many[encoding] = {span_many_rows.of[encoding], layout, kTilePanels};
    }
    t.matmul_many[kEncodingSpan4] = {span_many_rows.of[kEncodingSpan4], kLayoutIntTurned, kTilePanels, kManyOfSpan4};
    t.multiplied[kEncodingBf16] = {kEncodingBf12, bf12_bytes, to_bf12, fits_bf12};
    t.multiplied[kEncodingQ8] = {kEncodingSpan8, span8_bytes, to_span8};
    t.multiplied[kEncodingQ4] = {kEncodingSpan4, span4_bytes, to_span4};
    t.attention = &attention_on_tiles;
    t.many_rows = kManyRows;
    t.matmul_scratch_bytes = [](int64_t) { return larger_of(kUnpackedBytes, larger_of(bf16_scratch_bytes(), span_scratch_bytes())); };
    return t;
  }();
  return &table;
}

// x in int8 over a span for q8_0 too.
const Kernels* fast_kernels() {
  static const Kernels table = [] {
    Kernels t = *kernels();
    t.isa = kIsaAmxFast;
    for (const Encoding encoding : kSpanEncodings) {
      if (!has_planes(encoding)) continue;
      t.matmul[encoding] = {q8_few_rows_fast.of[encoding], kLayoutIntPairs, 0};
      t.matmul_many[encoding] = {q8_many_rows_fast.of[encoding], kLayoutIntPairs, kTilePanels};
    }
    return t;
  }();
  return &table;
}

}  // namespace PG_NS
}  // namespace pg
