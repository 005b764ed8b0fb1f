// The thread pool: persistent workers that take chunks of one job by an atomic counter; the caller takes part.
// Idle workers spin for a bounded time (a step's ops follow each other within microseconds), then park. A worker that the
// operating system has descheduled never holds up a job it has not entered. Which worker runs which chunk is left to chance,
// so a chunk's result must not depend on it.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace pg {

// worker: 0 is the caller; indexes per-thread scratch.
using ChunkFn = void (*)(void* arg, int64_t chunk, int32_t worker);

class Pool {
 public:
  explicit Pool(int32_t threads);
  ~Pool();
  Pool(const Pool&) = delete;
  int32_t size() const { return static_cast<int32_t>(workers_.size()) + 1; }
  // Runs fn(arg, c, worker) for every c < chunks and returns when all are done.
  void run(int64_t chunks, ChunkFn fn, void* arg);

 private:
  void work(int32_t worker);
  void take_chunks(int32_t worker);

  std::vector<std::thread> workers_;
  // The job. Written by the caller while closed_, read by workers that entered (active_) while open.
  ChunkFn fn_ = nullptr;
  void* arg_ = nullptr;
  int64_t chunks_ = 0;
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<uint64_t> job_{0};  // odd: a job is open; changes twice per job
  alignas(64) std::atomic<int32_t> active_{0};  // workers inside the open job
  alignas(64) std::atomic<int32_t> parked_{0};
  std::atomic<bool> caller_waits_{false};
  bool stop_ = false;  // under mutex_
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
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
