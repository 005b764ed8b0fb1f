// The library measured without a host language: what the machine can do, every matmul kernel by number of rows, and the matmuls of
// a whole model (the 1b shape) by number of threads. Built by build.sh beside it; prints tables.
//   bench SECTION[:TYPE]...   peak, barrier, kernels, stack, one (the stack for one row alone), many (for several rows, all threads),
//                             shapes (512 rows by the shapes of a layer);
//                             settle: sections after it wait until weights are in huge pages, as they are in a server;
//                             only:ISA: those after it run on that instruction set alone
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../src/context.h"
#include "../src/pack.h"

using namespace pg;

namespace {

const char* only = nullptr;  // an instruction set

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Of at least 3 runs, and of as many as fit in `seconds`.
struct Took {
  double best, median;
};
template <class Body>
Took took(double seconds, Body body) {
  const double start = now();
  std::vector<double> runs;
  for (int i = 0; i < 3 || (now() - start < seconds && i < 1000); i++) {
    const double from = now();
    body();
    runs.push_back(now() - from);
    if (now() - start > 5 * seconds) break;
  }
  std::sort(runs.begin(), runs.end());
  return {runs[0], runs[runs.size() / 2]};
}
template <class Body>
double best(double seconds, Body body) { return took(seconds, body).best; }

void check(void* context, int32_t status) {
  if (status == PG_OK) return;
  char text[256];
  pg_last_error(context, text, sizeof text);
  std::fprintf(stderr, "status %d: %s\n", status, text);
  std::exit(1);
}

struct Handle {
  void* context = nullptr;
  Handle(int32_t threads, int32_t isa) {
    uint64_t handle = 0;
    if (pg_context_create(threads, isa, &handle) == PG_OK) context = reinterpret_cast<void*>(handle);
  }
  ~Handle() { if (context != nullptr) pg_context_free(context); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
};

struct Type { const char* name; int32_t dtype; };
constexpr Type kTypes[] = {{"q4_0", 6}, {"q8_0", 5}, {"bf16", 2}, {"f16", 1}, {"q4_k", 12}, {"q6_k", 14}, {"q5_0", 8}, {"f32", 0}};

const char* isa_name(int32_t isa) {
  constexpr const char* kNames[] = {"best", "portable", "avx2", "avx512", "amx", "neon", "dotprod", "i8mm", "simd128", "relaxed", "avxvnni"};
  return kNames[isa];
}

// Codes are random, factors small and finite.
std::vector<uint8_t> source_of(int32_t dtype, int64_t rows, int64_t cols) {
  std::vector<uint8_t> bytes(static_cast<size_t>(source_size(dtype, rows, cols)));
  uint32_t state = 1;
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((state = state * 1664525u + 1013904223u) >> 24 & 0x2f);
  // Floats: an exponent that is none of a subnormal number, which would be measured instead.
  const int64_t width = dtype == kDtypeF32 ? 4 : 2;
  for (size_t at = static_cast<size_t>(width) - 1; is_float(dtype) && at < bytes.size(); at += static_cast<size_t>(width))
    bytes[at] = dtype == kDtypeF16 ? 0x2c : 0x3c;
  return bytes;
}


// A weight of the matrices of so many rows, stacked. is_table: its rows may be looked up too.
void* stacked(void* context, int32_t dtype, const std::vector<int64_t>& parts, int64_t cols, const std::vector<uint8_t>& source,
              bool is_table = false) {
  uint64_t weight = 0;
  check(context, pg_weight_create(context, cols, &weight));
  for (const int64_t rows : parts)
    check(context, pg_weight_append(context, reinterpret_cast<void*>(weight), dtype, -1, rows, 0, source.data(), source_size(dtype, rows, cols)));
  if (!is_table) check(context, pg_weight_only_multiplied(context, reinterpret_cast<void*>(weight)));
  return reinterpret_cast<void*>(weight);
}

std::vector<int32_t> thread_counts() {
  const int32_t most = static_cast<int32_t>(std::thread::hardware_concurrency());
  std::vector<int32_t> counts;
  for (int32_t t = 1; t < most; t *= 2) counts.push_back(t);
  counts.push_back(most);
  return counts;
}

void peak() {
  std::printf("\n## peaks\nthreads  f32 GFLOP/s  int8 GOP/s  read GB/s\n");
  for (const int32_t threads : thread_counts()) {
    const Handle h(threads, 0);
    double value[3];
    for (int32_t kind = 0; kind < 3; kind++) check(h.context, pg_measure_peak(h.context, kind, &value[kind]));
    std::printf("%7d  %11.0f  %10.0f  %9.1f\n", threads, value[0] / 1e9, value[1] / 1e9, value[2] / 1e9);
  }
}

void barrier() {
  std::printf("\n## an empty job, us\nthreads  %8s %8s %8s\n", "x1", "x4", "x16");
  for (const int32_t threads : thread_counts()) {
    Pool pool(threads);
    std::printf("%7d ", threads);
    for (const int64_t each : {1, 4, 16}) {
      constexpr int kJobs = 2000;
      const double took = best(0.1, [&] {
        for (int i = 0; i < kJobs; i++) parallel_for(pool, each * threads, [](int64_t, int32_t) {});
      });
      std::printf(" %8.2f", took / kJobs * 1e6);
    }
    std::printf("\n");
  }
}

// Copies of one matrix, so many that weights read once come from memory.
struct Matrices {
  std::vector<void*> weights;
  std::vector<float> x, out;
  int64_t rows, cols;
  Matrices(void* context, int32_t dtype, int64_t r, int64_t c, int64_t n) : x(n * c), out(n * r), rows(r), cols(c) {
    const std::vector<uint8_t> source = source_of(dtype, rows, cols);
    const int64_t copies = std::max<int64_t>(1, (int64_t{640} << 20) / static_cast<int64_t>(source.size()));
    for (int64_t i = 0; i < std::min<int64_t>(copies, 64); i++) weights.push_back(stacked(context, dtype, {rows}, cols, source));
    for (size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(i % 61) / 61 - 0.5f;
    check(context, pg_reserve_activations(context, n, cols));
  }
  double seconds(void* context, int64_t n) {
    size_t i = 0;
    return best(0.12, [&] {
      check(context, pg_matmul(context, out.data(), rows, x.data(), cols, weights[i++ % weights.size()], n, nullptr, 1.0f, 0));
    });
  }
};

void kernels_table(const std::vector<int32_t>& isas, const std::vector<int64_t>& heights, const char* filter) {
  const int32_t most = thread_counts().back();
  for (const Type& type : kTypes) {
    if (filter != nullptr && std::strcmp(filter, type.name) != 0) continue;
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{8192, 2048}, {2048, 8192}})
      for (const int32_t isa : isas) {
        if (only != nullptr && std::strcmp(only, isa_name(isa)) != 0) continue;
        const Handle owner(most, isa);  // weights may have a form of its own
        if (owner.context == nullptr) continue;
        Matrices m(owner.context, type.dtype, rows, cols, heights.back());
        for (const int32_t threads : {1, most}) {
          const Handle h(threads, isa);
          check(h.context, pg_reserve_activations(h.context, heights.back(), cols));
          std::printf("%-5s %5lldx%-5lld %-7s %2d thr ", type.name, (long long)rows, (long long)cols, isa_name(isa), threads);
          for (const int64_t n : heights) {
            if (threads == 1 && n > 64) continue;
            std::printf(" %lld:%.0f", (long long)n, 2.0 * n * rows * cols / m.seconds(h.context, n) / 1e9);
          }
          std::printf("\n");
          std::fflush(stdout);
        }
        for (void* weight : m.weights) pg_weight_free(owner.context, weight);
      }
  }
}

// All matmuls of one step of the 1b shape: qkv, o, gate and up, down of 16 layers; the head for `heads` rows.
struct Stack {
  struct Layer { void* parts[4]; };
  std::vector<Layer> layers;
  void* head;
  std::vector<float> x, out;
  int64_t bytes = 0;
  static constexpr int64_t kShapes[4][2] = {{3072, 2048}, {2048, 2048}, {16384, 2048}, {2048, 8192}};
  static constexpr int64_t kVocab = 128256;
  Stack(void* context, int32_t dtype, int64_t n) : layers(16), x(n * 8192, 0.25f), out(std::max(n * 16384, 32 * kVocab)) {
    const std::vector<uint8_t> source = source_of(dtype, kVocab, 2048);
    const std::vector<int64_t> parts[4] = {{2048, 512, 512}, {2048}, {8192, 8192}, {2048}};
    for (Layer& layer : layers)
      for (int i = 0; i < 4; i++) layer.parts[i] = stacked(context, dtype, parts[i], kShapes[i][1], source);
    head = stacked(context, dtype, {kVocab}, 2048, source, true);
    for (const Layer& layer : layers)
      for (void* part : layer.parts) bytes += pg_weight_bytes(part);
    bytes += pg_weight_bytes(head);
  }
  void step(void* context, int64_t n, int64_t heads) {
    for (const Layer& layer : layers)
      for (int i = 0; i < 4; i++)
        check(context, pg_matmul(context, out.data(), kShapes[i][0], x.data(), kShapes[i][1], layer.parts[i], n, nullptr, 1.0f, 0));
    check(context, pg_matmul(context, out.data(), kVocab, x.data(), 2048, head, heads, nullptr, 1.0f, 0));
  }
};

// 512 rows by each shape of a layer, every layer's own weights: ns of a thread per 16 x 16 x 32 multiply-adds.
void shapes(const char* filter) {
  std::printf("\n## matmuls of 512 rows by shape: ns of a thread per 16 x 16 x 32, best / median over layers and runs\n");
  const int32_t most = thread_counts().back();
  for (const Type& type : {kTypes[0], kTypes[1], kTypes[2]}) {
    if (filter != nullptr && std::strcmp(filter, type.name) != 0) continue;
    const Handle h(most, 0);
    Stack model(h.context, type.dtype, 512);
    check(h.context, pg_reserve_activations(h.context, 512, 8192));
    std::printf("%-5s", type.name);
    for (int i = 0; i < 4; i++) {
      const int64_t rows = Stack::kShapes[i][0], cols = Stack::kShapes[i][1];
      std::vector<double> took;
      for (int run = 0; run < 8; run++)
        for (const Stack::Layer& layer : model.layers) {
          const double from = now();
          check(h.context, pg_matmul(h.context, model.out.data(), rows, model.x.data(), cols, layer.parts[i], 512, nullptr, 1.0f, 0));
          took.push_back((now() - from) * most / (512.0 * static_cast<double>(rows * cols) / 8192) * 1e9);
        }
      std::sort(took.begin(), took.end());
      std::printf("  %lldx%lld: %.1f / %.1f", (long long)rows, (long long)cols, took[0], took[took.size() / 2]);
    }
    std::printf("\n");
    std::fflush(stdout);
    for (const Stack::Layer& layer : model.layers)
      for (void* part : layer.parts) pg_weight_free(h.context, part);
    pg_weight_free(h.context, model.head);
  }
}

enum class Rows { all, one, many };

bool settles = false;

// Weights become huge pages once loading has paused (huge-pages.h); waits until no more do, and says how many did.
void settle() {
  long before = -1, joined = 0;
  while (settles && joined != before) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    before = joined;
    char line[256];
    std::FILE* file = std::fopen("/proc/self/smaps_rollup", "r");
    while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) std::sscanf(line, "AnonHugePages: %ld", &joined);
    if (file != nullptr) std::fclose(file);
  }
  if (settles) std::printf("%ld MiB in huge pages\n", joined / 1024);
}

void stack(const char* filter, Rows rows) {
  std::printf("\n## matmuls of the 1b shape, tok/s (GB/s of weights for one row, TOP/s for 512)\n");
  const int32_t most = thread_counts().back();
  for (const Type& type : {kTypes[0], kTypes[1], kTypes[2], kTypes[3]}) {
    if (filter != nullptr && std::strcmp(filter, type.name) != 0) continue;
    for (const int32_t isa : {3, 4, 5, 6, 7}) {
      if (only != nullptr && std::strcmp(only, isa_name(isa)) != 0) continue;
      const Handle owner(most, isa);  // weights may have a form of its own
      if (owner.context == nullptr) continue;
      Stack model(owner.context, type.dtype, 512);
      settle();
      for (const int32_t threads : thread_counts()) {
        if (rows == Rows::many && threads < most) continue;
        const Handle h(threads, isa);
        check(h.context, pg_reserve_activations(h.context, 512, 8192));
        std::printf("%-5s %-7s %2d thr:", type.name, isa_name(isa), threads);
        const double one = rows == Rows::many ? 0 : best(0.4, [&] { model.step(h.context, 1, 1); });
        if (one > 0) std::printf("  1: %.1f (%.1f GB/s)", 1 / one, static_cast<double>(model.bytes) / one / 1e9);
        for (const int64_t n : {8, 32}) {
          if (threads < most || rows == Rows::one) continue;
          const Took step = took(0.3, [&] { model.step(h.context, n, n); });
          std::printf("  %lld: %.0f (median %.0f)", (long long)n, n / step.best, n / step.median);
        }
        if (rows != Rows::one && (threads == most || threads == 4)) {
          const double many = best(0.5, [&] { model.step(h.context, 512, 1); });
          std::printf("  512: %.0f (%.2f TOP/s)", 512 / many, 512 * 2.0 * 973.1e6 / many / 1e12);
        }
        std::printf("\n");
        std::fflush(stdout);
      }
      for (const Stack::Layer& layer : model.layers)
        for (void* part : layer.parts) pg_weight_free(owner.context, part);
      pg_weight_free(owner.context, model.head);
    }
  }
}

}  // namespace

int main(int count, char** args) {
  for (int i = 1; i < count; i++) {
    const std::string section = args[i];
    const size_t colon = section.find(':');
    const std::string name = section.substr(0, colon);
    const char* filter = colon == std::string::npos ? nullptr : args[i] + colon + 1;
    if (name == "settle") settles = true;
    if (name == "only") only = filter;
    if (name == "peak") peak();
    if (name == "barrier") barrier();
    if (name == "kernels") {
      std::printf("\n## kernels, GOP/s by rows of x\n");
      kernels_table({3, 4, 5, 6, 7}, {1, 2, 4, 6, 8, 12, 16, 32, 64, 128, 512}, filter);
    }
    if (name == "shapes") shapes(filter);
    if (name == "stack") stack(filter, Rows::all);
    if (name == "one") stack(filter, Rows::one);
    if (name == "many") stack(filter, Rows::many);
  }
}
