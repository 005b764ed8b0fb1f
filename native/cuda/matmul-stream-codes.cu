// The stream kernels (matmul-stream.cuh, matmul-chains.cuh) for weights of 4 and 8 bits. Rings as src/device/cuda/matmul.ts has them.
#include "matmul-chains.cuh"

#define STREAMS(FORMAT, name)                                                                                     \
  STREAM(FORMAT, name, 1, 4, 4, 4) STREAM(FORMAT, name, 2, 4, 4, 4) STREAM(FORMAT, name, 4, 4, 4, 3)              \
  STREAM_CHAINS(FORMAT, name, 1, 2, 5) STREAM_CHAINS(FORMAT, name, 2, 2, 3) STREAM_CHAINS(FORMAT, name, 4, 2, 2)
STREAMS(FORMAT_Q4, q4)
STREAMS(FORMAT_Q4_MIN, q4_min)
STREAMS(FORMAT_Q8, q8)
STREAMS(FORMAT_Q8_MIN, q8_min)
STREAMS(FORMAT_E4M3, e4m3)
STREAMS(FORMAT_E2M1, e2m1)
