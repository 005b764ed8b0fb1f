#include "kv-pool.h"

#include <cstring>
#include <memory>

#include "context.h"
#include "memory.h"

namespace pg {

bool lay_out(KvPool& pool) {
  const int32_t dtype = static_cast<int32_t>(pool.dtype);
  if (dtype < 0 || dtype > 4 || pool.page_size < 1 || pool.num_layers < 1 || pool.num_kv_heads < 1) return false;
  if (pool.key_dim < 1 || pool.value_dim < 1 || pool.key_dim > kMaxHeadDim || pool.value_dim > kMaxHeadDim) return false;
  if (pool.latent && pool.value_dim > pool.key_dim) return false;
  // Bounded so that no product below overflows.
  if (pool.page_size > (1 << 16) || pool.num_layers > (1 << 16) || pool.num_kv_heads > (1 << 16)) return false;
  constexpr int32_t kBytes[] = {4, 2, 2, 1, 1};
  pool.element_bytes = kBytes[dtype];
  const int64_t elements = pool.num_layers * pool.layer_elements() * pool.element_bytes;
  pool.scales_offset = (elements + 63) / 64 * 64;
  const int64_t scales = int64_t{pool.num_layers} * (pool.latent ? 1 : 2) * pool.num_kv_heads * pool.page_size * int64_t{sizeof(float)};
  pool.page_bytes = pool.has_scales() ? (pool.scales_offset + scales + 63) / 64 * 64 : pool.scales_offset;
  return true;
}

}  // namespace pg

using namespace pg;

namespace {

struct PoolOwner {
  KvPool view;
  MemoryBlock memory;
};

KvPool shape_of(int32_t page_size, int32_t num_layers, int32_t num_kv_heads, int32_t key_dim, int32_t value_dim,
                int32_t latent, int32_t dtype) {
  KvPool pool;
  pool.page_size = page_size;
  pool.num_layers = num_layers;
  pool.num_kv_heads = num_kv_heads;
  pool.key_dim = key_dim;
  pool.value_dim = value_dim;
  pool.latent = latent != 0;
  pool.dtype = static_cast<KvDtype>(dtype);
  return pool;
}

int32_t check_pages(void* handle, const KvPool& pool, const int32_t* pages, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (pages[i] < 0 || pages[i] >= pool.num_pages)
      return fail(as_context(handle), PG_E_ARGUMENT, "page %d of %d pages", pages[i], pool.num_pages);
  return PG_OK;
}

}  // namespace

extern "C" {

int64_t pg_kv_page_bytes(int32_t page_size, int32_t num_layers, int32_t num_kv_heads, int32_t key_dim, int32_t value_dim,
                         int32_t latent, int32_t dtype) {
  KvPool pool = shape_of(page_size, num_layers, num_kv_heads, key_dim, value_dim, latent, dtype);
  return lay_out(pool) ? pool.page_bytes : PG_E_ARGUMENT;
}

int32_t pg_kv_pool_create(void* handle, int32_t num_pages, int32_t page_size, int32_t num_layers, int32_t num_kv_heads,
                          int32_t key_dim, int32_t value_dim, int32_t latent, int32_t dtype, uint64_t* out_pool) {
  Context* context = as_context(handle);
  KvPool shape = shape_of(page_size, num_layers, num_kv_heads, key_dim, value_dim, latent, dtype);
  // Slots are int32 everywhere.
  if (out_pool == nullptr || num_pages < 1 || !lay_out(shape) || int64_t{num_pages} * page_size > INT32_MAX)
    return fail(context, PG_E_ARGUMENT, "no pool of %d pages x %d slots x %d layers x %d heads x %d/%d", num_pages, page_size,
                num_layers, num_kv_heads, key_dim, value_dim);
  constexpr int64_t kSlack = 64;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.page_bytes, int64_t{num_pages}, &bytes) || bytes > INT64_MAX - kSlack)
    return fail(context, PG_E_MEMORY, "a pool of %d pages has no size", num_pages);
  return guarded(context, "pool", [&]() -> int32_t {
    auto pool = std::make_unique<PoolOwner>();
    pool->memory = allocate_block(bytes + kSlack);
    if (pool->memory == nullptr)
      return fail(context, PG_E_MEMORY, "the system refused %lld bytes", static_cast<long long>(bytes + kSlack));
    pool->view = shape;
    pool->view.num_pages = num_pages;
    pool->view.base = static_cast<uint8_t*>(pool->memory.get());
    *out_pool = reinterpret_cast<uint64_t>(&pool.release()->view);
    return PG_OK;
  });
}

int32_t pg_kv_pool_free(void* pool) {
  // The view is the owner's first member.
  delete static_cast<PoolOwner*>(pool);
  return PG_OK;
}

int32_t pg_copy_page(void* handle, void* handle_of_pool, int32_t from, int32_t to) {
  const KvPool& pool = *as_pool(handle_of_pool);
  if (from < 0 || to < 0 || from >= pool.num_pages || to >= pool.num_pages)
    return fail(as_context(handle), PG_E_ARGUMENT, "page %d to %d of %d pages", from, to, pool.num_pages);
  if (from != to)
    std::memcpy(pool.base + to * pool.page_bytes, pool.base + from * pool.page_bytes, static_cast<size_t>(pool.page_bytes));
  return PG_OK;
}

int32_t pg_read_pages(void* handle, void* out, const void* handle_of_pool, const int32_t* pages, int64_t count) {
  const KvPool& pool = *as_pool(handle_of_pool);
  if (const int32_t status = check_pages(handle, pool, pages, count); status != PG_OK) return status;
  const auto size = static_cast<size_t>(pool.page_bytes);
  for (int64_t i = 0; i < count; i++)
    std::memcpy(static_cast<uint8_t*>(out) + i * pool.page_bytes, pool.base + pages[i] * pool.page_bytes, size);
  return PG_OK;
}

int32_t pg_write_pages(void* handle, void* handle_of_pool, const int32_t* pages, int64_t count, const void* bytes) {
  const KvPool& pool = *as_pool(handle_of_pool);
  if (const int32_t status = check_pages(handle, pool, pages, count); status != PG_OK) return status;
  const auto size = static_cast<size_t>(pool.page_bytes);
  for (int64_t i = 0; i < count; i++)
    std::memcpy(pool.base + pages[i] * pool.page_bytes, static_cast<const uint8_t*>(bytes) + i * pool.page_bytes, size);
  return PG_OK;
}

}  // extern "C"
