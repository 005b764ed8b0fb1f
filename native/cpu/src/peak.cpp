// pg_measure_peak: the best of several short runs on all threads, so that a busy machine is measured in its quiet moments.
#include <chrono>

#include "context.h"
#include "memory.h"

using namespace pg;

namespace {

template <class Body>
double seconds(Body body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class Body>
double best_of(int32_t runs, Body body) {
  double best = 1e9;
  for (int32_t i = 0; i < runs; i++) {
    const double took = seconds(body);
    if (took < best) best = took;
  }
  return best;
}

double compute_rate(Context* context, int64_t (*loop)(int64_t, float*)) {
  const int64_t chunks = 16 * context->pool.size(), rounds = 4000;
  std::atomic<int64_t> done{0};
  const double took = best_of(30, [&] {
    done.store(0);
    parallel_for(context->pool, chunks, [&](int64_t, int32_t) {
      float sink = 0;
      done.fetch_add(loop(rounds, &sink));
    });
  });
  return static_cast<double>(done.load()) / took;
}

// Best of many windows, each long out of cache when its turn comes again: a short window finds a quiet moment.
double read_rate(Context* context, const float* data, int64_t bytes) {
  const int64_t windows = 16, chunks = 8 * context->pool.size(), count = bytes / windows / chunks / 4;
  int64_t window = 0;
  const double took = best_of(4 * windows, [&] {
    const float* from = data + window++ % windows * chunks * count;
    parallel_for(context->pool, chunks, [&](int64_t chunk, int32_t) {
      float sink = 0;
      context->kernels->peak_read(from + chunk * count, count, &sink);
    });
  });
  return static_cast<double>(chunks * count * 4) / took;
}

}  // namespace

extern "C" int32_t pg_measure_peak(void* handle, int32_t kind, double* out) {
  Context* context = as_context(handle);
  if (out == nullptr) return fail(context, PG_E_ARGUMENT, "no place for the result");
  switch (kind) {
    case 0: *out = compute_rate(context, context->kernels->peak_float); return PG_OK;
    case 1: *out = compute_rate(context, context->kernels->peak_int); return PG_OK;
    case 2: {
      const int64_t bytes = int64_t{256} << 20;  // several times the largest cache
      float* data = static_cast<float*>(allocate(bytes));
      if (data == nullptr) return fail(context, PG_E_MEMORY, "the system refused %lld bytes", (long long)bytes);
      for (int64_t k = 0; k < bytes / 4; k += 16) data[k] = 1.0f;  // real pages, not the shared zero page
      *out = read_rate(context, data, bytes);
      release(data, bytes);
      return PG_OK;
    }
    default: return fail(context, PG_E_ARGUMENT, "peak %d is not known", kind);
  }
}
