#include "pool.h"

#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#define PG_PAUSE() _mm_pause()
#elif defined(__aarch64__)
#define PG_PAUSE() asm volatile("yield")
#else
#define PG_PAUSE() ((void)0)
#endif

namespace pg {
namespace {

// Spins until done() or about 50 us have passed; false when time ran out. The clock is read once per 64 pauses.
template <typename Done>
bool spin(Done done) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
  do {
    for (int i = 0; i < 64; i++) {
      if (done()) return true;
      PG_PAUSE();
    }
  } while (std::chrono::steady_clock::now() < until);
  return done();
}

}  // namespace

Pool::Pool(int32_t threads) {
  for (int32_t i = 1; i < threads; i++) workers_.emplace_back([this, i] { work(i); });
}

Pool::~Pool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void Pool::take_chunks(int32_t worker) {
  for (;;) {
    const int64_t chunk = next_.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= chunks_) return;
    fn_(arg_, chunk, worker);
  }
}

void Pool::run(int64_t chunks, ChunkFn fn, void* arg) {
  if (chunks <= 0) return;
  if (chunks == 1 || workers_.empty()) {
    for (int64_t c = 0; c < chunks; c++) fn(arg, c, 0);
    return;
  }
  fn_ = fn;
  arg_ = arg;
  chunks_ = chunks;
  next_.store(0, std::memory_order_relaxed);
  job_.fetch_add(1);  // opens: publishes the fields above
  if (parked_.load() > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }
  take_chunks(0);
  job_.fetch_add(1);  // closes: whoever enters from now on leaves at once (both sides sequentially consistent)
  if (spin([this] { return active_.load() == 0; })) return;
  std::unique_lock<std::mutex> lock(mutex_);
  caller_waits_.store(true);
  done_.wait(lock, [this] { return active_.load() == 0; });
  caller_waits_.store(false);
}

void Pool::work(int32_t worker) {
  uint64_t seen = 0;  // the job last worked on (or found closed)
  for (;;) {
    const auto fresh = [&] {
      const uint64_t job = job_.load(std::memory_order_acquire);
      return (job & 1) != 0 && job != seen;
    };
    if (!spin(fresh)) {
      std::unique_lock<std::mutex> lock(mutex_);
      parked_.fetch_add(1);  // before the last look at job_: the caller opens first and looks at parked_ after
      wake_.wait(lock, [&] { return stop_ || fresh(); });
      parked_.fetch_sub(1);
      if (stop_) return;
    }
    active_.fetch_add(1);
    const uint64_t job = job_.load();
    if ((job & 1) != 0) {
      seen = job;
      take_chunks(worker);
    }
    if (active_.fetch_sub(1) == 1 && caller_waits_.load()) {
      std::lock_guard<std::mutex> lock(mutex_);
      done_.notify_one();
    }
  }
}

}  // namespace pg
