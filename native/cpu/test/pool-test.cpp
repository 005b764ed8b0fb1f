// The pool alone: every chunk of every job runs once, whatever the numbers of chunks and threads, and jobs are seen whole.
#include <atomic>
#include <chrono>

#include "../src/pool.h"
#include "check.h"

TEST(every_chunk_runs_once) {
  for (const int32_t threads : {1, 2, 3, 7}) {
    pg::Pool pool(threads);
    std::vector<std::atomic<int32_t>> runs(200);
    for (int32_t job = 0; job < 600; job++) {
      const int64_t chunks = job % 200;
      int64_t sum = 0;  // plain on purpose: the end of a job publishes what its chunks wrote
      std::vector<int64_t> by_worker(static_cast<size_t>(threads) * 8);
      pg::parallel_for(pool, chunks, [&](int64_t chunk, int32_t worker) {
        runs[static_cast<size_t>(chunk)]++;
        by_worker[static_cast<size_t>(worker) * 8] += chunk;
      });
      for (int64_t chunk = 0; chunk < chunks; chunk++) CHECK(runs[static_cast<size_t>(chunk)].exchange(0) == 1);
      for (const int64_t part : by_worker) sum += part;
      CHECK(sum == chunks * (chunks - 1) / 2);
      if (job % 200 == 199) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // workers park, and come back
    }
  }
}
