// Memory of WebAssembly: large blocks are whole pages grown at the end of the one memory. It cannot shrink, so freed ones are kept, and
// joined with their neighbours, for the next. There are no files: the host passes the bytes of weights.
#ifdef __wasm__
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "memory.h"
#include "threads.h"

namespace pg {
namespace {

constexpr int64_t kPage = 65536;
constexpr int64_t kMapFrom = int64_t{1} << 20;  // below it, the heap does as well
constexpr int64_t kLimit = int64_t{1} << 32;

struct Free {
  int64_t begin, end;
};

Mutex mutex;
// By address, never adjacent. Reserving asks the heap for memory before we grow any: the heap takes as its own all that there is
// when it is first asked.
std::vector<Free>& free_blocks() {
  static std::vector<Free> blocks;
  if (blocks.capacity() == 0) blocks.reserve(64);
  return blocks;
}

int64_t whole_pages(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

void* allocate(int64_t bytes, Pages) {
  if (bytes < kMapFrom) {
    void* block = nullptr;
    if (posix_memalign(&block, 64, static_cast<size_t>(bytes < 64 ? 64 : bytes)) != 0) return nullptr;
    std::memset(block, 0, static_cast<size_t>(bytes));
    return block;
  }
  if (bytes >= kLimit) return nullptr;
  const int64_t size = whole_pages(bytes);
  const Lock lock(mutex);
  std::vector<Free>& blocks = free_blocks();
  for (size_t i = 0; i < blocks.size(); i++) {
    if (blocks[i].end - blocks[i].begin < size) continue;
    void* block = reinterpret_cast<void*>(blocks[i].begin);
    blocks[i].begin += size;
    if (blocks[i].begin == blocks[i].end) blocks.erase(blocks.begin() + static_cast<int32_t>(i));
    std::memset(block, 0, static_cast<size_t>(bytes));
    return block;
  }
  const size_t page = __builtin_wasm_memory_grow(0, static_cast<size_t>(size / kPage));
  return page == SIZE_MAX ? nullptr : reinterpret_cast<void*>(static_cast<int64_t>(page) * kPage);
}

void release(void* address, int64_t bytes) {
  if (address == nullptr) return;
  if (bytes < kMapFrom) return std::free(address);
  const Lock lock(mutex);
  std::vector<Free>& blocks = free_blocks();
  const int64_t begin = static_cast<int64_t>(reinterpret_cast<size_t>(address)), end = begin + whole_pages(bytes);
  auto after = std::find_if(blocks.begin(), blocks.end(), [&](const Free& block) { return block.begin >= end; });
  const bool joins_after = after != blocks.end() && after->begin == end;
  const bool joins_before = after != blocks.begin() && (after - 1)->end == begin;
  if (joins_before && joins_after) {
    (after - 1)->end = after->end;
    blocks.erase(after);
  } else if (joins_before) {
    (after - 1)->end = end;
  } else if (joins_after) {
    after->begin = begin;
  } else {
    blocks.insert(after, Free{begin, end});
  }
}

bool discard(void*, int64_t) { return false; }

FileMap::FileMap(const char*, int64_t, int64_t, bool) : error_("there are no files here") {}
FileMap::~FileMap() {}

}  // namespace pg
#endif
