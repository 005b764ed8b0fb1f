// Attention of decodes (attention-decode.cuh) over 16-bit pages.
#include "attention-decode.cuh"

DECODES(KIND_BF16, bf16)
DECODES(KIND_F16, f16)
TURNED_DECODES(KIND_BF16, bf16)
TURNED_DECODES(KIND_F16, f16)
