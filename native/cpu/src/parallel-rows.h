// Rows spread over the workers, when there is enough of them to be worth waking anybody.
#pragma once
#include <type_traits>

#include "context.h"

namespace pg {

// body(row), or body(row, worker), for every row < n. `cols`: numbers touched per row; a chunk is at least 2048 of them, about a microsecond,
// and about 8192 where there is work for all.
template <typename Body>
void each_row(Context* context, int64_t n, int64_t cols, const Body& body) {
  constexpr int64_t kLeast = 2048, kMost = 8192;
  const auto run = [&](int64_t row, int32_t worker) {
    if constexpr (std::is_invocable_v<Body, int64_t, int32_t>) body(row, worker);
    else (void)worker, body(row);
  };
  if (context->pool.size() == 1 || n * cols < 8 * kLeast) {
    for (int64_t r = 0; r < n; r++) run(r, 0);
    return;
  }
  const int64_t share = n * cols / context->pool.size();
  const int64_t numbers = share < kLeast ? kLeast : share > kMost ? kMost : share;
  const int64_t per_chunk = cols >= numbers ? 1 : numbers / (cols < 1 ? 1 : cols);
  parallel_for(context->pool, (n + per_chunk - 1) / per_chunk, [&](int64_t chunk, int32_t worker) {
    const int64_t end = (chunk + 1) * per_chunk < n ? (chunk + 1) * per_chunk : n;
    for (int64_t r = chunk * per_chunk; r < end; r++) run(r, worker);
  });
}

}  // namespace pg
