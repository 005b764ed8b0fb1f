// Attention over pages of codes: fp8 (kv-fp8.cuh). A source of its own, so that the kernels of 16-bit pages are compiled without it.
#include "attention-decode.cuh"
#include "attention-extend.cuh"
#include "attention-plain.cuh"

DECODES(KIND_FP8, fp8)
EXTENDS(KIND_FP8, fp8)
KERNEL(32 * PLAIN_WARPS, attention_plain_fp8, AttentionArgs) { plain<true>(a); }
