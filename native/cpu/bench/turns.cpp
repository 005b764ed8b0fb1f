// Two or more builds of the library beside each other: decode steps of the 1b shape (norms, products, append, attention; no host, no sampling), one
// library after the other in a random order, again and again in one process. A library without gated products has the gate as a call of
// its own. Machines whose memory is twice as fast at one second as at the next still show differences of 2 %.
//   g++ -std=c++17 -O2 -pthread turns.cpp -o turns -ldl
//   turns ROUNDS LIBRARY.so... -- TYPE:ROWS:THREADS[:KEYS]...       types: q4_0, q8_0 (heads are q8_0 beside both), bf16
// KEYS: behind each row, 136 unless said; 0: the matrices and gates alone. Prints ms a step (median, lowest) and the median of how many times as fast as the
// first library each was, the first given twice shows what chance does; then each library's medians by op, us a step; last, what the same threads took in
// the same rounds to read as many bytes as the matrices have on AMX and do nothing else. TURNS_ISA: a number of src/kernels.h (4, amx).
#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
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
  double bytes;  // of a weight, as it is held on AMX: span4, span8, bf12
};
constexpr Type kQ8 = {"q8_0", pg::kDtypeQ8_0, 32, 34, 1 + 1.0 / 128};
constexpr Type kTypes[] = {{"q4_0", pg::kDtypeQ4_0, 32, 18, 0.5 + 1.0 / 32 + 1.0 / 128}, kQ8, {"bf16", pg::kDtypeBf16, 1, 2, 1.5}};

constexpr int64_t kHidden = 2048, kInner = 8192, kMostOutputs = 128256;
constexpr int32_t kLayers = 16, kHeads = 32, kKvHeads = 8, kHeadDim = 64, kPageSize = 16;
constexpr int64_t kQkv = (kHeads + 2 * kKvHeads) * kHeadDim;
constexpr int64_t kLayerWeights = kHidden * (kQkv + kHidden + 3 * kInner), kHeadWeights = kHidden * kMostOutputs;
constexpr int32_t kBf16Pages = 2;

constexpr const Type& head_of(const Type& type) { return type.block_cols == 1 ? type : kQ8; }

// The beginning of every matrix's bytes, made once. Codes are random, factors small and finite; floats have an exponent that is none of a subnormal number.
const std::vector<uint8_t>& source_of(const Type& type, int64_t bytes) {
  static std::map<std::string, std::vector<uint8_t>> sources;
  std::vector<uint8_t>& source = sources[type.name];
  if (static_cast<int64_t>(source.size()) >= bytes) return source;
  source.resize(static_cast<size_t>(bytes));
  uint32_t state = 1;
  for (uint8_t& byte : source) byte = static_cast<uint8_t>((state = state * 1664525u + 1013904223u) >> 24 & 0x2f);
  for (size_t i = 1; type.block_cols == 1 && i < source.size(); i += 2) source[i] = 0x3c;
  return source;
}

enum Op { kNorm, kQkvProduct, kAppend, kAttention, kOutProduct, kGated, kDown, kHead, kNumOps };
constexpr const char* kOpNames[kNumOps] = {"norms", "qkv", "append", "attention", "out", "gated", "down", "head"};

// One token of each row behind `keys` others: the block of src/step.h.
std::vector<int32_t> step_block(int32_t rows, int32_t keys) {
  const int32_t pages = keys / kPageSize + 1;
  std::vector<int32_t> block = {rows, rows, rows, kPageSize, 1, 1};
  const auto put = [&](int32_t count, auto value) {
    for (int32_t i = 0; i < count; i++) block.push_back(value(i));
  };
  const auto all = [&](int32_t value) { put(rows, [=](int32_t) { return value; }); };
  put(rows, [](int32_t i) { return i; });
  all(keys);
  all(keys + 1);
  all(0);
  put(rows + 1, [](int32_t i) { return i; });
  all(0);
  put(rows, [](int32_t i) { return i; });
  block.push_back(rows * pages);
  put(rows, [=](int32_t i) { return i * pages * kPageSize + keys; });
  put(rows + 1, [=](int32_t i) { return i * pages; });
  put(rows * pages, [](int32_t i) { return i; });
  for (const int32_t number : {0, 0, 0, kHeads / kKvHeads, 16, 256, rows, 0, 0}) block.push_back(number);
  put(rows, [](int32_t i) { return i; });
  all(0);
  all(0);
  all(keys + 1);
  all(-1);
  all(1);
  return block;
}

// Numbers in huge pages, each of them written.
struct Numbers {
  const int64_t count;
  float* data;
  explicit Numbers(int64_t size) : count(size), data(static_cast<float*>(std::aligned_alloc(kHugePage, bytes()))) {
    madvise(data, bytes(), MADV_HUGEPAGE);
    std::fill(data, data + count, 1.0f);
  }
  ~Numbers() { std::free(data); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

 private:
  static constexpr size_t kHugePage = 2 << 20;
  size_t bytes() const { return (static_cast<size_t>(count) * sizeof(float) + kHugePage - 1) / kHugePage * kHugePage; }
};

class Model {
 public:
  Model(const Library& library, const Type& type, int32_t threads, int32_t rows, int32_t keys)
      : library_(library), rows_(rows), keys_(keys), norm_(kHidden, 1.0f), cos_(static_cast<size_t>(rows) * kHeadDim / 2, 0.6f),
        sin_(cos_.size(), 0.8f) {
    const char* isa = std::getenv("TURNS_ISA");
    uint64_t handle = 0;
    CHECKED(library_, pg_context_create, threads, isa == nullptr ? 4 : std::atoi(isa), &handle);
    context_ = reinterpret_cast<void*>(handle);
    CHECKED(library_, pg_reserve_activations, context_, rows, kInner);
    for (int layer = 0; layer < kLayers; layer++) {
      add(type, kQkv, kHidden);
      add(type, kHidden, kHidden);
      add(type, 2 * kInner, kHidden);
      add(type, kHidden, kInner);
    }
    add(head_of(type), kMostOutputs, kHidden);
    can_gate_ = dlsym(library_.handle, "pg_gated_matmul") != nullptr;
    if (keys == 0) return;
    CHECKED(library_, pg_kv_pool_create, context_, rows * (keys / kPageSize + 1), kPageSize, kLayers, kKvHeads, kHeadDim, kHeadDim, 0, kBf16Pages, &handle);
    pool_ = reinterpret_cast<void*>(handle);
    CHECKED(library_, pg_step_create, context_, &handle);
    step_ = reinterpret_cast<void*>(handle);
    // Every page is written once, as a server's are.
    for (int32_t key = 0; key <= keys; key++) {
      stage(key);
      std::vector<float> heads(static_cast<size_t>(rows * kQkv), 0.01f * static_cast<float>(key % 7));
      for (int32_t layer = 0; layer < kLayers; layer++) append(heads.data(), layer);
    }
  }
  ~Model() {
    for (void* matrix : matrices_) CALL(library_, pg_weight_free, context_, matrix);
    if (step_ != nullptr) CALL(library_, pg_step_free, step_);
    if (pool_ != nullptr) CALL(library_, pg_kv_pool_free, pool_);
    CALL(library_, pg_context_free, context_);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  struct Room {
    std::vector<float> x, normed, qkv, heads, wide, logits;
    explicit Room(int32_t rows) {
      std::mt19937 random(1);
      for (std::vector<float>* tensor : {&x, &normed, &heads}) tensor->resize(static_cast<size_t>(rows * kHidden));
      qkv.resize(static_cast<size_t>(rows * kQkv));
      wide.resize(static_cast<size_t>(rows * 3 * kInner));
      logits.resize(static_cast<size_t>(rows * kMostOutputs));
      for (float& value : x) value = static_cast<float>(random() >> 8) / (1 << 23) - 1;
    }
  };

  // Seconds to read numbers, and nothing else.
  double read(float* numbers, int64_t count) const {
    const double start = now();
    double bytes = 0;
    CHECKED(library_, pg_run_peak, context_, 2, numbers, count, &bytes);
    return now() - start;
  }

  // Seconds of a step; `ops` gets what each kind of op took.
  double step(Room& room, double (&ops)[kNumOps]) {
    std::fill(ops, ops + kNumOps, 0.0);
    const double start = now();
    double before = start;
    const auto did = [&](Op op) {
      const double after = now();
      ops[op] += after - before;
      before = after;
    };
    float *gated = room.wide.data(), *halves = gated + rows_ * kInner;
    void* const* next = matrices_.data();
    for (int32_t layer = 0; layer < kLayers; layer++) {
      norm(room);
      did(kNorm);
      multiply(*next++, room.qkv.data(), kQkv, room.normed.data(), kHidden);
      did(kQkvProduct);
      if (keys_ > 0) {
        append(room.qkv.data(), layer);
        did(kAppend);
        CHECKED(library_, pg_attention, context_, room.heads.data(), kHidden, room.qkv.data(), kQkv, step_, 0, 0, pool_, layer, kHeads, 0.125f, 0.0f, nullptr);
        did(kAttention);
      }
      multiply(*next++, room.normed.data(), kHidden, room.heads.data(), kHidden);
      did(kOutProduct);
      norm(room);
      did(kNorm);
      void* gate_up = *next++;
      if (can_gate_) {
        CHECKED(library_, pg_gated_matmul, context_, gated, kInner, room.normed.data(), kHidden, gate_up, rows_, 0, nullptr, 0);
      } else {
        multiply(gate_up, halves, 2 * kInner, room.normed.data(), kHidden);
        CHECKED(library_, pg_gated_activation, context_, gated, kInner, halves, 2 * kInner, halves + kInner, 2 * kInner, 0, rows_, kInner);
      }
      did(kGated);
      multiply(*next++, room.normed.data(), kHidden, gated, kInner);
      did(kDown);
    }
    multiply(*next, room.logits.data(), kMostOutputs, room.normed.data(), kHidden);
    did(kHead);
    return before - start;
  }

 private:
  // Of the same x every time: steps are alike.
  void norm(Room& room) const {
    CHECKED(library_, pg_rms_norm, context_, room.normed.data(), kHidden, room.x.data(), kHidden, norm_.data(), kHidden, 1e-5f, rows_, kHidden, kHidden);
  }
  void multiply(const void* matrix, float* out, int64_t out_stride, const float* x, int64_t x_stride) const {
    CHECKED(library_, pg_matmul, context_, out, out_stride, x, x_stride, matrix, rows_, nullptr, 1.0f, 0);
  }
  void append(float* qkv, int32_t layer) const {
    float *k = qkv + kHeads * kHeadDim, *v = k + kKvHeads * kHeadDim;
    CHECKED(library_, pg_rotary_append, context_, qkv, kQkv, kHeads, k, kQkv, v, kQkv, cos_.data(), sin_.data(), kHeadDim / 2, 0, step_, 0, pool_, layer);
  }
  void stage(int32_t key) const {
    std::vector<int32_t> block = step_block(rows_, keys_);
    for (int32_t row = 0; row < rows_; row++) {
      // Only the slots matter to appending.
      int32_t& slot = block[static_cast<size_t>(6 + 4 * rows_ + (rows_ + 1) + 2 * rows_ + 1 + row)];
      slot = slot - keys_ + key;
    }
    uint64_t address = 0;
    CHECKED(library_, pg_step_reserve, context_, step_, static_cast<int64_t>(block.size()), &address);
    std::memcpy(reinterpret_cast<void*>(address), block.data(), block.size() * sizeof(int32_t));
    CHECKED(library_, pg_step_stage, context_, step_, static_cast<int64_t>(block.size()));
  }

  void add(const Type& type, int64_t rows, int64_t cols) {
    static constexpr int64_t kPart = 16384;
    const std::vector<uint8_t>& source = source_of(type, std::min(rows, kPart) * cols / type.block_cols * type.block_bytes);
    uint64_t handle = 0;
    CHECKED(library_, pg_weight_create, context_, cols, &handle);
    void* weight = reinterpret_cast<void*>(handle);
    for (int64_t left = rows; left > 0; left -= kPart) {
      const int64_t part = std::min(left, kPart);
      CHECKED(library_, pg_weight_append, context_, weight, type.dtype, -1, part, 0, source.data(), part * cols / type.block_cols * type.block_bytes);
    }
    CHECKED(library_, pg_weight_only_multiplied, context_, weight);
    matrices_.push_back(weight);
  }

  const Library& library_;
  const int32_t rows_, keys_;
  const std::vector<float> norm_, cos_, sin_;
  bool can_gate_ = false;
  void* context_ = nullptr;
  void* pool_ = nullptr;
  void* step_ = nullptr;
  std::vector<void*> matrices_;
};

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void compare(const std::vector<Library>& libraries, const Type& type, int32_t rows, int32_t threads, int32_t keys, int rounds) {
  std::vector<std::unique_ptr<Model>> models;
  for (const Library& library : libraries) models.push_back(std::make_unique<Model>(library, type, threads, rows, keys));
  Model::Room room(rows);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // weights become huge pages meanwhile
  std::mt19937 random(1);
  std::vector<size_t> order;
  for (size_t i = 0; i < models.size(); i++) order.push_back(i);
  std::vector<std::vector<double>> took(models.size());
  std::vector<double> reads;
  const double bytes = kLayers * static_cast<double>(kLayerWeights) * type.bytes + static_cast<double>(kHeadWeights) * head_of(type).bytes;
  const Numbers to_read(static_cast<int64_t>(bytes) / int64_t{sizeof(float)});
  std::vector<std::vector<double>> took_by_op(models.size() * kNumOps);
  for (int round = 0; round < rounds; round++) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      double ops[kNumOps];
      models[i]->step(room, ops);  // threads awake, the others' asleep
      took[i].push_back(models[i]->step(room, ops));
      for (int op = 0; op < kNumOps; op++) took_by_op[i * kNumOps + static_cast<size_t>(op)].push_back(ops[op]);
    }
    models[0]->read(to_read.data, to_read.count);
    reads.push_back(models[0]->read(to_read.data, to_read.count));
  }
  std::printf("%-5s %4d rows %2d threads:", type.name, rows, threads);
  for (size_t i = 0; i < models.size(); i++) {
    std::vector<double> ratios;
    for (size_t round = 0; round < took[i].size(); round++) ratios.push_back(took[0][round] / took[i][round]);
    std::printf("  %s %.2f ms (%.2f) x %.3f", libraries[i].name.c_str(), middle(took[i]) * 1e3,
                *std::min_element(took[i].begin(), took[i].end()) * 1e3, middle(ratios));
  }
  std::printf("\n");
  for (size_t i = 0; i < models.size(); i++) {
    std::printf("  %-16s", libraries[i].name.c_str());
    for (int op = 0; op < kNumOps; op++) std::printf(" %s %.0f", kOpNames[op], middle(took_by_op[i * kNumOps + static_cast<size_t>(op)]) * 1e6);
    std::printf("\n");
  }
  std::printf("  %.2f GB read: %.2f ms (%.2f), %.0f GB/s\n", bytes * 1e-9, middle(reads) * 1e3, *std::min_element(reads.begin(), reads.end()) * 1e3,
              bytes * 1e-9 / middle(reads));
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** args) {
  std::vector<Library> libraries;
  int at = 2;
  for (; at < count && std::strcmp(args[at], "--") != 0; at++) libraries.emplace_back(args[at]);
  const int rounds = count > 1 ? std::atoi(args[1]) : 0;
  if (rounds < 1 || libraries.empty() || at + 1 >= count) stop("turns ROUNDS LIBRARY.so... -- TYPE:ROWS:THREADS[:KEYS]...");
  for (at++; at < count; at++) {
    char name[16] = "";
    int rows = 0, threads = 0, keys = 136;
    std::sscanf(args[at], "%15[^:]:%d:%d:%d", name, &rows, &threads, &keys);
    const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Type& t) { return std::strcmp(t.name, name) == 0; });
    if (type == std::end(kTypes) || rows < 1 || threads < 1 || keys < 0) stop(std::string(args[at]) + ": no TYPE:ROWS:THREADS[:KEYS]");
    compare(libraries, *type, rows, threads, keys, rounds);
  }
}
