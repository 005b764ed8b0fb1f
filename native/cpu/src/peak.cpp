// What the machine can do at best. pg_run_peak: one short run on all threads, for whoever times it beside other work. pg_measure_peak: the best
// of several, so that a busy machine is measured in its quiet moments.
#if __has_include(<unistd.h>)
#include <unistd.h>
#endif

#include <algorithm>
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

// More than the caches hold: 256 MiB, or up to 1 GiB where the last cache says that it is larger (300 MiB on some servers).
int64_t bytes_beyond_caches() {
  int64_t cache = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
  cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  return std::min(int64_t{1} << 30, std::max(int64_t{256} << 20, 4 * cache));
}

template <class Body>
double seconds_of(Body body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class Body>
double best_rate(int32_t runs, Body body) {
  double best = 0;
  for (int32_t i = 0; i < runs; i++) {
    int64_t work = 0;
    const double seconds = seconds_of([&] { work = body(); });
    best = std::max(best, static_cast<double>(work) / seconds);
  }
  return best;
}

// Bytes read per second. Windows that are each long out of cache when their turn comes again, each at its quietest; all of them
// count, since a large cache may keep some.
int32_t measure_memory(Context* context, double* out) {
  const int64_t bytes = bytes_beyond_caches();
  float* data = static_cast<float*>(allocate(bytes));
  if (data == nullptr) return fail(context, PG_E_MEMORY, "the system refused %lld bytes", (long long)bytes);
  parallel_for(context->pool, bytes >> 20, [&](int64_t mebibyte, int32_t) {  // real pages, not the shared zero page
    for (int64_t k = 0; k < 1 << 18; k += 16) data[(mebibyte << 18) + k] = 1.0f;
  });
  constexpr int32_t kWindows = 16, kTurns = 4;
  const int64_t count = bytes / 4 / kWindows;
  double best[kWindows], seconds = 0;
  int64_t work = 0;
  for (int32_t run = 0; run < kTurns * kWindows; run++) {
    const int32_t window = run % kWindows;
    const double took = seconds_of([&] { work = move(context, data + window * count, count, false); });
    best[window] = run < kWindows ? took : std::min(best[window], took);
  }
  for (double one : best) seconds += one;
  *out = static_cast<double>(kWindows * work) / seconds;
  release(data, bytes);
  return PG_OK;
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
    case 0: *out = best_rate(30, [&] { return compute(context, context->kernels->peak_float); }); return PG_OK;
    case 1: *out = best_rate(30, [&] { return compute(context, context->kernels->peak_int); }); return PG_OK;
    case 2: return measure_memory(context, out);
    default: return fail(context, PG_E_ARGUMENT, "peak %d is not known", kind);
  }
}
