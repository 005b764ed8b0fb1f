// The tile kernel (matmul-tile.cuh) for weights of 4 and 8 bits.
#include "matmul-tile.cuh"

TILES(FORMAT_Q4, q4)
TILES(FORMAT_Q4_MIN, q4_min)
TILES(FORMAT_Q8, q8)
TILES(FORMAT_Q8_MIN, q8_min)
TILES(FORMAT_E4M3, e4m3)
TILES(FORMAT_E2M1, e2m1)
