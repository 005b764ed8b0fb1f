#include "arena.h"

#include <algorithm>
#include <cstring>

namespace pg {
namespace {

constexpr int64_t kChunk = int64_t{64} << 20;
constexpr int64_t kLine = 64;

int64_t rounded(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

ArenaBlock Arena::allocate(int64_t bytes) {
  const int64_t needed = rounded(bytes, kLine);
  // The newest chunk is the one with room, if any is.
  if (chunks_.empty() || chunks_.back()->used + needed > chunks_.back()->capacity) {
    if (!chunks_.empty()) give_back_rest(*chunks_.back());
    auto fresh = std::make_unique<ArenaChunk>();
    fresh->capacity = std::max(kChunk, rounded(needed, kHugePage));
    fresh->mapping = allocate_block(fresh->capacity + kHugePage, HugePages::can_join() ? Pages::kSmall : Pages::kHuge);
    if (fresh->mapping == nullptr) return {};
    fresh->data = reinterpret_cast<uint8_t*>(rounded(reinterpret_cast<int64_t>(fresh->mapping.get()), kHugePage));
    chunks_.push_back(std::move(fresh));
  }
  ArenaChunk* chunk = chunks_.back().get();
  const ArenaBlock block = {chunk->data + chunk->used, chunk};
  if (chunk->touched > chunk->used) std::memset(block.data, 0, static_cast<size_t>(std::min(needed, chunk->touched - chunk->used)));
  chunk->used += needed;
  chunk->touched = std::max(chunk->touched, chunk->used);
  chunk->blocks++;
  const int64_t whole = chunk->used / kHugePage * kHugePage;
  if (whole > chunk->joined) {
    huge_pages_.add(chunk->data + chunk->joined, whole - chunk->joined);
    chunk->joined = whole;
  }
  return block;
}

void Arena::shrink(const ArenaBlock& block, const uint8_t* old_end, const uint8_t* end) {
  ArenaChunk& chunk = *block.chunk;
  if (rounded(old_end - chunk.data, kLine) == chunk.used) chunk.used = rounded(end - chunk.data, kLine);
}

// Of a chunk that gets no more blocks, unless those of all later ones are freed.
void Arena::give_back_rest(ArenaChunk& chunk) {
  const int64_t from = rounded(chunk.used, kHugePage);
  if (chunk.touched <= from) return;
  huge_pages_.remove(chunk.data + from, chunk.capacity - from);
  chunk.joined = std::min(chunk.joined, from);
  if (discard(chunk.data + from, rounded(chunk.touched, kHugePage) - from)) chunk.touched = from;
}

void Arena::free(const ArenaBlock& block) {
  if (block.chunk == nullptr || --block.chunk->blocks > 0) return;
  const auto is_it = [&](const std::unique_ptr<ArenaChunk>& chunk) { return chunk.get() == block.chunk; };
  huge_pages_.remove(block.chunk->data, block.chunk->capacity);
  chunks_.erase(std::find_if(chunks_.begin(), chunks_.end(), is_it));
}

}  // namespace pg
