// The strip kernel (matmul-strip.cuh) for 16-bit weights.
#include "matmul-strip.cuh"

#define STRIPS(FORMAT, name) \
  STRIP(FORMAT, name, 1, 4) STRIP(FORMAT, name, 1, 8) STRIP(FORMAT, name, 1, 20) \
  STRIP(FORMAT, name, 2, 4) STRIP(FORMAT, name, 2, 8) STRIP(FORMAT, name, 2, 20) \
  STRIP(FORMAT, name, 4, 4) STRIP(FORMAT, name, 4, 8) STRIP(FORMAT, name, 4, 20) \
  STRIP(FORMAT, name, 8, 4) STRIP(FORMAT, name, 8, 8) STRIP(FORMAT, name, 8, 12)
STRIPS(FORMAT_BF16, bf16)
STRIPS(FORMAT_F16, f16)
EXPERTS(FORMAT_BF16, bf16)
EXPERTS(FORMAT_F16, f16)
