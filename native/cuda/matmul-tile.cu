// The tile kernel (matmul-tile.cuh) for 16-bit weights.
#include "matmul-tile.cuh"

TILES(FORMAT_BF16, bf16)
TILES(FORMAT_F16, f16)
