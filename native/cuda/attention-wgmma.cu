// Attention of prompts on wgmma (attention-prompts.cuh) over 16-bit pages.
#include "attention-prompts.cuh"

#define EXTEND(D, KEY_STAGES, VALUE_STAGES)                                                                                        \
  OPEN_KERNEL(CONSUMERS + 128, 1, wgmma_bf16_##D##_##D, AttentionArgs) { extend<KIND_BF16, D, KEY_STAGES, VALUE_STAGES>(a); }      \
  OPEN_KERNEL(CONSUMERS + 128, 1, wgmma_f16_##D##_##D, AttentionArgs) { extend<KIND_F16, D, KEY_STAGES, VALUE_STAGES>(a); }
EXTEND(64, 3, 3)
EXTEND(128, 3, 3)
