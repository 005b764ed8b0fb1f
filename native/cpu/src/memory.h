// Native memory: anonymous mappings for what is large (huge pages advised), read-only file mappings for packing from disk.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace pg {

constexpr int64_t kHugePage = int64_t{2} << 20;
enum class Pages { kSmall, kHuge };

// Zeroed and at least 64-byte aligned; null when the system has no more. Huge pages are advised where they fit.
void* allocate(int64_t bytes, Pages pages = Pages::kHuge);
void release(void* address, int64_t bytes);
// Whole pages of what allocate() gave are not needed for now. True: the system has their memory, and they are zero again; else they are as they were.
bool discard(void* address, int64_t bytes);

// What allocate() gave, released by its owner.
struct ReleaseBlock {
  int64_t bytes = 0;
  void operator()(void* address) const { release(address, bytes); }
};
using MemoryBlock = std::unique_ptr<void, ReleaseBlock>;
inline MemoryBlock allocate_block(int64_t bytes, Pages pages = Pages::kHuge) {
  return MemoryBlock(allocate(bytes, pages), ReleaseBlock{bytes});
}

// A byte range of a file, mapped read-only; unmapped when it goes out of scope.
class FileMap {
 public:
  // ok() tells; `error` says why not. The range must lie inside the file. sequential: it is read once, from front to back.
  FileMap(const char* path, int64_t offset, int64_t bytes, bool sequential = true);
  ~FileMap();
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;
  bool ok() const { return data_ != nullptr; }
  const uint8_t* data() const { return data_; }
  const char* error() const { return error_; }

 private:
  [[maybe_unused]] void* base_ = nullptr;
  [[maybe_unused]] size_t mapped_ = 0;
  const uint8_t* data_ = nullptr;
  const char* error_ = "";
};

}  // namespace pg
