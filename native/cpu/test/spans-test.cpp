// q8_0 and q4_0 that are only multiplied give the bits they gave before (amx/span-bytes.h, span-nibbles.h), with every number of blocks that
// the last span and the last four of its blocks may have, and with every width of a tile.
#include <cstring>

#include "check.h"

TEST(blocks_that_are_only_multiplied) {
  // Its own: others count on how much room theirs has.
  uint64_t own = 0;
  CHECK_OK(pg_context_create(3, pg_isa(context), &own));
  context = reinterpret_cast<void*>(own);
  constexpr int64_t kRows = 75, kMostTokens = 70, kMostBlocks = 20;
  CHECK_OK(pg_reserve_activations(context, kMostTokens, kMostBlocks * 32));
  const auto check = [&](int32_t dtype, int64_t block_bytes) {
    for (int64_t blocks = 1; blocks <= kMostBlocks; blocks++) {
      const int64_t cols = blocks * 32;
      Random random(static_cast<uint32_t>(blocks));
      std::vector<uint8_t> source(static_cast<size_t>(kRows * blocks * block_bytes));
      for (uint8_t& byte : source) byte = static_cast<uint8_t>(random.next() >> 13);
      for (size_t at = 0; at < source.size(); at += static_cast<size_t>(block_bytes)) {  // of either sign, over six powers of two, some of them zero
        const uint32_t factor = random.next() % 30 == 0 ? 0 : (random.next() & 0x83ff) | (0x2000 + (random.next() % 6 << 10));
        source[at] = static_cast<uint8_t>(factor);
        source[at + 1] = static_cast<uint8_t>(factor >> 8);
      }
      uint64_t weight = 0;
      CHECK_OK(pg_weight_create(context, cols, &weight));
      void* handle = reinterpret_cast<void*>(weight);
      CHECK_OK(pg_weight_append(context, handle, dtype, -1, kRows, 0, source.data(), static_cast<int64_t>(source.size())));
      const std::vector<float> x = random.numbers(kMostTokens * cols), bias = random.numbers(kRows);
      const auto multiply = [&](int64_t n) {
        std::vector<float> out(static_cast<size_t>(n * kRows));
        CHECK_OK(pg_matmul(context, out.data(), kRows, x.data(), cols, handle, n, bias.data(), 0.5f, 0));
        return out;
      };
      const int64_t counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 24, 25, 32, 33, 40, 41, kMostTokens};
      std::vector<std::vector<float>> expected;
      for (const int64_t n : counts) expected.push_back(multiply(n));
      const int64_t bytes = pg_weight_bytes(handle);
      CHECK_OK(pg_weight_only_multiplied(context, handle));
      if (blocks % 4 == 0) CHECK((pg_weight_bytes(handle) < bytes) == has_tiles(context));  // odd numbers of few blocks may be no smaller
      size_t at = 0;
      for (const int64_t n : counts) {
        const std::vector<float> out = multiply(n), &before = expected[at++];
        CHECK(std::memcmp(out.data(), before.data(), out.size() * sizeof(float)) == 0);
      }
      CHECK_OK(pg_weight_free(context, handle));
    }
  };
  check(5, 34);  // q8_0
  check(6, 18);  // q4_0
  CHECK_OK(pg_context_free(context));
}
