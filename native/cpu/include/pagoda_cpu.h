// The C interface of Pagoda's CPU library: the whole border between TypeScript and native code.
//
// Rules. Every function returns a status (PG_OK or a negative PG_E_*) unless its comment says otherwise; nothing throws and
// nothing prints. All state hangs off a context. Sizes and strides are explicit and count elements, not bytes, unless the
// name ends in `_bytes`. Pointers are borrowed for the call; `create`/`alloc` give handles that the matching `free` takes back.
// A context runs one call at a time: the caller's thread is the first worker of its pool. src/device/cpu/abi.ts mirrors this
// file line by line and a test compares the two, so keep one declaration per function, plain types, no macros in them.
//
// Shapes: n rows of activations, T tokens, R batch rows, H query heads, K kv heads, D head dim, V vocabulary.
#ifndef PAGODA_CPU_H
#define PAGODA_CPU_H

#include <stdint.h>

// Everything else in the library is hidden.
#ifdef _WIN32
#define PG_API __attribute__((dllexport))
#else
#define PG_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define PG_ABI_VERSION 12

#define PG_OK 0
#define PG_E_ARGUMENT -1
#define PG_E_MEMORY -2
#define PG_E_FILE -3
#define PG_E_UNSUPPORTED -4

// --- context ------------------------------------------------------------------------------------------------------------

// Returns PG_ABI_VERSION; checked at load before anything else is called.
PG_API int32_t pg_abi_version(void);
// isa: 0 best of this processor, else a code of src/kernels.h. PG_E_UNSUPPORTED when the processor lacks it.
// threads: workers of the pool, the caller included.
PG_API int32_t pg_context_create(int32_t threads, int32_t isa, uint64_t* out_context);
PG_API int32_t pg_context_free(void* context);
// Writes the text of the last failure (or an empty string), zero-terminated, cut to `capacity` bytes.
PG_API int32_t pg_last_error(const void* context, char* out, int32_t capacity);
// Holds every thread of the pool to a processor of its own, in the order of those this process may use; the caller to the first.
// PG_E_UNSUPPORTED where there are fewer processors than threads, or the system has no such call.
PG_API int32_t pg_pin_threads(void* context);
// Returns the code of the instruction set in use.
PG_API int32_t pg_isa(const void* context);

// --- memory -------------------------------------------------------------------------------------------------------------

// Zeroed, 64-byte aligned; large blocks are anonymous mappings advised to use huge pages.
PG_API int32_t pg_alloc(void* context, int64_t bytes, uint64_t* out_address);
// bytes: as given to pg_alloc.
PG_API int32_t pg_free(void* context, void* address, int64_t bytes);
// Makes room for the packed activations of matmuls of up to `rows` x `cols`, so that no matmul allocates.
PG_API int32_t pg_reserve_activations(void* context, int64_t rows, int64_t cols);

// --- weights ------------------------------------------------------------------------------------------------------------
// A weight is a matrix [rows = outputs, cols = inputs] of one or more segments stacked along the rows, each packed into panels
// of 32 rows in its own encoding (src/encoding.h).

PG_API int32_t pg_weight_create(void* context, int64_t cols, uint64_t* out_weight);
// Appends `rows` rows read from `source` (dtype: enum Dtype of src/encoding.h, rows row-major, or [cols, rows] when transposed),
// packed as `encoding` (-1: the dtype's own). Source bytes are not kept.
PG_API int32_t pg_weight_append(void* context, void* weight, int32_t dtype, int32_t encoding, int64_t rows, int32_t transposed, const void* source, int64_t source_bytes);
// The same, from a file mapped for the duration of the call.
PG_API int32_t pg_weight_append_file(void* context, void* weight, int32_t dtype, int32_t encoding, int64_t rows, int32_t transposed, const char* path, int64_t offset, int64_t source_bytes);
// The rows stay in the file, mapped as long as the weight lives: for tables that are looked up and never multiplied.
PG_API int32_t pg_weight_map_file(void* context, void* weight, int32_t dtype, int64_t rows, const char* path, int64_t offset, int64_t source_bytes);
// No row will be looked up: the weight may take a form from which none can be read back. Matmuls give the same bits.
PG_API int32_t pg_weight_only_multiplied(void* context, void* weight);
// Returns the bytes held by the packed panels.
PG_API int64_t pg_weight_bytes(const void* weight);
PG_API int32_t pg_weight_free(void* context, void* weight);

// out[n, rows] = scale * (x[n, cols] . W^T + bias[rows]); accumulate != 0 adds to out instead. bias may be null.
PG_API int32_t pg_matmul(void* context, float* out, int64_t out_stride, const float* x, int64_t x_stride, const void* weight, int64_t n, const float* bias, float scale, int32_t accumulate);
// out[n, rows / 2] = act(gate) * up, where gate and up are the first and the second half of x . W^T: the same bits as pg_matmul and
// pg_gated_activation give. activation: as there, or gpt-oss's gate (src/rows.h). adapters: items of pg_low_rank, added before the gate.
// PG_E_UNSUPPORTED, having done nothing, where the halves are not whole segments or panels of the weight, or meet x in different layouts, or an
// adapter begins within a panel.
PG_API int32_t pg_gated_matmul(void* context, float* out, int64_t out_stride, const float* x, int64_t x_stride, const void* weight, int64_t n, int32_t activation, const double* adapters, int64_t num_adapters);

// --- what adapters add ---------------------------------------------------------------------------------------------------
// a [rank, inputs] and b [outputs, rank], f32, packed as the instruction set reads them, in bf16 where all numbers are; sources are not kept.
PG_API int32_t pg_low_rank_create(void* context, int64_t rank, int64_t inputs, int64_t outputs, const void* a, const void* b, uint64_t* out_low_rank);
// Returns the bytes held.
PG_API int64_t pg_low_rank_bytes(const void* low_rank);
PG_API int32_t pg_low_rank_free(void* context, void* low_rank);
// For each of `count` items: out[row + i, first_col ..] += scale * ((x[row + i] . a^T) . b^T), i < n. items: [count][5] a low rank, then row, n,
// first_col, scale (src/low-rank.h). No two items have a number of out in common. A row's bits do not depend on n or on other items.
PG_API int32_t pg_low_rank(void* context, float* out, int64_t out_stride, const float* x, int64_t x_stride, const double* items, int64_t count);

// --- the staged step ----------------------------------------------------------------------------------------------------
// The integers of a step, laid out as src/step.h says in a block that the caller writes. Ops take the step as one handle.

PG_API int32_t pg_step_create(void* context, uint64_t* out_step);
PG_API int32_t pg_step_free(void* step);
// The block, with room for this many int32; what it held is lost. Nothing may use the step until it is staged again.
PG_API int32_t pg_step_reserve(void* context, void* step, int64_t ints, uint64_t* out_address);
// Checks the first `ints` numbers of the block: the one check of a step. A step that fails it is empty.
PG_API int32_t pg_step_stage(void* context, void* step, int64_t ints);
// out[t] = scale * W[input_of[t]] for all tokens. An input outside the table is an error, nothing is written.
PG_API int32_t pg_embed(void* context, float* out, int64_t out_stride, const void* weight, const void* step, float scale);
// out[t] += W[positions[t]] for all tokens, likewise.
PG_API int32_t pg_add_positions(void* context, float* out, int64_t out_stride, const void* weight, const void* step);
// out[t] += W[type_of[t]] for all tokens, likewise.
PG_API int32_t pg_add_types(void* context, float* out, int64_t out_stride, const void* weight, const void* step);
// out[i] = x[logit_rows[first + i]] for i < n; out must not be x.
PG_API int32_t pg_gather_logit_rows(void* context, float* out, int64_t out_stride, const float* x, int64_t x_stride, const void* step, int64_t first, int64_t n, int64_t cols);

// --- rows of activations ------------------------------------------------------------------------------------------------
// n rows of `cols` numbers; an output may be the input of the same op unless said otherwise.

// Over each run of group_cols columns: out = x / sqrt(mean(x^2) + eps) * weight. weight has group_cols numbers for all runs, or cols.
PG_API int32_t pg_rms_norm(void* context, float* out, int64_t out_stride, const float* x, int64_t x_stride, const float* weight, int64_t weight_cols, float eps, int64_t n, int64_t cols, int64_t group_cols);
// residual += x; out = rms_norm(residual).
PG_API int32_t pg_add_rms_norm(void* context, float* out, int64_t out_stride, float* residual, int64_t residual_stride, const float* x, int64_t x_stride, const float* weight, float eps, int64_t n, int64_t cols);
// Likewise; bias has as many numbers as weight.
PG_API int32_t pg_layer_norm(void* context, float* out, int64_t out_stride, const float* x, int64_t x_stride, const float* weight, const float* bias, int64_t weight_cols, float eps, int64_t n, int64_t cols, int64_t group_cols);
// out = a + scale * b.
PG_API int32_t pg_add(void* context, float* out, int64_t out_stride, const float* a, int64_t a_stride, const float* b, int64_t b_stride, float scale, int64_t n, int64_t cols);
// x *= factor.
PG_API int32_t pg_scale(void* context, float* x, int64_t x_stride, float factor, int64_t n, int64_t cols);
// out = min(max(x, low), high).
PG_API int32_t pg_clamp(void* context, float* out, int64_t out_stride, const float* x, int64_t x_stride, float low, float high, int64_t n, int64_t cols);
// x[r] *= factors[r].
PG_API int32_t pg_scale_rows(void* context, float* x, int64_t x_stride, const float* factors, int64_t factor_stride, int64_t n, int64_t cols);
// x[t] *= 1 + beta * ln(1 + floor((positions[t] + shift) / period)), for all tokens of the step.
PG_API int32_t pg_scale_by_position(void* context, float* x, int64_t x_stride, const void* step, float beta, int32_t period, int32_t shift, int64_t cols);
// xIELU: x = x * (alpha_p * x + beta) above 0, alpha_n * (e^min(x, eps) - 1 - x) + beta * x below.
PG_API int32_t pg_xielu(void* context, float* x, int64_t x_stride, float alpha_p, float alpha_n, float beta, float eps, int64_t n, int64_t cols);
// x = cap * tanh(x / cap).
PG_API int32_t pg_softcap(void* context, float* x, int64_t x_stride, float cap, int64_t n, int64_t cols);
// kind: 0 silu, 1 gelu by tanh, 2 gelu by erf, 3 relu, 4 relu squared, 5 sigmoid, 6 identity. out = act(gate) * up.
PG_API int32_t pg_gated_activation(void* context, float* out, int64_t out_stride, const float* gate, int64_t gate_stride, const float* up, int64_t up_stride, int32_t kind, int64_t n, int64_t cols);
PG_API int32_t pg_activation(void* context, float* out, int64_t out_stride, const float* x, int64_t x_stride, int32_t kind, int64_t n, int64_t cols);
// out[r, h * out_head + out_offset + i] = x[r, h * in_head + in_offset + i] for i < width; out must not be x.
PG_API int32_t pg_copy_heads(void* context, float* out, int64_t out_stride, const float* x, int64_t x_stride, int64_t n, int64_t num_heads, int64_t width, int64_t out_head, int64_t out_offset, int64_t in_head, int64_t in_offset);
// step = softplus(x + bias) within [min, max]; decay = exp(rate * step). step may be x.
PG_API int32_t pg_decay_gates(void* context, float* decay, int64_t decay_stride, float* step, int64_t step_stride, const float* x, int64_t x_stride, const float* bias, const float* rate, float min, float max, int64_t n, int64_t cols);
// out[n, cols] dense, for the host.
PG_API int32_t pg_read_rows(float* out, const float* x, int64_t x_stride, int64_t n, int64_t cols);

// --- page pool, rotary, attention ---------------------------------------------------------------------------------------
// Layout in src/kv-pool.h. latent: values are the first value_dim numbers of the keys, stored once. dtype: 0 f32, 1 f16, 2 bf16, 3 i8 with one scale per slot and head.

// Returns the bytes of one page, or PG_E_ARGUMENT.
PG_API int64_t pg_kv_page_bytes(int32_t page_size, int32_t num_layers, int32_t num_kv_heads, int32_t key_dim, int32_t value_dim, int32_t latent, int32_t dtype);
PG_API int32_t pg_kv_pool_create(void* context, int32_t num_pages, int32_t page_size, int32_t num_layers, int32_t num_kv_heads, int32_t key_dim, int32_t value_dim, int32_t latent, int32_t dtype, uint64_t* out_pool);
PG_API int32_t pg_kv_pool_free(void* pool);
PG_API int32_t pg_copy_page(void* context, void* pool, int32_t from, int32_t to);
// out [count, page bytes] = the pages as they lie in the pool; and the opposite. No page is touched unless all are in the pool.
PG_API int32_t pg_read_pages(void* context, void* out, const void* pool, const int32_t* pages, int64_t count);
PG_API int32_t pg_write_pages(void* context, void* pool, const int32_t* pages, int64_t count, const void* bytes);
// cos, sin [T, half] = scale * cos, sin of positions[t] * inv_freq[i].
PG_API int32_t pg_rotary_table(void* context, float* cos, float* sin, const void* step, const float* inv_freq, int32_t half, float scale);
// Rotates 2 * half numbers from `offset` of every head, in place. interleaved: pairs are (0,1),(2,3).. instead of (i, i + half).
PG_API int32_t pg_rotary(void* context, float* x, int64_t x_stride, int64_t num_tokens, int64_t num_heads, int64_t head_dim, int64_t offset, const float* cos, const float* sin, int32_t half, int32_t interleaved);
// Rotates q in place and k on the way, and writes k, v to their slots of the group and layer. cos null: no rotation.
PG_API int32_t pg_rotary_append(void* context, float* q, int64_t q_stride, int64_t q_heads, const float* k, int64_t k_stride, const float* v, int64_t v_stride, const float* cos, const float* sin, int32_t half, int32_t interleaved, const void* step, int32_t group, const void* pool, int32_t layer);
// out [T, H*Dv] = attention of q [T, H*D] over the rows' pages of the group, by the step's plan of that index.
// softcap 0: off. sinks [H] or null.
PG_API int32_t pg_attention(void* context, float* out, int64_t out_stride, const float* q, int64_t q_stride, const void* step, int32_t group, int32_t plan, const void* pool, int32_t layer, int32_t num_heads, float scale, float softcap, const float* sinks);

// --- recurrent layers ---------------------------------------------------------------------------------------------------
// states: [num_slots, slot_floats] in memory of pg_alloc; an op's state is `offset` numbers into the slot of each row (state_of). A
// row that begins at position 0 starts from zeros. Stored is the state behind the row's first state_lens tokens. However a sequence is cut
// into rows of several steps, the bits are the same.

// out[t] = act(bias + sum over j of weight[j] * x[t - kernel + 1 + j]), each column by itself. weight [kernel, cols], bias [cols] or
// null. State: the last kernel - 1 inputs [kernel - 1, cols]. out must not be x.
PG_API int32_t pg_short_conv(void* context, float* out, int64_t out_stride, const float* x, int64_t x_stride, const float* weight, int64_t weight_stride, const float* bias, int32_t kernel, int64_t cols, int32_t activation, const void* step, float* states, int64_t num_slots, int64_t slot_floats, int64_t offset);
// Linear attention with decay; src/linear-attention.h has the maths. q, k [T, key_heads * key_dim], v, out [T, heads * value_dim],
// decay, rate [T, heads], skip [heads] or null. State [heads, key_dim, value_dim].
PG_API int32_t pg_linear_attention(void* context, float* out, int64_t out_stride, const float* q, int64_t q_stride, const float* k, int64_t k_stride, const float* v, int64_t v_stride, const float* decay, int64_t decay_stride, const float* rate, int64_t rate_stride, const float* skip, int32_t heads, int32_t key_heads, int32_t key_dim, int32_t value_dim, int32_t is_delta, const void* step, float* states, int64_t num_slots, int64_t slot_floats, int64_t offset);

// --- mixture of experts -------------------------------------------------------------------------------------------------

// The experts and router of one layer, for up to max_rows rows. gate_up, down: weight handles [num_experts]; biases have one row
// per expert, or are null. gate: an activation as in pg_activation, or 7 for gpt-oss's. score: 0 softmax, 1 softmax of the chosen
// top_k, 2 sigmoid. group_best: a group is as good as the sum of this many (1, 2) of its best. is_gated 0: gate_up is up alone, through the
// activation. scale_input: weights multiply what experts read, not what they give. Weights, biases and router_bias [num_experts] are borrowed until it is freed.
PG_API int32_t pg_experts_create(void* context, int32_t num_experts, const uint64_t* gate_up, const uint64_t* down, const float* gate_up_bias, int64_t gate_up_bias_stride, const float* down_bias, int64_t down_bias_stride, int64_t hidden, int64_t inner, int32_t gate, int32_t top_k, int32_t score, int32_t normalize, float scale, const float* router_bias, const float* expert_scale, int32_t num_groups, int32_t topk_group, int32_t group_best, int32_t is_gated, int32_t scale_input, int64_t max_rows, uint64_t* out_experts);
PG_API int32_t pg_experts_free(void* experts);
// out = sum over each row's experts, best first, of weight * expert(x).
PG_API int32_t pg_mixture_of_experts(void* context, float* out, int64_t out_stride, const float* x, int64_t x_stride, const float* router_logits, int64_t logits_stride, void* experts, int64_t n);

// --- sampling -----------------------------------------------------------------------------------------------------------

// One token for each of n draws (Draw of src/sample-row.h) by the rule of src/core/sample-row.ts: edits, then the choice.
// out_tokens [n]: -1 when every token is forbidden. out_logprobs [n]: of the token, from the logits as they were before any edit;
// out_top_ids, out_top_logprobs [n, max_top]: the most probable ones, best first. Both are written for draws with num_top >= 0.
// rows [rows_len]: how requests are sampled (Row); tokens that draws list go there first.
PG_API int32_t pg_sample(void* context, int32_t* out_tokens, float* out_logprobs, int32_t* out_top_ids, float* out_top_logprobs, int64_t max_top, const float* logits, int64_t stride, int64_t num_logit_rows, int64_t vocab, const void* draws, int64_t n, const int32_t* lists, int64_t num_lists, int32_t* rows, int64_t rows_len);

// --- measurement --------------------------------------------------------------------------------------------------------

// What this machine can do at best, on the context's threads, in operations or bytes per second; takes a fraction of a second.
// kind: 0 f32 multiply-adds (two operations each), 1 int8 multiply-adds (two each), 2 bytes read from memory.
PG_API int32_t pg_measure_peak(void* context, int32_t kind, double* out);

// One run of it, of some hundred microseconds; work: operations or bytes done. data [count]: what kind 2 reads, and kind 3 reads and writes back
// (both count); null otherwise.
PG_API int32_t pg_run_peak(void* context, int32_t kind, float* data, int64_t count, double* work);

#ifdef __cplusplus
}
#endif
#endif
