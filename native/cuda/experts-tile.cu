// Experts of 16-bit weights, many tokens (experts-tile.cuh).
#include "experts-tile.cuh"

EXPERT_TILES(FORMAT_BF16, bf16)
EXPERT_TILES(FORMAT_F16, f16)
