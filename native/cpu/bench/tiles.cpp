// What the matrix tiles of this processor do alone, apart from any matmul: ns per product of 16 x 16 (32 columns of bf16, 64 of int8)
// and per load of 1 KiB, by number of threads, which all do the same in memory of their own. The least of many runs of under a
// millisecond, of the slowest thread. Built by build.sh beside it, or alone:
//   g++ -std=c++17 -O2 -pthread -mavx512f -mavx512bw -mavx512vl -mavx512dq -mamx-tile -mamx-bf16 -mamx-int8 tiles.cpp -o tiles
//   tiles [most threads] [stride: thread i is pinned to processor i * stride]
// -DPG_TILES_TWIN does the same over plain memory, a few steps of it: that shows no more than that it runs.
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#define PG_NS amx
#define PG_ISA 3
#include "../src/amx/tiles.h"

using namespace pg::amx;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The caller and threads that wait for a job by spinning, so that all of them start at once.
class Team {
 public:
  Team(int size, int stride) {
    pin(0, stride);
    for (int i = 1; i < size; i++) threads_.emplace_back([this, i, stride] { pin(i, stride), work(i); });
  }
  ~Team() {
    is_over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  // Seconds from the start to the end of the slowest: the least of many runs.
  double best(const std::function<void(int)>& job) {
    double least = 1e9;
    job_ = &job;
    for (const double start = now(); now() - start < 0.05;) {
      num_done_ = 0;
      const double from = now();
      round_++;
      job(0);
      while (num_done_ != (int)threads_.size()) _mm_pause();
      least = std::min(least, now() - from);
    }
    return least;
  }

 private:
  static void pin(int index, int stride) {
    if (stride == 0) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(index * stride % (int)std::thread::hardware_concurrency(), &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  void work(int index) {
    for (int seen = 0;; seen++) {
      while (round_ == seen) {
        if (is_over_) return;
        _mm_pause();
      }
      (*job_)(index);
      num_done_++;
    }
  }

  std::atomic<int> round_{0}, num_done_{0};
  std::atomic<bool> is_over_{false};
  const std::function<void(int)>* job_ = nullptr;
  std::vector<std::thread> threads_;
};

template <bool INT8, int C, int A, int B>
PG_INLINE void product() {
  if constexpr (INT8) tile_dot_int8<C, A, B>();
  else tile_dot_bf16<C, A, B>();
}

// Registers 0 to 3 are sums, 4 and 5 hold x, 6 and 7 weights. A step is 32 rows of x by 32 outputs: four products.
template <bool INT8>
PG_INLINE void four_products() {
  product<INT8, 0, 4, 6>();
  product<INT8, 1, 4, 7>();
  product<INT8, 2, 5, 6>();
  product<INT8, 3, 5, 7>();
}
PG_INLINE void load_four(const uint8_t* from) {
  tile_load<4>(from, 64);
  tile_load<6>(from + 1024, 64);
  tile_load<7>(from + 2048, 64);
  tile_load<5>(from + 3072, 64);
}

constexpr int64_t kStep = 4096, kL1 = 16 << 10, kL2 = 512 << 10;
#ifndef PG_TILES_TWIN
constexpr int kSteps = 4096;
#else
constexpr int kSteps = 8;
#endif

TileConfig config_of(int rows) {
  TileConfig config;
  for (int t = 0; t < 8; t++) config.set(t, t < 6 ? rows : 16, 64);
  return config;
}

struct Bench {
  Team& team;
  std::vector<std::vector<uint8_t>>& memory;

  // Steps over `bytes` of a thread's own memory, again and again; each step does four of what is counted.
  template <class Step>
  void row(const char* what, int rows, int64_t bytes, Step step) {
    const double seconds = team.best([&](int index) {
      const uint8_t* data = memory[(size_t)index].data();
      data += 64 - (intptr_t)data % 64;
      const TileScope scope(config_of(rows));
      for (int i = 0; i < kSteps; i++) step(data + i * kStep % bytes);
    });
    std::printf("  %-52s %7.1f\n", what, seconds / (4.0 * kSteps) * 1e9);
  }

  template <bool INT8>
  void products() {
    std::printf(" %s\n", INT8 ? "int8" : "bf16");
    row("product from registers, 16 rows", 16, kL1, [](const uint8_t*) { four_products<INT8>(); });
    row("product from registers, 8 rows", 8, kL1, [](const uint8_t*) { four_products<INT8>(); });
    row("product from registers, 1 row", 1, kL1, [](const uint8_t*) { four_products<INT8>(); });
    row("product, beside it a load that nobody reads", 16, kL1, [](const uint8_t* from) {
      product<INT8, 0, 4, 6>(), tile_load<5>(from, 64), product<INT8, 1, 4, 6>(), tile_load<7>(from + 1024, 64);
      product<INT8, 2, 4, 6>(), tile_load<5>(from + 2048, 64), product<INT8, 3, 4, 6>(), tile_load<7>(from + 3072, 64);
    });
    const auto two_by_two = [](const uint8_t* from) { load_four(from), four_products<INT8>(); };
    row("2 x 2 products, four loads, from L1", 16, kL1, two_by_two);
    row("2 x 2 products, four loads, from L2", 16, kL2, two_by_two);
    row("2 x 2 products, four loads, L1, sums zeroed and stored", 16, kL1, [](const uint8_t* from) {
      alignas(64) thread_local uint8_t sums[4096];
      tile_zero<0>(), tile_zero<1>(), tile_zero<2>(), tile_zero<3>(), load_four(from), four_products<INT8>();
      tile_store<0>(sums, 64), tile_store<1>(sums + 1024, 64), tile_store<2>(sums + 2048, 64), tile_store<3>(sums + 3072, 64);
    });
  }
};

}  // namespace

int main(int count, char** args) {
  const int most = count > 1 ? std::atoi(args[1]) : (int)std::thread::hardware_concurrency();
  const int stride = count > 2 ? std::atoi(args[2]) : 0;
#ifndef PG_TILES_TWIN
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return std::puts("no tiles here"), 1;
#endif
  std::vector<std::vector<uint8_t>> memory((size_t)most, std::vector<uint8_t>(kL2 + 64, 0x3c));
  for (int threads = 1;; threads = std::min(2 * threads, most)) {
    std::printf("%d threads, ns\n", threads);
    Team team(threads, stride);
    Bench bench{team, memory};
    bench.row("load from L1", 16, kL1, load_four);
    bench.row("load from L2", 16, kL2, load_four);
    bench.products<false>();
    bench.products<true>();
    std::fflush(stdout);
    if (threads == most) return 0;
  }
}
