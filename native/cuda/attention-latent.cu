// Attention over latent pages of 16-bit numbers (attention-latent.cuh).
#include "attention-latent.cuh"

LATENT(KIND_F16, f16, 576, 512)
LATENT(KIND_BF16, bf16, 576, 512)
