// The page pool: [page, layer, K|V, kvHead, slotInPage, dim], a page one contiguous block of page_bytes. A latent pool has no V: a
// value is the first value_dim numbers of its key.
//
// i8 and fp8 pages carry one f32 scale per (layer, K|V, kvHead, slot) behind their elements: value = element * scale. An fp8 scale is a
// power of two, so that what is read is a number of 4 significant bits, which f16 and bf16 hold too. Rows may be read
// up to 64 bytes past their end (vector loads of odd head dims), so the block has that much slack behind the last page.
#pragma once
#include <cstdint>

// Kernel files are compiled per instruction set and must not leave a shared copy of these behind.
#define PG_MEMBER inline __attribute__((always_inline))

namespace pg {

// The largest head dim of a key or value: bounds the stack copies of one head.
constexpr int32_t kMaxHeadDim = 1024;

enum class KvDtype : int32_t { f32 = 0, f16 = 1, bf16 = 2, i8 = 3, fp8 = 4 };

// A view: PoolOwner of kv-pool.cpp holds the memory.
struct KvPool {
  uint8_t* base = nullptr;
  int32_t num_pages = 0;
  int32_t page_size = 0;
  int32_t num_layers = 0;
  int32_t num_kv_heads = 0;
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  bool latent = false;
  KvDtype dtype = KvDtype::f32;
  int32_t element_bytes = 4;
  int64_t scales_offset = 0;  // bytes from the page's start
  int64_t page_bytes = 0;

  // First key of a head in a page; slots are key_dim elements apart.
  PG_MEMBER uint8_t* keys(int64_t page, int64_t layer, int64_t head) const {
    return base + page * page_bytes + (layer_elements() * layer + head * page_size * key_dim) * element_bytes;
  }
  // First value of a head in a page; slots are value_stride() elements apart.
  PG_MEMBER uint8_t* values(int64_t page, int64_t layer, int64_t head) const {
    if (latent) return keys(page, layer, head);
    const int64_t all_keys = int64_t{num_kv_heads} * page_size * key_dim;
    return base + page * page_bytes + (layer_elements() * layer + all_keys + head * page_size * value_dim) * element_bytes;
  }
  PG_MEMBER bool has_scales() const { return dtype == KvDtype::i8 || dtype == KvDtype::fp8; }
  // Scales of a head's slots, where there are any. is_value: 0 K, 1 V.
  PG_MEMBER float* scales(int64_t page, int64_t layer, int64_t is_value, int64_t head) const {
    const int64_t index = latent ? (layer * num_kv_heads + head) * page_size
                                 : ((layer * 2 + is_value) * num_kv_heads + head) * page_size;
    return reinterpret_cast<float*>(base + page * page_bytes + scales_offset) + index;
  }
  PG_MEMBER int64_t value_stride() const { return latent ? key_dim : value_dim; }
  PG_MEMBER int64_t layer_elements() const {
    return int64_t{num_kv_heads} * page_size * (latent ? int64_t{key_dim} : int64_t{key_dim} + value_dim);
  }
};

// Fills element_bytes, scales_offset and page_bytes from the shape; false when there can be no such pool.
bool lay_out(KvPool& pool);

inline const KvPool* as_pool(const void* handle) { return static_cast<const KvPool*>(handle); }

}  // namespace pg
