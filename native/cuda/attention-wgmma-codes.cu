// Attention of prompts on wgmma (attention-prompts.cuh) over fp8 pages.
#include "attention-prompts.cuh"

OPEN_KERNEL(CONSUMERS + 128, 1, wgmma_fp8_64_64, AttentionArgs) { extend<KIND_FP8, 64, 2, 2>(a); }
OPEN_KERNEL(CONSUMERS + 128, 1, wgmma_fp8_128_128, AttentionArgs) { extend<KIND_FP8, 128, 2, 2>(a); }
