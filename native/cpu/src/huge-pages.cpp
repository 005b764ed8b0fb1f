#include "huge-pages.h"

#if defined(__linux__)
#include <sys/mman.h>

#include <algorithm>
#include <chrono>

namespace pg {
namespace {

constexpr int kJoin = 25;  // MADV_COLLAPSE, which older headers do not name
constexpr auto kPause = std::chrono::milliseconds(500);

}  // namespace

bool HugePages::can_join() {
  static const bool can = madvise(nullptr, 0, kJoin) == 0;
  return can;
}

HugePages::~HugePages() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void HugePages::add(uint8_t* from, int64_t bytes) {
  if (!can_join()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    try {
      ranges_.push_back({from, bytes});
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    } catch (...) {
      return;  // no memory or no thread for it: the pages stay small
    }
    has_grown_ = true;
  }
  changed_.notify_all();
}

void HugePages::remove(const uint8_t* from, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint8_t* end = from + bytes;
  for (Range& range : ranges_)  // none goes beyond the chunk, and so beyond what is removed
    if (range.from < from && range.from + range.bytes > from) range.bytes = from - range.from;
  const auto is_inside = [&](const Range& range) { return range.from >= from && range.from < end; };
  ranges_.erase(std::remove_if(ranges_.begin(), ranges_.end(), is_inside), ranges_.end());
}

void HugePages::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stops_) {
    changed_.wait(lock, [&] { return stops_ || !ranges_.empty(); });
    while (has_grown_ && !stops_) {
      has_grown_ = false;
      // By the system's clock, which glibc 2.28 can wait by.
      changed_.wait_until(lock, std::chrono::system_clock::now() + kPause, [&] { return stops_ || has_grown_; });
    }
    while (!stops_ && !has_grown_ && !ranges_.empty()) {
      Range& range = ranges_.front();
      madvise(range.from, static_cast<size_t>(kHugePage), kJoin);  // refused: the page stays as it is
      range.from += kHugePage;
      range.bytes -= kHugePage;
      if (range.bytes <= 0) ranges_.erase(ranges_.begin());
      lock.unlock();  // whoever adds or removes goes first
      std::this_thread::yield();
      lock.lock();
    }
  }
}

}  // namespace pg
#endif
