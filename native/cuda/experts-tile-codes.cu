// Experts of weights of 4 and 8 bits, many tokens (experts-tile.cuh).
#include "experts-tile.cuh"

EXPERT_TILES(FORMAT_Q4, q4)
EXPERT_TILES(FORMAT_Q4_MIN, q4_min)
EXPERT_TILES(FORMAT_Q8, q8)
EXPERT_TILES(FORMAT_Q8_MIN, q8_min)
EXPERT_TILES(FORMAT_E4M3, e4m3)
EXPERT_TILES(FORMAT_E2M1, e2m1)
