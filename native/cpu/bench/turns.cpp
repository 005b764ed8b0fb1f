// Two or more builds of the library beside each other: the matmuls of a step of the 1b shape and the gates between them, one library after the
// other in a random order, again and again in one process. A library without gated products has the gate as a call of its own. Machines whose memory is twice as fast at one second as at the next still show differences of 2 %.
//   g++ -std=c++17 -O2 -pthread turns.cpp -o turns -ldl
//   turns ROUNDS LIBRARY.so... -- TYPE:ROWS:THREADS...       types: q4_0, q8_0 (heads are q8_0 beside both), bf16
// Prints ms a step (median, lowest) and the median of how many times as fast as the first library each was; the first given twice shows what
// chance does. TURNS_ISA: a number of src/kernels.h (4, amx).
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../include/pagoda_cpu.h"
#include "../src/encoding.h"

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

struct Library {
  std::string name;
  void* handle;
  explicit Library(const char* path) : name(path), handle(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) stop(dlerror());
    name = name.substr(name.rfind('/') + 1);
  }
  template <class Fn, class... Args>
  auto call(Fn*, const char* function, Args... args) const {
    Fn* found = reinterpret_cast<Fn*>(dlsym(handle, function));
    if (found == nullptr) stop(name + " has no " + function);
    return found(args...);
  }
};
#define CALL(library, function, ...) (library).call(&function, #function, __VA_ARGS__)
#define CHECKED(library, function, ...) \
  if (CALL(library, function, __VA_ARGS__) != PG_OK) stop((library).name + ": " #function)

struct Type {
  const char* name;
  int32_t dtype;
  int64_t block_cols, block_bytes;
};
constexpr Type kQ8 = {"q8_0", pg::kDtypeQ8_0, 32, 34};
constexpr Type kTypes[] = {{"q4_0", pg::kDtypeQ4_0, 32, 18}, kQ8, {"bf16", pg::kDtypeBf16, 1, 2}};

constexpr int64_t kInner = 8192, kMostOutputs = 128256;

class Model {
 public:
  Model(const Library& library, const Type& type, int32_t threads, int64_t most_rows) : library_(library) {
    const char* isa = std::getenv("TURNS_ISA");
    uint64_t handle = 0;
    CHECKED(library_, pg_context_create, threads, isa == nullptr ? 4 : std::atoi(isa), &handle);
    context_ = reinterpret_cast<void*>(handle);
    CHECKED(library_, pg_reserve_activations, context_, most_rows, kInner);
    for (int layer = 0; layer < 16; layer++) {
      add(type, 3072, 2048);
      add(type, 2048, 2048);
      add(type, 2 * kInner, 2048);
      matrices_.back().is_gated = true;
      add(type, 2048, kInner);
    }
    add(type.block_cols == 1 ? type : kQ8, kMostOutputs, 2048);
  }
  ~Model() {
    for (const Matrix& matrix : matrices_) CALL(library_, pg_weight_free, context_, matrix.weight);
    CALL(library_, pg_context_free, context_);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // out: [n, the most outputs] and [n, kInner] behind it.
  double step(int64_t n, const float* x, float* out) const {
    const bool can_gate = dlsym(library_.handle, "pg_gated_matmul") != nullptr;
    float* gated = out + n * kMostOutputs;
    const double start = now();
    for (const Matrix& m : matrices_) {
      if (m.is_gated && can_gate) {
        CHECKED(library_, pg_gated_matmul, context_, gated, kInner, x, kInner, m.weight, n, 0);
        continue;
      }
      CHECKED(library_, pg_matmul, context_, out, m.rows, x, kInner, m.weight, n, nullptr, 1.0f, 0);
      if (m.is_gated) CHECKED(library_, pg_gated_activation, context_, gated, kInner, out, m.rows, out + kInner, m.rows, 0, n, kInner);
    }
    return now() - start;
  }

 private:
  struct Matrix {
    void* weight;
    int64_t rows;
    bool is_gated = false;
  };

  void add(const Type& type, int64_t rows, int64_t cols) {
    // Codes are random, factors small and finite; floats have an exponent that is none of a subnormal number.
    static constexpr int64_t kPart = 16384;
    std::vector<uint8_t> source(static_cast<size_t>(std::min(rows, kPart) * cols / type.block_cols * type.block_bytes));
    uint32_t state = 1;
    for (uint8_t& byte : source) byte = static_cast<uint8_t>((state = state * 1664525u + 1013904223u) >> 24 & 0x2f);
    for (size_t i = 1; type.block_cols == 1 && i < source.size(); i += 2) source[i] = 0x3c;
    uint64_t handle = 0;
    CHECKED(library_, pg_weight_create, context_, cols, &handle);
    void* weight = reinterpret_cast<void*>(handle);
    for (int64_t left = rows; left > 0; left -= kPart) {
      const int64_t part = std::min(left, kPart);
      CHECKED(library_, pg_weight_append, context_, weight, type.dtype, -1, part, 0, source.data(), part * cols / type.block_cols * type.block_bytes);
    }
    CHECKED(library_, pg_weight_only_multiplied, context_, weight);
    matrices_.push_back({weight, rows});
  }

  const Library& library_;
  void* context_ = nullptr;
  std::vector<Matrix> matrices_;
};

void compare(const std::vector<Library>& libraries, const Type& type, int64_t n, int32_t threads, int rounds) {
  std::vector<std::unique_ptr<Model>> models;
  for (const Library& library : libraries) models.push_back(std::make_unique<Model>(library, type, threads, n));
  std::mt19937 random(1);
  std::vector<float> x(static_cast<size_t>(n * kInner)), out(static_cast<size_t>(n * (kMostOutputs + kInner)));
  for (float& value : x) value = static_cast<float>(random() >> 8) / (1 << 23) - 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // weights become huge pages meanwhile
  std::vector<size_t> order;
  for (size_t i = 0; i < models.size(); i++) order.push_back(i);
  std::vector<std::vector<double>> took(models.size());
  for (int round = 0; round < rounds; round++) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      models[i]->step(n, x.data(), out.data());  // threads awake, the others' asleep
      took[i].push_back(models[i]->step(n, x.data(), out.data()));
    }
  }
  const auto middle = [](std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  std::printf("%-5s %4lld rows %2d threads:", type.name, static_cast<long long>(n), threads);
  for (size_t i = 0; i < models.size(); i++) {
    std::vector<double> ratios;
    for (size_t round = 0; round < took[i].size(); round++) ratios.push_back(took[0][round] / took[i][round]);
    std::printf("  %s %.2f ms (%.2f) x %.3f", libraries[i].name.c_str(), middle(took[i]) * 1e3,
                *std::min_element(took[i].begin(), took[i].end()) * 1e3, middle(ratios));
  }
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** args) {
  std::vector<Library> libraries;
  int at = 2;
  for (; at < count && std::strcmp(args[at], "--") != 0; at++) libraries.emplace_back(args[at]);
  const int rounds = count > 1 ? std::atoi(args[1]) : 0;
  if (rounds < 1 || libraries.empty() || at + 1 >= count) stop("turns ROUNDS LIBRARY.so... -- TYPE:ROWS:THREADS...");
  for (at++; at < count; at++) {
    char name[16] = "";
    int n = 0, threads = 0;
    std::sscanf(args[at], "%15[^:]:%d:%d", name, &n, &threads);
    const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Type& t) { return std::strcmp(t.name, name) == 0; });
    if (type == std::end(kTypes) || n < 1 || threads < 1) stop(std::string(args[at]) + ": no TYPE:ROWS:THREADS");
    compare(libraries, *type, n, threads, rounds);
  }
}
