// The strip kernel (matmul-strip.cuh) for weights of 4 and 8 bits.
#include "matmul-strip.cuh"

#define STRIPS(FORMAT, name) \
  STRIP(FORMAT, name, 1, 4) STRIP(FORMAT, name, 2, 4) STRIP(FORMAT, name, 4, 4) STRIP(FORMAT, name, 8, 4) EXPERTS(FORMAT, name)
STRIPS(FORMAT_Q4, q4)
STRIPS(FORMAT_Q4_MIN, q4_min)
STRIPS(FORMAT_Q8, q8)
STRIPS(FORMAT_Q8_MIN, q8_min)
STRIPS(FORMAT_E4M3, e4m3)
STRIPS(FORMAT_E2M1, e2m1)
