// What the machine can do at best. pg_run_peak: one short run on all threads, for whoever times it beside other work. pg_measure_peak: the best
// of several, so that a busy machine is measured in its quiet moments.
#include <chrono>

#include "context.h"
#include "memory.h"

using namespace pg;

namespace {

// One short run on all threads: operations done.
int64_t compute(Context* context, int64_t (*loop)(int64_t, float*)) {
  const int64_t chunks = 16 * context->pool.size(), rounds = 4000;
  std::atomic<int64_t> done{0};
  parallel_for(context->pool, chunks, [&](int64_t, int32_t) {
    float sink = 0;
    done.fetch_add(loop(rounds, &sink));
  });
  return done.load();
}

// Bytes moved: every number read, and written back where it lies.
int64_t move(Context* context, float* data, int64_t count, bool writes) {
  const int64_t chunks = 8 * context->pool.size(), each = count / chunks;
  parallel_for(context->pool, chunks, [&](int64_t chunk, int32_t) {
    float zero = 0;
    if (writes) context->kernels->peak_update(data + chunk * each, each, &zero);
    else context->kernels->peak_read(data + chunk * each, each, &zero);
  });
  return chunks * each * (writes ? 8 : 4);
}

template <class Body>
double best_rate(int32_t runs, Body body) {
  double best = 0;
  for (int32_t i = 0; i < runs; i++) {
    const auto start = std::chrono::steady_clock::now();
    const int64_t work = body(i);
    const double rate = static_cast<double>(work) / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (rate > best) best = rate;
  }
  return best;
}

}  // namespace

extern "C" int32_t pg_run_peak(void* handle, int32_t kind, float* data, int64_t count, double* work) {
  Context* context = as_context(handle);
  if (work == nullptr) return fail(context, PG_E_ARGUMENT, "no place for the result");
  if (kind < 0 || kind > 3) return fail(context, PG_E_ARGUMENT, "peak %d is not known", kind);
  const int64_t done = kind == 0   ? compute(context, context->kernels->peak_float)
                       : kind == 1 ? compute(context, context->kernels->peak_int)
                                   : move(context, data, count, kind == 3);
  *work = static_cast<double>(done);
  return PG_OK;
}

extern "C" int32_t pg_measure_peak(void* handle, int32_t kind, double* out) {
  Context* context = as_context(handle);
  if (out == nullptr) return fail(context, PG_E_ARGUMENT, "no place for the result");
  switch (kind) {
    case 0: *out = best_rate(30, [&](int32_t) { return compute(context, context->kernels->peak_float); }); return PG_OK;
    case 1: *out = best_rate(30, [&](int32_t) { return compute(context, context->kernels->peak_int); }); return PG_OK;
    case 2: {
      const int64_t bytes = int64_t{256} << 20;  // several times the largest cache
      float* data = static_cast<float*>(allocate(bytes));
      if (data == nullptr) return fail(context, PG_E_MEMORY, "the system refused %lld bytes", (long long)bytes);
      for (int64_t k = 0; k < bytes / 4; k += 16) data[k] = 1.0f;  // real pages, not the shared zero page
      // Windows that are each long out of cache when their turn comes again.
      constexpr int32_t kWindows = 16;
      const int64_t count = bytes / 4 / kWindows;
      *out = best_rate(4 * kWindows, [&](int32_t run) { return move(context, data + run % kWindows * count, count, false); });
      release(data, bytes);
      return PG_OK;
    }
    default: return fail(context, PG_E_ARGUMENT, "peak %d is not known", kind);
  }
}
