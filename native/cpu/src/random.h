// Random numbers by counter: Philox 4x32 with ten rounds, as src/core/random.ts has it. No state.
#pragma once
#include <cstdint>

namespace pg {

// 53 random bits as a number in [0, 1), from two words.
inline double fraction_of(uint32_t a, uint32_t b) { return ((a >> 5) * 67108864.0 + (b >> 6)) / 9007199254740992.0; }

// The number that the token at `position` of sample `sample` is drawn by. Sample -1: the seed's words are the random ones.
inline double uniform_of(uint32_t seed_low, uint32_t seed_high, int32_t sample, int32_t position) {
  if (sample < 0) return fraction_of(seed_low, seed_high);
  uint32_t c[4] = {static_cast<uint32_t>(position), static_cast<uint32_t>(sample), 0, 0};
  for (int round = 0; round < 10; round++) {
    const uint64_t a = uint64_t{0xd2511f53u} * c[0], b = uint64_t{0xcd9e8d57u} * c[2];
    const uint32_t next0 = static_cast<uint32_t>(b >> 32) ^ c[1] ^ seed_low, next2 = static_cast<uint32_t>(a >> 32) ^ c[3] ^ seed_high;
    c[0] = next0;
    c[1] = static_cast<uint32_t>(b);
    c[2] = next2;
    c[3] = static_cast<uint32_t>(a);
    seed_low += 0x9e3779b9u;
    seed_high += 0xbb67ae85u;
  }
  return fraction_of(c[0], c[1]);
}

}  // namespace pg
