// Runs every native test on every instruction set of this processor; built with sanitizers by
//   node scripts/build-native.mjs --test
#include <string>

#include "check.h"

std::vector<Test>& all_tests() {
  static std::vector<Test> tests;
  return tests;
}

int main() {
  // As in pg_context_create; 101: the kernels of avx512 for many rows that this processor does not take.
  for (const int32_t isa : {1, 2, 10, 3, 101, 4, 11, 5, 6, 7}) {
    uint64_t handle = 0;
    const int32_t status = pg_context_create(2, isa, &handle);
    if (status == PG_E_UNSUPPORTED) continue;
    CHECK(status == PG_OK);
    void* context = reinterpret_cast<void*>(handle);
    for (const Test& test : all_tests()) {
      if (isa == 101 && std::string(test.name) != "rows_do_not_depend_on_each_other") continue;  // nothing else is other there
      test.run(context);
      std::printf("ok %d %s\n", isa, test.name);
    }
    CHECK(pg_context_free(context) == PG_OK);
  }
}
