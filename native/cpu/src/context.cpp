// Context life, errors, plain memory: the parts of the interface without arithmetic.
#include "context.h"

#include <cstdio>
#include <new>

#include "isa.h"
#include "memory.h"

namespace pg {

int32_t fail(Context* context, int32_t status, const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::vsnprintf(context->error, sizeof context->error, format, args);
  va_end(args);
  return status;
}

}  // namespace pg

using namespace pg;

extern "C" {

int32_t pg_abi_version(void) { return PG_ABI_VERSION; }

int32_t pg_context_create(int32_t threads, int32_t isa, uint64_t* out_context) {
  if (out_context == nullptr || threads < 1 || threads > 1024) return PG_E_ARGUMENT;
  const Kernels* table = kernels_for(isa);
  if (table == nullptr) return PG_E_UNSUPPORTED;
  try {
    *out_context = reinterpret_cast<uint64_t>(new Context(threads, table));
  } catch (...) {  // the system refused a thread or memory
    return PG_E_MEMORY;
  }
  return PG_OK;
}

int32_t pg_context_free(void* handle) {
  delete as_context(handle);
  return PG_OK;
}

int32_t pg_last_error(const void* handle, char* out, int32_t capacity) {
  if (handle == nullptr || out == nullptr || capacity < 1) return PG_E_ARGUMENT;
  std::snprintf(out, static_cast<size_t>(capacity), "%s", static_cast<const Context*>(handle)->error);
  return PG_OK;
}

int32_t pg_pin_threads(void* handle) {
  Context* context = as_context(handle);
  if (context->pool.pin()) return PG_OK;
  return fail(context, PG_E_UNSUPPORTED, "the system does not hold %d threads to a processor each", context->pool.size());
}

int32_t pg_isa(const void* handle) { return static_cast<const Context*>(handle)->kernels->isa; }

int32_t pg_alloc(void* handle, int64_t bytes, uint64_t* out_address) {
  Context* context = as_context(handle);
  if (bytes < 0 || out_address == nullptr) return fail(context, PG_E_ARGUMENT, "a size must not be negative");
  void* block = allocate(bytes);
  if (block == nullptr) return fail(context, PG_E_MEMORY, "the system refused %lld bytes", static_cast<long long>(bytes));
  *out_address = reinterpret_cast<uint64_t>(block);
  return PG_OK;
}

int32_t pg_free(void*, void* address, int64_t bytes) {
  release(address, bytes);
  return PG_OK;
}

}  // extern "C"
