// The stream kernels (matmul-stream.cuh, matmul-chains.cuh) for 16-bit weights. Rings as src/device/cuda/matmul.ts has them.
#include "matmul-chains.cuh"

#define STREAMS(FORMAT, name)                                                                              \
  STREAM(FORMAT, name, 1, 1, 4, 7) STREAM(FORMAT, name, 1, 2, 4, 4) STREAM(FORMAT, name, 1, 4, 4, 3)       \
  STREAM(FORMAT, name, 2, 1, 4, 5) STREAM(FORMAT, name, 2, 2, 4, 4) STREAM(FORMAT, name, 2, 4, 4, 2)       \
  STREAM(FORMAT, name, 4, 1, 4, 4) STREAM(FORMAT, name, 4, 2, 4, 3) STREAM(FORMAT, name, 4, 4, 4, 2)       \
  STREAM_CHAINS(FORMAT, name, 1, 2, 4) STREAM_CHAINS(FORMAT, name, 2, 2, 3) STREAM_CHAINS(FORMAT, name, 4, 2, 2)
STREAMS(FORMAT_BF16, bf16)
STREAMS(FORMAT_F16, f16)
