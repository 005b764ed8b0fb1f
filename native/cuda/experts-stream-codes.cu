// Experts of weights of 4 and 8 bits, few tokens (experts-stream.cuh).
#include "experts-stream.cuh"

EXPERT_STREAMS(FORMAT_Q4, q4)
EXPERT_STREAMS(FORMAT_Q4_MIN, q4_min)
EXPERT_STREAMS(FORMAT_Q8, q8)
EXPERT_STREAMS(FORMAT_Q8_MIN, q8_min)
EXPERT_STREAMS(FORMAT_E4M3, e4m3)
EXPERT_STREAMS(FORMAT_E2M1, e2m1)
