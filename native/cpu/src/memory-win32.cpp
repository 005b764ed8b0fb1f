// Memory of Windows. Pages are committed at once: unlike on other systems, a pool counts as used before it is touched.
#ifdef _WIN32
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>

#include <cstring>
#include <malloc.h>
#include <vector>

#include "memory.h"

namespace pg {
namespace {

constexpr int64_t kMapFrom = int64_t{1} << 20;  // below it, the heap does as well

}  // namespace

void* allocate(int64_t bytes, Pages) {
  if (bytes >= kMapFrom)
    return VirtualAlloc(nullptr, static_cast<SIZE_T>(bytes), MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  void* block = _aligned_malloc(static_cast<size_t>(bytes < 64 ? 64 : bytes), 64);
  if (block != nullptr) std::memset(block, 0, static_cast<size_t>(bytes));
  return block;
}

void release(void* address, int64_t bytes) {
  if (address == nullptr) return;
  if (bytes < kMapFrom)
    _aligned_free(address);
  else
    VirtualFree(address, 0, MEM_RELEASE);
}

bool discard(void*, int64_t) { return false; }

FileMap::FileMap(const char* path, int64_t offset, int64_t bytes, bool) {
  const int length = MultiByteToWideChar(CP_UTF8, 0, path, -1, nullptr, 0);
  std::vector<wchar_t> wide(static_cast<size_t>(length > 0 ? length : 1));
  MultiByteToWideChar(CP_UTF8, 0, path, -1, wide.data(), length);
  const HANDLE file = CreateFileW(wide.data(), GENERIC_READ, FILE_SHARE_READ, nullptr, OPEN_EXISTING, 0, nullptr);
  if (file == INVALID_HANDLE_VALUE) {
    error_ = "the file cannot be opened";
    return;
  }
  LARGE_INTEGER size;
  if (!GetFileSizeEx(file, &size) || offset < 0 || bytes <= 0 || offset > size.QuadPart || bytes > size.QuadPart - offset) {
    error_ = "the range lies outside the file";
  } else {
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    const int64_t lead = offset % system.dwAllocationGranularity, from = offset - lead;
    mapped_ = static_cast<size_t>(bytes + lead);
    const HANDLE mapping = CreateFileMappingW(file, nullptr, PAGE_READONLY, 0, 0, nullptr);
    if (mapping != nullptr) {
      base_ = MapViewOfFile(mapping, FILE_MAP_READ, static_cast<DWORD>(from >> 32), static_cast<DWORD>(from), mapped_);
      CloseHandle(mapping);  // the view keeps it
    }
    if (base_ == nullptr)
      error_ = "the file cannot be mapped";
    else
      data_ = static_cast<const uint8_t*>(base_) + lead;
  }
  CloseHandle(file);
}

FileMap::~FileMap() {
  if (base_ != nullptr) UnmapViewOfFile(base_);
}

}  // namespace pg
#endif
