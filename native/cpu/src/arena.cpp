#include "arena.h"

#include <algorithm>
#include <new>

#include "memory.h"

namespace pg {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kChunk = int64_t{64} << 20;
constexpr int64_t kLine = 64;

int64_t rounded(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

Arena::~Arena() {
  for (ArenaChunk* chunk : chunks_) {
    release(chunk->mapping, chunk->mapped_bytes);
    delete chunk;
  }
}

ArenaBlock Arena::allocate(int64_t bytes) {
  const int64_t needed = rounded(bytes, kLine);
  // The newest chunk is the one with room, if any is.
  ArenaChunk* chunk = chunks_.empty() ? nullptr : chunks_.back();
  if (chunk == nullptr || chunk->used + needed > chunk->capacity) {
    chunk = new (std::nothrow) ArenaChunk;
    if (chunk == nullptr) return {};
    chunk->capacity = std::max(kChunk, rounded(needed, kHugePage));
    chunk->mapped_bytes = chunk->capacity + kHugePage;
    chunk->mapping = pg::allocate(chunk->mapped_bytes);
    if (chunk->mapping == nullptr) {
      delete chunk;
      return {};
    }
    chunk->data = reinterpret_cast<uint8_t*>(rounded(reinterpret_cast<int64_t>(chunk->mapping), kHugePage));
    chunks_.push_back(chunk);
  }
  const ArenaBlock block = {chunk->data + chunk->used, chunk};
  chunk->used += needed;
  chunk->blocks++;
  return block;
}

void Arena::free(const ArenaBlock& block) {
  ArenaChunk* chunk = block.chunk;
  if (chunk == nullptr || --chunk->blocks > 0) return;
  chunks_.erase(std::find(chunks_.begin(), chunks_.end(), chunk));
  release(chunk->mapping, chunk->mapped_bytes);
  delete chunk;
}

}  // namespace pg
