// Attention over fp8 pages (kv-fp8.cuh): the forms that 16-bit pages have, in a source of their own, so that those are compiled as before.
#include "attention-decode.cuh"
#include "attention-extend.cuh"
#include "attention-plain.cuh"

DECODES(KIND_FP8, fp8)
EXTENDS(KIND_FP8, fp8)
KERNEL(32 * PLAIN_WARPS, attention_plain_fp8, AttentionArgs) { plain<true>(a); }
