// A weight remembers which panels of the one multiplied after it each worker reads first; a pool prefetches what it is told to expect, be
// it there or not.
#include "../src/context.h"
#include "../src/weight.h"
#include "check.h"

namespace {

constexpr int64_t kCols = 64;

// f32, of stacked parts.
pg::Weight* weight_of(void* context, const std::vector<int64_t>& parts) {
  uint64_t handle = 0;
  CHECK_OK(pg_weight_create(context, kCols, &handle));
  for (const int64_t rows : parts) {
    const std::vector<float> source(static_cast<size_t>(rows * kCols), 0.5f);
    CHECK_OK(pg_weight_append(context, reinterpret_cast<void*>(handle), 0, -1, rows, 0, source.data(), rows * kCols * 4));
  }
  return reinterpret_cast<pg::Weight*>(handle);
}

void multiply(void* context, const pg::Weight* weight, int64_t n) {
  const std::vector<float> x(static_cast<size_t>(n * kCols), 1.0f);
  std::vector<float> out(static_cast<size_t>(n * weight->rows));
  CHECK_OK(pg_reserve_activations(context, n, kCols));
  CHECK_OK(pg_matmul(context, out.data(), weight->rows, x.data(), kCols, weight, n, nullptr, 1.0f, 0));
  for (const float sum : out) CHECK(sum == 0.5f * kCols);
}

bool is_within(const pg::Ahead& ahead, const pg::Segment& segment) {
  return ahead.at >= segment.data && ahead.at < ahead.end && ahead.end <= segment.data + segment.panels * segment.panel_bytes;
}

}  // namespace

TEST(a_weight_knows_where_workers_begin_with_the_next) {
  const int32_t threads = pg::as_context(context)->pool.size();
  pg::Weight* first = weight_of(context, {256});
  pg::Weight* second = weight_of(context, {2048, 2048});
  for (const int64_t n : {int64_t{1}, int64_t{8}}) {
    for (int step = 0; step < 2; step++)
      for (const pg::Weight* weight : {first, second}) multiply(context, weight, n);
    const std::vector<pg::Ahead>& panels = first->following.panels;
    CHECK(first->following.weight == second && second->following.weight == first);
    CHECK(static_cast<int32_t>(panels.size()) == threads && threads == 2);
    // Two equal parts, two workers: each begins with a part of its own.
    CHECK(is_within(panels[1], second->segments[1]) && panels[1].at == second->segments[1].data);
    CHECK(panels[1].end - panels[1].at == 256 << 10);  // of 512 KiB
    CHECK(panels[0].at == nullptr);
    const pg::Ahead of_less = second->following.panels[1];
    CHECK(is_within(of_less, first->segments[0]) && of_less.end == first->segments[0].data + first->segments[0].bytes());
  }
  multiply(context, second, 65);  // many rows wait for arithmetic
  multiply(context, first, 65);
  CHECK(second->following.panels[1].at == nullptr);
  CHECK_OK(pg_weight_free(context, first));
  CHECK(pg::as_context(context)->last_multiplied == nullptr);
  multiply(context, second, 1);
  CHECK_OK(pg_weight_free(context, second));
}

TEST(what_is_expected_need_not_be_there) {
  pg::Pool pool(3);
  for (int32_t job = 0; job < 200; job++) {
    for (int32_t worker = 0; worker < 3; worker++) {
      const uint8_t* nowhere = reinterpret_cast<const uint8_t*>(uintptr_t{1} << 12);
      pool.expect(worker, {nowhere, nowhere + 100 + (job << 8)});
    }
    std::atomic<int32_t> runs{0};
    pg::parallel_for(pool, 7, [&](int64_t, int32_t) { runs++; });
    CHECK(runs.load() == 7);
  }
}
