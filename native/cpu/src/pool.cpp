#include "pool.h"

#include <chrono>
#include <utility>

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pg {
namespace {

// Longer than what lies between two ops of a step; no longer, since the host's own threads may want the core between steps.
constexpr auto kSpin = std::chrono::microseconds(50);
// While somebody is inside a job: longer than a thread is without a processor. Whoever else wants this one gets it, but it is not given up:
// in a virtual machine a processor that sleeps goes back to the host, and on a busy one comes back late. One thread that was descheduled
// would have all others asleep, and the next job would begin with waking them.
[[maybe_unused]] constexpr auto kLinger = std::chrono::milliseconds(20);
// Between jobs many threads linger for longer than the host takes between two steps, since the next step would begin with waking them all.
// Few threads do not: the host's own threads want their processors.
[[maybe_unused]] constexpr auto kBetweenSteps = std::chrono::milliseconds(1);
constexpr int32_t kManyThreads = 8;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A few lines of what is ahead, or a pause. So few that a job which comes meanwhile is seen at once.
void prefetch_or_pause(Ahead& ahead) {
  if (ahead.at >= ahead.end) return relax();
  for (int line = 0; line < 4 && ahead.at < ahead.end; line++, ahead.at += 64) {
#ifdef __wasm__
    (void)*(const volatile uint8_t*)ahead.at;  // it has no prefetch; what was freed is memory still
#else
    __builtin_prefetch(ahead.at, 0, 2);
#endif
  }
}

// Spins until done(); false when time ran out. in_job(): whether somebody is still inside a job; lingers_between: outside one too. The clock
// is read once per 64 looks.
template <typename Done, typename InJob>
bool spin(Ahead& ahead, Done done, [[maybe_unused]] InJob in_job, [[maybe_unused]] bool lingers_between) {
  const auto looks = [&] {
    for (int i = 0; i < 64; i++) {
      if (done()) return true;
      prefetch_or_pause(ahead);
    }
    return false;
  };
  if (looks()) return true;
  const auto start = std::chrono::steady_clock::now();
  const auto waited = [&] { return std::chrono::steady_clock::now() - start; };
  while (waited() < kSpin)
    if (looks()) return true;
#ifndef __wasm__
  while ((in_job() && waited() < kLinger) || (lingers_between && waited() < kBetweenSteps)) {
    std::this_thread::yield();
    for (int i = 0; i < 16; i++)  // seldom: what a yield does is work that a thread on the same core would feel
      if (looks()) return true;
  }
#endif
  return done();
}

}  // namespace

Pool::Pool(int32_t threads) : size_(threads), seats_(new Seat[static_cast<size_t>(threads)]) {
  workers_.reserve(static_cast<size_t>(threads - 1));
  for (int32_t i = 1; i < threads; i++) workers_.emplace_back([this, i] { work(i); });
}

Pool::~Pool() {
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (auto& worker : workers_) worker.join();
}

bool Pool::pin() {
#ifdef __linux__
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < size_) return false;
  int processor = -1;
  for (int32_t i = 0; i < size_; i++) {
    do processor++;
    while (!CPU_ISSET(processor, &allowed));
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    const pthread_t thread = i == 0 ? pthread_self() : workers_[static_cast<size_t>(i - 1)].native_handle();
    if (pthread_setaffinity_np(thread, sizeof one, &one) != 0) return false;
  }
  return true;
#else
  return false;
#endif
}

// The next chunk of a seat's range [seat * chunks / size, (seat + 1) * chunks / size), or -1.
int64_t Pool::take(int32_t seat, uint64_t job) {
  const int64_t begin = chunks_ * seat / size_, end = chunks_ * (seat + 1) / size_;
  const uint64_t number = job << 32;
  std::atomic<uint64_t>& taken = seats_[static_cast<size_t>(seat)].taken;
  uint64_t word = taken.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t count = word >> 32 == number >> 32 ? word & 0xffffffffu : 0;
    if (begin + static_cast<int64_t>(count) >= end) return -1;
    if (taken.compare_exchange_weak(word, number | (count + 1), std::memory_order_relaxed))
      return begin + static_cast<int64_t>(count);
  }
}

void Pool::take_chunks(int32_t worker, uint64_t job) {
  for (int32_t i = 0; i < size_; i++) {
    const int32_t seat = worker + i < size_ ? worker + i : worker + i - size_;
    for (int64_t chunk; (chunk = take(seat, job)) >= 0;) fn_(arg_, chunk, worker);
  }
}

bool Pool::all_left() const {
  for (int32_t i = 1; i < size_; i++)
    if (seats_[static_cast<size_t>(i)].inside.load() != 0) return false;
  return true;
}

void Pool::run(int64_t chunks, ChunkFn fn, void* arg) {
  if (chunks <= 0) return;
  if (chunks == 1 || size_ == 1) {
    for (int64_t c = 0; c < chunks; c++) fn(arg, c, 0);
    return;
  }
  fn_ = fn;
  arg_ = arg;
  chunks_ = chunks;
  const uint64_t job = job_.fetch_add(1) + 1;  // opens: publishes the fields above
  if (parked_.load() > 0) {
    const Lock lock(mutex_);
    wake_.notify_all();
  }
  take_chunks(0, job);
  // Closes: whoever enters from now on leaves at once. Both sides write their own word, then read the other's, sequentially
  // consistent: either the worker sees the job closed or the caller sees the worker inside.
  job_.fetch_add(1);
  Ahead nothing;
  if (spin(nothing, [this] { return all_left(); }, [] { return true; }, false)) return;
  Lock lock(mutex_);
  caller_waits_.store(true);
  done_.wait(lock, [this] { return all_left(); });
  caller_waits_.store(false);
}

void Pool::expect(int32_t worker, Ahead ahead) { seats_[static_cast<size_t>(worker)].expected = ahead; }

void Pool::work(int32_t worker) {
  Seat& own = seats_[static_cast<size_t>(worker)];
  uint64_t seen = 0;  // the job last worked on
  Ahead ahead;
  for (;;) {
    const auto fresh = [&] {
      const uint64_t job = job_.load(std::memory_order_acquire);
      return (job & 1) != 0 && job != seen;
    };
    if (!spin(ahead, fresh, [this] { return (job_.load() & 1) != 0 || !all_left(); }, size_ >= kManyThreads)) {
      Lock lock(mutex_);
      parked_.fetch_add(1);  // before the last look at job_: the caller opens first and looks at parked_ after
      wake_.wait(lock, [&] { return stop_ || fresh(); });
      parked_.fetch_sub(1);
      if (stop_) return;
    }
    own.inside.exchange(1);  // as a store, but qemu lets loads overtake those where it emulates arm64 on x86
    const uint64_t job = job_.load();
    if ((job & 1) != 0) {
      seen = job;
      take_chunks(worker, job);
      if (own.expected.at != nullptr) ahead = std::exchange(own.expected, {});
    }
    own.inside.store(0);
    if (caller_waits_.load()) {
      const Lock lock(mutex_);
      done_.notify_one();
    }
  }
}

}  // namespace pg
