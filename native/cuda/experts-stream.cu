// Experts of 16-bit weights, few tokens (experts-stream.cuh).
#include "experts-stream.cuh"

EXPERT_STREAMS(FORMAT_BF16, bf16)
EXPERT_STREAMS(FORMAT_F16, f16)
