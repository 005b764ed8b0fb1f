// Threads, and where they sleep. The standard library's, or in WebAssembly the same few operations over its own instructions:
// there a thread is a worker that the host has started beforehand (wasm.cpp).
#pragma once

#ifndef __wasm__
#include <condition_variable>
#include <mutex>
#include <thread>

namespace pg {
using Mutex = std::mutex;
using Lock = std::unique_lock<std::mutex>;
using Condition = std::condition_variable;
using Thread = std::thread;
}  // namespace pg

#else
#include <atomic>
#include <cstdint>
#include <utility>

namespace pg {

// Set when an instance has trapped: what it held is never given back. Whoever waits then traps too, within kPatience.
extern std::atomic<int32_t> has_failed;
constexpr int64_t kPatience = 100'000'000;  // ns

// Never inlined: after this instruction V8 11 (Node 20) calls through wrong function tables in the same function.
__attribute__((noinline)) inline void wait_while(std::atomic<int32_t>& word, int32_t value) {
  __builtin_wasm_memory_atomic_wait32(reinterpret_cast<int32_t*>(&word), value, kPatience);
  if (has_failed.load() != 0) __builtin_trap();
}
inline void wake(std::atomic<int32_t>& word, uint32_t count) {
  __builtin_wasm_memory_atomic_notify(reinterpret_cast<int32_t*>(&word), count);
}

class Mutex {
 public:
  void lock() {
    if (state_.exchange(1) == 0) return;
    while (state_.exchange(2) != 0) wait_while(state_, 2);
  }
  void unlock() {
    if (state_.exchange(0) == 2) wake(state_, 1);
  }

 private:
  std::atomic<int32_t> state_{0};  // 1: held; 2: held, and somebody may sleep
};

class Lock {
 public:
  explicit Lock(Mutex& mutex) : mutex_(mutex) { mutex_.lock(); }
  ~Lock() { mutex_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  friend class Condition;
  Mutex& mutex_;
};

class Condition {
 public:
  template <typename Done>
  void wait(Lock& lock, Done done) {
    while (!done()) {
      const int32_t seen = rounds_.load();
      lock.mutex_.unlock();
      wait_while(rounds_, seen);
      lock.mutex_.lock();
    }
  }
  void notify_one() { notify_all(); }
  void notify_all() {
    rounds_.fetch_add(1);
    wake(rounds_, UINT32_MAX);
  }

 private:
  std::atomic<int32_t> rounds_{0};
};

// Gives `run(body)` to a worker that has nothing to do and returns its seat; aborts when there is none.
int32_t start_on_worker(void (*run)(void*), void* body);
void wait_for_worker(int32_t seat);

class Thread {
 public:
  template <typename Body>
  explicit Thread(Body body)
      : seat_(start_on_worker(
            [](void* owned) {
              (*static_cast<Body*>(owned))();
              delete static_cast<Body*>(owned);
            },
            new Body(std::move(body)))) {}
  Thread(Thread&& other) : seat_(other.seat_) {}
  void join() { wait_for_worker(seat_); }

 private:
  int32_t seat_;
};

}  // namespace pg
#endif
