// Memory for packed weights: large aligned chunks, so that huge pages cover matrices that are smaller than one. A chunk goes
// back to the system when the last block in it is freed.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "huge-pages.h"
#include "memory.h"

namespace pg {

struct ArenaChunk {
  MemoryBlock mapping;
  uint8_t* data = nullptr;  // aligned to a huge page
  int64_t capacity = 0;
  int64_t used = 0;
  int64_t touched = 0;  // zero from here on; at least `used`
  int64_t joined = 0;  // handed over to become huge pages
  int64_t blocks = 0;
};

struct ArenaBlock {
  uint8_t* data = nullptr;
  ArenaChunk* chunk = nullptr;
};

class Arena {
 public:
  // Zeroed, 64-byte aligned. data is null when the system has no more; std::bad_alloc when not even a list entry fits.
  ArenaBlock allocate(int64_t bytes);
  void free(const ArenaBlock& block);
  // The block ends at `end` from now on. If none has come since, what is behind it is there for the next one or goes back to the system.
  void shrink(const ArenaBlock& block, const uint8_t* old_end, const uint8_t* end);

 private:
  void give_back_rest(ArenaChunk& chunk);
  std::vector<std::unique_ptr<ArenaChunk>> chunks_;
  HugePages huge_pages_;  // last: it stops before the chunks go
};

}  // namespace pg
