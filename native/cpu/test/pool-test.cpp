// The pool alone: every chunk of every job runs once, whatever the numbers of chunks and threads, and jobs are seen whole; every worker
// begins with its own range (the panels it packed, and so touched first), and on request on its own processor.
#include <atomic>
#include <chrono>
#ifdef __linux__
#include <sched.h>
#endif

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

// Both workers meet in a job of two chunks: each chunk ends when both have begun. Which worker ran a chunk.
static void meet(pg::Pool& pool, int32_t (&worker_of)[2], int32_t (&processor_of)[2], int32_t (*processor)()) {
  std::atomic<int32_t> begun{0};
  pg::parallel_for(pool, 2, [&](int64_t chunk, int32_t worker) {
    begun++;
    while (begun.load() < 2) std::this_thread::yield();
    worker_of[chunk] = worker;
    processor_of[chunk] = processor();
  });
}

TEST(workers_begin_with_their_own_range) {
  pg::Pool pool(2);
  for (int32_t job = 0; job < 50; job++) {
    int32_t worker_of[2], unused[2];
    meet(pool, worker_of, unused, [] { return 0; });
    CHECK(worker_of[0] == 0 && worker_of[1] == 1);
  }
}

#ifdef __linux__
TEST(pinned_threads_have_a_processor_each) {
  cpu_set_t allowed;
  CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  {
    pg::Pool pool(2);
    CHECK(pool.pin() == (CPU_COUNT(&allowed) >= 2));
    if (CPU_COUNT(&allowed) >= 2) {
      int32_t unused[2], processor_of[2];
      // The one processor that the calling thread may run on, -1 if there are several.
      meet(pool, unused, processor_of, [] {
        cpu_set_t own;
        if (sched_getaffinity(0, sizeof own, &own) != 0 || CPU_COUNT(&own) != 1) return -1;
        int32_t only = 0;
        while (!CPU_ISSET(only, &own)) only++;
        return only;
      });
      CHECK(processor_of[0] >= 0 && processor_of[1] >= 0 && processor_of[0] != processor_of[1]);
    }
  }
  CHECK(sched_setaffinity(0, sizeof allowed, &allowed) == 0);
}
#endif
