// The thread pool: persistent workers that share the chunks of one job; the caller takes part.
//
// Every worker owns an equal, fixed range of the chunks and takes them from its own cache line; one that has finished helps the
// others from theirs. So chunks cost no shared line while all are busy, and the same worker meets the same panels of a weight in
// every step: the pages it first touched when it packed them, and what its cache still holds.
//
// Idle workers spin for a bounded time (a step's ops follow each other within microseconds), linger while a job is unfinished, and where they
// are many for a moment between jobs, yielding to whoever wants the processor, then park. A worker that the operating system has descheduled
// never holds up a job it has not entered: its range is taken by the others. Which worker runs which chunk is left to chance, so a
// chunk's result must not depend on it.
//
// A worker that waits has nothing to do, and neither has memory: it prefetches what the caller expects it to read next.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "threads.h"

namespace pg {

// worker: 0 is the caller; indexes per-thread scratch.
using ChunkFn = void (*)(void* arg, int64_t chunk, int32_t worker);

// Memory that is to be read soon. It is prefetched and its contents are never used, so it may have been freed since.
struct Ahead {
  const uint8_t* at = nullptr;
  const uint8_t* end = nullptr;
};

class Pool {
 public:
  explicit Pool(int32_t threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  int32_t size() const { return size_; }
  // Holds the caller and every worker to a processor each; false: nothing was changed.
  bool pin();
  // Runs fn(arg, c, worker) for every c < chunks and returns when all are done.
  void run(int64_t chunks, ChunkFn fn, void* arg);
  // What a worker that takes part in the next job prefetches whenever it waits from then on. Called between jobs.
  void expect(int32_t worker, Ahead ahead);

 private:
  // What one worker writes; others read it, and write `taken` when they help.
  struct alignas(64) Seat {
    // The job's number (upper half) and how many chunks of this seat's range are taken; of an older job: none are.
    std::atomic<uint64_t> taken{0};
    alignas(64) std::atomic<uint64_t> inside{0};  // the job this worker is in, 0: none
    Ahead expected;  // written by the caller while no job is open, taken by the worker inside one
  };

  void work(int32_t worker);
  void take_chunks(int32_t worker, uint64_t job);
  int64_t take(int32_t seat, uint64_t job);
  bool all_left() const;

  const int32_t size_;
  std::unique_ptr<Seat[]> seats_;  // [size]
  std::vector<Thread> workers_;
  // The job. Written by the caller while no job is open, read by workers that entered while one is.
  ChunkFn fn_ = nullptr;
  void* arg_ = nullptr;
  int64_t chunks_ = 0;
  alignas(64) std::atomic<uint64_t> job_{0};  // odd: a job is open; changes twice per job
  alignas(64) std::atomic<int32_t> parked_{0};
  std::atomic<bool> caller_waits_{false};
  bool stop_ = false;  // under mutex_
  Mutex mutex_;
  Condition wake_;
  Condition done_;
};

// Convenience over a lambda without captures being copied: body(chunk, worker).
template <typename Body>
void parallel_for(Pool& pool, int64_t chunks, Body&& body) {
  using B = std::remove_reference_t<Body>;
  pool.run(
      chunks, [](void* arg, int64_t chunk, int32_t worker) { (*static_cast<B*>(arg))(chunk, worker); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace pg
