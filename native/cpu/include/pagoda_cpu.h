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
#define PG_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

#define PG_ABI_VERSION 1

#define PG_OK 0
#define PG_E_ARGUMENT -1
#define PG_E_MEMORY -2
#define PG_E_FILE -3
#define PG_E_UNSUPPORTED -4

// --- context ------------------------------------------------------------------------------------------------------------

// Returns PG_ABI_VERSION; checked at load before anything else is called.
PG_API int32_t pg_abi_version(void);
// isa: 0 best of this processor, 1 portable, 2 avx2, 3 avx512. PG_E_UNSUPPORTED when the processor lacks it.
// threads: workers of the pool, the caller included.
PG_API int32_t pg_context_create(int32_t threads, int32_t isa, uint64_t* out_context);
PG_API int32_t pg_context_free(void* context);
// Writes the text of the last failure (or an empty string), zero-terminated, cut to `capacity` bytes.
PG_API int32_t pg_last_error(const void* context, char* out, int32_t capacity);
// Returns the instruction set in use: 1 portable, 2 avx2, 3 avx512.
PG_API int32_t pg_isa(const void* context);

// --- memory -------------------------------------------------------------------------------------------------------------

// Zeroed, 64-byte aligned; large blocks are anonymous mappings advised to use huge pages.
PG_API int32_t pg_alloc(void* context, int64_t bytes, uint64_t* out_address);
// bytes: as given to pg_alloc.
PG_API int32_t pg_free(void* context, void* address, int64_t bytes);
PG_API int32_t pg_copy(void* out, const void* from, int64_t bytes);
// Makes room for the packed activations of matmuls of up to `rows` x `cols`, so that no matmul allocates.
PG_API int32_t pg_reserve_activations(void* context, int64_t rows, int64_t cols);

// --- weights ------------------------------------------------------------------------------------------------------------
// A weight is a matrix [rows = outputs, cols = inputs] of one or more segments stacked along the rows, each packed into panels
// of 16 rows in its own encoding (src/encoding.h).

PG_API int32_t pg_weight_create(void* context, int64_t cols, uint64_t* out_weight);
// Appends `rows` rows read from `source` (dtype: PG_DTYPE of src/dtype.h, rows row-major, or [cols, rows] when transposed),
// packed as `encoding` (-1: the dtype's own). Source bytes are not kept.
PG_API int32_t pg_weight_append(void* context, void* weight, int32_t dtype, int32_t encoding, int64_t rows, int32_t transposed, const void* source, int64_t source_bytes);
// The same, from a file mapped for the duration of the call.
PG_API int32_t pg_weight_append_file(void* context, void* weight, int32_t dtype, int32_t encoding, int64_t rows, int32_t transposed, const char* path, int64_t offset, int64_t source_bytes);
// Returns the bytes held by the packed panels.
PG_API int64_t pg_weight_bytes(const void* weight);
PG_API int32_t pg_weight_free(void* context, void* weight);

// out[n, rows] = scale * (x[n, cols] . W^T + bias[rows]); accumulate != 0 adds to out instead. bias may be null.
PG_API int32_t pg_matmul(void* context, float* out, int64_t out_stride, const float* x, int64_t x_stride, const void* weight, int64_t n, const float* bias, float scale, int32_t accumulate);
// out[t] = scale * W[ids[t]] for t < count; accumulate != 0 adds. Ids outside the table are an error, nothing is written.
PG_API int32_t pg_embed(void* context, float* out, int64_t out_stride, const void* weight, const int32_t* ids, int64_t count, float scale, int32_t accumulate);

#ifdef __cplusplus
}
#endif
#endif
