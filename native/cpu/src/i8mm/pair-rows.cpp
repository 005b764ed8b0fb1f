// Activations into the layout of pair-matmul.h.
#include "../kernels/quantize-block.h"
#include "pair-matmul.h"

namespace pg {
namespace PG_NS {

int64_t pair_tile_bytes(int64_t cols) { return blocks_of(cols) * (kPairBlockBytes + kPairSideWords * 4); }

void pack_pairs(uint8_t* out, const RowsToPack& rows) {
  float padded[32] = {};  // the last block, where it is short
  for (int64_t b = rows.begin / 32; b * 32 < rows.end; b++) {
    uint8_t* quants = out + b * kPairBlockBytes;
    uint8_t* side = out + blocks_of(rows.cols) * kPairBlockBytes + b * kPairSideWords * 4;
    if (rows.height < kPairTileRows) {
      memset(quants, 0, kPairBlockBytes);
      memset(side, 0, kPairSideWords * 4);
    }
    for (int64_t i = 0; i < rows.height; i++) {
      const float* from = rows.x + i * rows.stride + b * 32;
      if (rows.cols - b * 32 < 32) {
        memcpy(padded, from, (size_t)(rows.cols - b * 32) * sizeof(float));
        from = padded;
      }
      QuantizedBlock block;
      quantize_block(block, from);
      for (int group = 0; group < 4; group++) memcpy(quants + (group * kPairTileRows + i) * 8, block.q + group * 8, 8);
      const auto put = [&](PairField field, const void* word) {
        for (int twice = 0; twice < 2; twice++) memcpy(side + ((field * kPairs + i / 2) * 4 + i % 2 * 2 + twice) * 4, word, 4);
      };
      const int32_t sum = block.sum_lo + block.sum_hi;
      const int32_t starts[3] = {-8 * sum, -8 * block.sum_lo, -8 * block.sum_hi};
      const float totals[3] = {block.scale * (float)sum, block.scale * (float)block.sum_lo, block.scale * (float)block.sum_hi};
      put(kPairScale, &block.scale);
      for (int f = 0; f < 3; f++) put((PairField)(kPairMinus8 + f), &starts[f]);
      for (int f = 0; f < 3; f++) put((PairField)(kPairSum + f), &totals[f]);
    }
  }
}

}  // namespace PG_NS
}  // namespace pg
