// What WebAssembly needs beside the interface: seats for the workers that the host starts, each an instance of this module over the
// same memory, and a heap that all of them may use. Host side: src/device/wasm/.
#ifdef __wasm__
#include <cstdlib>

#include "../include/pagoda_cpu.h"
#include "memory.h"
#include "threads.h"

namespace pg {
namespace {

enum : int32_t { kAbsent, kIdle, kBusy, kLeave };

struct Seat {
  std::atomic<int32_t> state{kAbsent};
  void (*run)(void*) = nullptr;
  void* body = nullptr;
};
constexpr int32_t kSeats = 256;
Seat seats[kSeats];

}  // namespace

std::atomic<int32_t> has_failed{0};

int32_t start_on_worker(void (*run)(void*), void* body) {
  for (int32_t i = 0; i < kSeats; i++) {
    if (seats[i].state.load() != kIdle) continue;
    seats[i].run = run;
    seats[i].body = body;
    seats[i].state.store(kBusy);
    wake(seats[i].state, 1);
    return i;
  }
  abort();  // the host asked for more threads than it started workers
}

void wait_for_worker(int32_t seat) {
  while (seats[seat].state.load() == kBusy) wait_while(seats[seat].state, kBusy);
}

}  // namespace pg

using namespace pg;

extern "C" {

// Called once, before anything else, by the first instance: global objects are in the memory that all share.
void __wasm_call_ctors();
PG_API void pg_wasm_start() { __wasm_call_ctors(); }

// Serves the seat until pg_wasm_leave.
PG_API void pg_wasm_serve(int32_t index) {
  Seat& seat = seats[index];
  seat.state.store(kIdle);
  for (;;) {
    while (seat.state.load() == kIdle) wait_while(seat.state, kIdle);
    if (seat.state.load() == kLeave) return;
    seat.run(seat.body);
    seat.state.store(kIdle);
    wake(seat.state, 1);
  }
}

// Whether the workers of the seats [0, count) wait for work: only then may a context have count + 1 threads.
PG_API int32_t pg_wasm_ready(int32_t count) {
  for (int32_t i = 0; i < count; i++)
    if (seats[i].state.load() != kIdle) return 0;
  return 1;
}

PG_API void pg_wasm_leave(int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    seats[i].state.store(kLeave);
    wake(seats[i].state, 1);
  }
}

// Called by the host of an instance that has trapped.
PG_API void pg_wasm_fail() { has_failed.store(1); }

// Memory for the host's own use, where a block may be larger than a signed number.
PG_API void* pg_wasm_allocate(uint32_t bytes) { return allocate(bytes); }
PG_API void pg_wasm_release(void* block, uint32_t bytes) { release(block, bytes); }

// Nobody catches anything here (-fignore-exceptions): the standard library throws for want of memory, and that ends the instance.
void* __cxa_allocate_exception(size_t) { abort(); }
void __cxa_throw(void*, void*, void (*)(void*)) { abort(); }

// The heap of the C library knows nothing of threads: the linker puts these before it (--wrap).
static Mutex heap;
void* __real_malloc(size_t bytes);
void __real_free(void* block);
void* __real_calloc(size_t count, size_t bytes);
void* __real_realloc(void* block, size_t bytes);
int __real_posix_memalign(void** out, size_t alignment, size_t bytes);
void* __wrap_malloc(size_t bytes) { const Lock lock(heap); return __real_malloc(bytes); }
void __wrap_free(void* block) { const Lock lock(heap); __real_free(block); }
void* __wrap_calloc(size_t count, size_t bytes) { const Lock lock(heap); return __real_calloc(count, bytes); }
void* __wrap_realloc(void* block, size_t bytes) { const Lock lock(heap); return __real_realloc(block, bytes); }
int __wrap_posix_memalign(void** out, size_t alignment, size_t bytes) {
  const Lock lock(heap);
  return __real_posix_memalign(out, alignment, bytes);
}

}  // extern "C"
#endif
