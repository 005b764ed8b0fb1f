// Attention of prompts without wgmma (attention-extend.cuh) over 16-bit pages.
#include "attention-extend.cuh"

EXTENDS(KIND_BF16, bf16)
EXTENDS(KIND_F16, f16)
