// Weights on their way to few rows: asked for a while before their use, into L2, and soon before again, into L1. What a span has besides its
// codes is read at its beginning.
#pragma once
#include "../kernels/simd.h"

namespace pg {
namespace PG_NS {

constexpr int64_t kLongBefore = 16384, kSoonBefore = 2048;

PG_INLINE void ask_ahead_of(const uint8_t* at, int64_t bytes) {
  for (int64_t line = 0; line < bytes; line += 64) {
    __builtin_prefetch(at + kLongBefore + line, 0, 2);
    __builtin_prefetch(at + kSoonBefore + line, 0, 3);
  }
}

}  // namespace PG_NS
}  // namespace pg
