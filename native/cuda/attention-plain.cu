// Attention with f32 arithmetic (attention-plain.cuh) over pages of all kinds but fp8.
#include "attention-plain.cuh"

KERNEL(32 * PLAIN_WARPS, attention_plain, AttentionArgs) { plain<false>(a); }
