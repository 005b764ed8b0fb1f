// Memory of POSIX systems.
#if !defined(_WIN32) && !defined(__wasm__)
#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace pg {
namespace {

constexpr int64_t kMapFrom = int64_t{1} << 20;  // below it, the heap does as well

}  // namespace

void* allocate(int64_t bytes, [[maybe_unused]] Pages pages) {
  if (bytes < kMapFrom) {
    void* block = nullptr;
    if (posix_memalign(&block, 64, static_cast<size_t>(bytes < 64 ? 64 : bytes)) != 0) return nullptr;
    std::memset(block, 0, static_cast<size_t>(bytes));
    return block;
  }
  // NORESERVE: pools are sized generously and touched as they fill.
  void* block = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED) return nullptr;
#ifdef MADV_HUGEPAGE
  if (pages == Pages::kHuge && bytes >= kHugePage) madvise(block, static_cast<size_t>(bytes), MADV_HUGEPAGE);
#endif
  return block;
}

void release(void* address, int64_t bytes) {
  if (address == nullptr) return;
  if (bytes < kMapFrom)
    std::free(address);
  else
    munmap(address, static_cast<size_t>(bytes));
}

bool discard([[maybe_unused]] void* address, [[maybe_unused]] int64_t bytes) {
#ifdef __linux__  // elsewhere the same call promises no zeros
  return madvise(address, static_cast<size_t>(bytes), MADV_DONTNEED) == 0;
#else
  return false;
#endif
}

FileMap::FileMap(const char* path, int64_t offset, int64_t bytes, bool sequential) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    error_ = "the file cannot be opened";
    return;
  }
  struct stat info;
  if (fstat(file, &info) != 0 || offset < 0 || bytes <= 0 || offset > info.st_size || bytes > info.st_size - offset) {
    error_ = "the range lies outside the file";
  } else {
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t lead = offset % page;
    mapped_ = static_cast<size_t>(bytes + lead);
    base_ = mmap(nullptr, mapped_, PROT_READ, MAP_PRIVATE, file, offset - lead);
    if (base_ == MAP_FAILED) {
      base_ = nullptr;
      error_ = "the file cannot be mapped";
    } else {
      madvise(base_, mapped_, sequential ? MADV_SEQUENTIAL : MADV_RANDOM);
      data_ = static_cast<const uint8_t*>(base_) + lead;
    }
  }
  close(file);
}

FileMap::~FileMap() {
  if (base_ != nullptr) munmap(base_, mapped_);
}

}  // namespace pg
#endif
