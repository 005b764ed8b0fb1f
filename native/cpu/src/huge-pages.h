// Huge pages for memory that is filled already. Weights are read by every step, so they belong into huge pages; but a system may take
// far longer to find and clear those than small ones (virtual machines whose free memory is with their host), and whoever loads a model
// waits for it. So weights are packed into small pages, which a thread joins once loading has paused. Contents do not change.
#pragma once
#include <cstdint>

#include "memory.h"

#if defined(__linux__)
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>
#endif

namespace pg {

#if defined(__linux__)

class HugePages {
 public:
  HugePages() = default;
  ~HugePages();
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;
  // Whether this system joins pages on request (Linux 6.1); elsewhere they are asked for when memory is.
  static bool can_join();
  // [from, from + bytes) is to be joined: whole huge pages.
  void add(uint8_t* from, int64_t bytes);
  // The memory, whole huge pages, is about to go. Waits for a page of it that is being joined.
  void remove(const uint8_t* from, int64_t bytes);

 private:
  struct Range {
    uint8_t* from;
    int64_t bytes;
  };
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Range> ranges_;
  bool has_grown_ = false;
  bool stops_ = false;
  std::thread thread_;  // from the first add on
};

#else

class HugePages {
 public:
  static constexpr bool can_join() { return false; }
  void add(uint8_t*, int64_t) {}
  void remove(const uint8_t*, int64_t) {}
};

#endif

}  // namespace pg
