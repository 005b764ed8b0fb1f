// The context handle behind pg_context_create: pool, instruction set, scratch and the text of the last failure.
#pragma once
#include <cstdarg>
#include <cstdint>

#include "../include/pagoda_cpu.h"
#include "arena.h"
#include "kernels.h"
#include "pool.h"
#include "scratch.h"

namespace pg {

struct Weight;

struct Context {
  Context(int32_t threads, const Kernels* table) : kernels(table), pool(threads) {}
  ~Context() { release(activations, activation_bytes); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Kernels* kernels;
  Pool pool;
  Arena weights;
  // Packed activations of the matmul in progress; grown by pg_reserve_activations only.
  void* activations = nullptr;
  int64_t activation_bytes = 0;
  Scratch matmul_scratch;  // of every worker, matmul_scratch_bytes each
  int64_t matmul_scratch_bytes = 0;
  Scratch gate_rooms;  // of every worker, gate_room_bytes each: gates and what they gate
  int64_t gate_room_bytes = 0;
  Scratch low_rank_room;  // what adapters shrink x to in a call
  const Weight* last_multiplied = nullptr;  // null again when it is freed
  // Attention: tiles of every worker, and the partial states of split items.
  Scratch attention_scratch;
  Scratch attention_partials;
  // Sampling: block sums, candidates and an edited row of every worker; occurrences of each token, zero between calls.
  Scratch sample_scratch;
  Scratch sample_counts;
  char error[256] = "";
};

// Records the text and returns the status, so that a failing function is `return fail(context, PG_E_X, "...")`.
int32_t fail(Context* context, int32_t status, const char* format, ...) __attribute__((format(printf, 3, 4)));

// The body of a call that may run out of memory: nothing throws through the C border.
template <typename Body>
int32_t guarded(Context* context, const char* what, Body&& body) {
  try {
    return body();
  } catch (...) {
    return fail(context, PG_E_MEMORY, "%s: no memory", what);
  }
}

inline Context* as_context(void* handle) { return static_cast<Context*>(handle); }

}  // namespace pg
