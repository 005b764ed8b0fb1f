// A few lines of test harness for the sanitized native tests: TEST registers a function, main.cpp runs all of them once per
// instruction set this processor has. What matters here is that the sanitizers stay silent on exactly sized buffers; numbers are
// checked against plain double loops. The thorough comparison with the reference device is in the TypeScript tests.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../include/pagoda_cpu.h"

using TestFn = void (*)(void* context);
struct Test {
  const char* name;
  TestFn run;
};
std::vector<Test>& all_tests();
struct Register {
  Register(const char* name, TestFn run) { all_tests().push_back({name, run}); }
};

#define TEST(name)                                  \
  static void name(void* context);                  \
  static const Register register_##name(#name, name); \
  static void name([[maybe_unused]] void* context)

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);      \
      std::exit(1);                                                             \
    }                                                                           \
  } while (0)

inline void check_ok(void* context, int32_t status, const char* file, int line) {
  if (status == PG_OK) return;
  char text[256] = "";
  pg_last_error(context, text, sizeof text);
  std::fprintf(stderr, "%s:%d: status %d: %s\n", file, line, status, text);
  std::exit(1);
}
// amx and amx-fast.
inline bool has_tiles(const void* context) { return pg_isa(context) == 4 || pg_isa(context) == 11; }

#define CHECK_OK(call) check_ok(context, call, __FILE__, __LINE__)

// The same numbers every run.
class Random {
 public:
  explicit Random(uint32_t seed) : state_(seed * 2654435769u + 1) {}
  uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return state_;
  }
  int32_t below(int32_t limit) { return static_cast<int32_t>(next() % static_cast<uint32_t>(limit)); }
  float number() { return static_cast<float>(static_cast<int32_t>(next())) * 0x1p-31f; }
  std::vector<float> numbers(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = number();
    return values;
  }

 private:
  uint32_t state_;
};
