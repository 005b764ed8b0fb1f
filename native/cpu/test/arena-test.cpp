// Blocks are zero, whatever was there before; what a block no longer needs is the next one's, or the system's.
#include <cstring>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "../src/arena.h"
#include "check.h"

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

bool is_zero(const uint8_t* data, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i++)
    if (data[i] != 0) return false;
  return true;
}

#ifdef __linux__
bool is_present(uint8_t* data) {
  unsigned char page = 0;
  return mincore(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(data) & ~uintptr_t{4095}), 4096, &page) == 0 && (page & 1) != 0;
}
#endif

}  // namespace

TEST(blocks_that_shrink) {
  pg::Arena arena;
  const pg::ArenaBlock first = arena.allocate(8 * kMiB);
  CHECK(first.data != nullptr && is_zero(first.data, 8 * kMiB));
  std::memset(first.data, 1, 8 * kMiB);
  // Not a multiple of a line: the next one begins with a line of its own.
  arena.shrink(first, first.data + 8 * kMiB, first.data + 1000);
  const pg::ArenaBlock second = arena.allocate(20 * kMiB);
  CHECK(second.data == first.data + 1024 && is_zero(second.data, 20 * kMiB));
  std::memset(second.data, 2, 20 * kMiB);
  CHECK(first.data[0] == 1 && first.data[999] == 1);
  // No longer the last: nobody gets what is left.
  arena.shrink(first, first.data + 1000, first.data + 64);
  const pg::ArenaBlock third = arena.allocate(kMiB);
  CHECK(third.data == second.data + 20 * kMiB);
  std::memset(third.data, 3, kMiB);

  // What does not fit begins a chunk of its own, and the rest of the one before goes back.
  const pg::ArenaBlock large = arena.allocate(30 * kMiB);
  std::memset(large.data, 4, 30 * kMiB);
  arena.shrink(large, large.data + 30 * kMiB, large.data + kMiB);
  const pg::ArenaBlock other = arena.allocate(60 * kMiB);
  CHECK(other.chunk != large.chunk);
#ifdef __linux__
  CHECK(is_present(large.data) && !is_present(large.data + 20 * kMiB));
#endif
  CHECK(large.data[kMiB - 1] == 4 && third.data[0] == 3);
  // Freed, it leaves the one before as the newest: its rest is zero.
  arena.free(other);
  const pg::ArenaBlock again = arena.allocate(25 * kMiB);
  CHECK(again.chunk == large.chunk && again.data == large.data + kMiB && is_zero(again.data, 25 * kMiB));
  for (const pg::ArenaBlock& block : {first, second, third, large, again}) arena.free(block);
}
