// Attention of heads of 80 and 96 dims on wgmma (attention-prompts.cuh) over 16-bit pages: pictures' patches, which see each other.
#include "attention-wgmma-heads.cuh"
#include "attention-prompts.cuh"

#define EXTEND(D, KEY_STAGES, VALUE_STAGES)                                                                                        \
  OPEN_KERNEL(CONSUMERS + 128, 1, wgmma_bf16_##D##_##D, AttentionArgs) { extend<KIND_BF16, D, KEY_STAGES, VALUE_STAGES>(a); }      \
  OPEN_KERNEL(CONSUMERS + 128, 1, wgmma_f16_##D##_##D, AttentionArgs) { extend<KIND_F16, D, KEY_STAGES, VALUE_STAGES>(a); }
EXTEND(80, 3, 3)
EXTEND(96, 3, 3)
