// Matmul of integer weights with the matrix instructions of arm64 (smmla), and the layout of x they read.
#pragma once
#include "../encoding.h"
#include "../kernels/matmul.h"

namespace pg {
namespace PG_NS {

// Rows in pairs, tiles of 8 rows; those beyond the tile's height are zero.
//   quants [blocks][4 groups of 8 columns][4 pairs][2 rows][8 columns] int8
//   side   [blocks][kPairFields][4 pairs][4] 4 bytes: a field of the pair's rows as the products lie, {first, first, second, second}
enum PairField : int32_t { kPairScale, kPairMinus8, kPairMinus8Lo, kPairMinus8Hi, kPairSum, kPairSumLo, kPairSumHi, kPairFields };
constexpr int kPairs = 4;
constexpr int kPairTileRows = 2 * kPairs;
constexpr int64_t kPairBlockBytes = kPairTileRows * 32;
constexpr int64_t kPairSideWords = kPairFields * kPairs * 4;
int64_t pair_tile_bytes(int64_t cols);
void pack_pairs(uint8_t* out, const RowsToPack& rows);

extern const EncodingGemms pair_gemms;  // none for floats

}  // namespace PG_NS
}  // namespace pg
