// The matmul driver: packs activations, cuts the work, hands rectangles to the variant's kernels.
#include "matmul.h"

#include <algorithm>
#include <vector>

#include "context.h"
#include "memory.h"
#include "weight.h"

namespace pg {
namespace {

RowTiles tiles_of(const LayoutSpec& layout, int64_t n) {
  return {n, (n + layout.tile_rows - 1) / layout.tile_rows, layout.equal ? 0 : layout.tile_rows};
}

// Where each layout of n rows begins in the packed activations; the last entry is their end.
struct Places {
  int64_t offset[kNumLayouts + 1];
  Places(const Kernels& kernels, int64_t n, int64_t cols) {
    offset[0] = 0;
    for (int32_t i = 0; i < kNumLayouts; i++) {
      const LayoutSpec& layout = kernels.layouts[i];
      offset[i + 1] = offset[i] + (layout.tile_rows == 0 ? 0 : tiles_of(layout, n).count * layout.tile_bytes(cols));
    }
  }
};

const MatmulKernel& kernel_for(const Kernels& kernels, Encoding encoding, int64_t n) {
  const MatmulKernel& many = kernels.matmul_many[encoding];
  return many.run != nullptr && n >= kernels.many_rows ? many : kernels.matmul[encoding];
}

// Chunks per thread where a kernel of tiles has many rows: threads that share a core run at speeds that differ, so the last of few large
// chunks is waited for.
constexpr int64_t kChunksOfMany = 4;
constexpr int64_t kLargeX = 2 << 20;  // more than L2 keeps: read for two panels at least

// Panels per chunk of a weight that has `panels` of them: enough chunks for every thread to find work to the end, none so small that taking
// it costs more.
int64_t panels_per_chunk(const MatmulKernel& kernel, const Gemm& gemm, int64_t panels, int32_t threads) {
  const int64_t n = gemm.tiles.n;
  if (kernel.panels > 0 && n > 64) {
    const int64_t least = gemm.tiles.count * gemm.x_tile_bytes > kLargeX ? 2 : 1;
    return std::clamp<int64_t>(panels / (kChunksOfMany * threads), least, kernel.panels);
  }
  const int64_t by_balance = panels / (8 * threads);
  const int64_t by_size = (64 << 10) / (gemm.panel_bytes * (n < 16 ? 1 : n / 8)) + 1;
  const int64_t side_by_side = n == 1 ? 4 : 1;  // panels that a kernel may read in turns
  const int64_t wanted = std::min(std::max({by_balance, by_size, side_by_side}), panels / threads);
  return std::clamp<int64_t>(wanted, 1, 16);
}

// Packs x in one layout; on this thread alone when there is too little to be worth waking anyone. Few tiles are cut by columns too: a
// thread alone would keep all others waiting for x, which lies in their caches.
void pack_rows(Context* context, const LayoutSpec& layout, uint8_t* out, const float* x, int64_t x_stride, int64_t n, int64_t cols,
               bool all_fields) {
  const RowTiles tiles = tiles_of(layout, n);
  const int64_t tile_bytes = layout.tile_bytes(cols);
  const bool is_little = n * cols < (16 << 10);
  const int64_t groups = (cols + kPackCols - 1) / kPackCols;
  const int64_t parts = is_little ? 1 : std::min((2 * context->pool.size() + tiles.count - 1) / tiles.count, groups);
  const auto one = [&](int64_t chunk, int32_t) {
    const int64_t tile = chunk / parts, part = chunk % parts;
    const int64_t begin = part * groups / parts * kPackCols, end = part + 1 < parts ? (part + 1) * groups / parts * kPackCols : cols;
    layout.pack(out + tile * tile_bytes, {x + tiles.first(tile) * x_stride, x_stride, tiles.height(tile), cols, begin, end, all_fields});
  };
  if (is_little)
    for (int64_t tile = 0; tile < tiles.count; tile++) one(tile, 0);
  else
    parallel_for(context->pool, tiles.count * parts, one);
}

// The work of a segment: chunks of panels by bands of row tiles.
struct SegmentWork {
  const MatmulKernel* kernel;
  Gemm gemm;
  int64_t panels, columns, bands;
  int64_t first_chunk;  // among those of the segments that run together
  void run(int64_t chunk, uint8_t* scratch) const {
    const int64_t column = chunk / bands, band = chunk % bands;
    kernel->run(gemm, column * panels / columns, (column + 1) * panels / columns, band * gemm.tiles.count / bands,
                (band + 1) * gemm.tiles.count / bands, scratch);
  }
};

// Of the weight that comes next, by a worker that waits: a part of its L2, and more than memory gives between two matmuls. Where there are
// many rows, weights are not what is waited for.
constexpr int64_t kPrefetched = 256 << 10;
constexpr int64_t kPrefetchRows = 32;

// Segments of a weight that run together: nobody waits at the end of each.
struct Together {
  static constexpr int32_t kMost = 8;
  SegmentWork segments[kMost];
  int32_t count = 0;
  int64_t chunks = 0;
  void add(const MatmulKernel& kernel, const Gemm& gemm, const Segment& segment, int64_t panels_of_weight, int32_t threads) {
    const int64_t per_chunk = panels_per_chunk(kernel, gemm, kernel.panels == 0 ? segment.panels : panels_of_weight, threads);
    int64_t columns = (segment.panels + per_chunk - 1) / per_chunk;
    // As many for every thread, and none a panel larger than another: few chunks of few panels are uneven otherwise.
    if (kernel.panels == 0 && columns > threads) columns = std::min((columns + threads - 1) / threads * threads, segment.panels);
    // Too few panels for the threads: cut the rows of x as well.
    const int64_t wanted = (kernel.panels == 0 ? 4 : gemm.tiles.n > 64 ? kChunksOfMany : 1) * threads;
    const int64_t of_weight = (panels_of_weight + per_chunk - 1) / per_chunk;
    const int64_t bands = std::min(of_weight >= wanted ? 1 : (wanted + of_weight - 1) / of_weight, gemm.tiles.count);
    segments[count++] = {&kernel, gemm, segment.panels, columns, bands, chunks};
    chunks += columns * bands;
  }
  // The panels that a worker begins with, as many as it may prefetch.
  Ahead first_panels(int32_t worker, int32_t threads) const {
    const int64_t begin = chunks * worker / threads, end = chunks * (worker + 1) / threads;
    if (begin == end) return {};
    const SegmentWork* work = segments + count - 1;
    while (begin < work->first_chunk) work--;
    const int64_t first = (begin - work->first_chunk) / work->bands * work->panels / work->columns;
    const int64_t last = std::min((end - work->first_chunk) / work->bands * work->panels / work->columns, work->panels);
    const uint8_t* at = work->gemm.panels + first * work->gemm.panel_bytes;
    return {at, at + std::min((last - first) * work->gemm.panel_bytes, kPrefetched)};
  }
  void run(Context* context) {
    parallel_for(context->pool, chunks, [&](int64_t chunk, int32_t worker) {
      const SegmentWork* work = segments + count - 1;
      while (chunk < work->first_chunk) work--;
      work->run(chunk - work->first_chunk, context->matmul_scratch.data() + worker * context->matmul_scratch_bytes);
    });
    count = 0;
    chunks = 0;
  }
};

// Tells the weight that was multiplied before this one what comes after it, and the workers what will probably come after this one.
void look_ahead(Context* context, const Weight& weight, int64_t n, const Together& work) {
  const int32_t threads = context->pool.size();
  const auto panels_of = [&](const Weight& w) { return std::min(static_cast<int32_t>(w.following.panels.size()), threads); };
  const Weight* before = context->last_multiplied;
  context->last_multiplied = &weight;
  if (before != nullptr && (before->following.weight != &weight || before->following.n != n)) {
    before->following.weight = &weight;
    before->following.n = n;
    for (int32_t worker = 1; worker < panels_of(*before); worker++)
      before->following.panels[static_cast<size_t>(worker)] = n > kPrefetchRows ? Ahead() : work.first_panels(worker, threads);
  }
  if (n > kPrefetchRows) return;
  for (int32_t worker = 1; worker < panels_of(weight); worker++)
    context->pool.expect(worker, weight.following.panels[static_cast<size_t>(worker)]);
}

}  // namespace
}  // namespace pg

using namespace pg;

extern "C" {

int32_t pg_reserve_activations(void* handle, int64_t rows, int64_t cols) {
  Context* context = as_context(handle);
  if (rows < 0 || cols < 0) return fail(context, PG_E_ARGUMENT, "sizes must not be negative");
  const Kernels& kernels = *context->kernels;
  if (kernels.matmul_scratch_bytes != nullptr) {
    const int64_t each = kernels.matmul_scratch_bytes(cols);
    if (!context->matmul_scratch.reserve(each * context->pool.size()))
      return fail(context, PG_E_MEMORY, "the system refused %lld bytes", (long long)(each * context->pool.size()));
    if (each > context->matmul_scratch_bytes) context->matmul_scratch_bytes = each;
  }
  const int64_t bytes = Places(kernels, rows, cols).offset[kNumLayouts];
  if (bytes <= context->activation_bytes) return PG_OK;
  void* block = allocate(bytes);
  if (block == nullptr) return fail(context, PG_E_MEMORY, "the system refused %lld bytes", (long long)bytes);
  release(context->activations, context->activation_bytes);
  context->activations = block;
  context->activation_bytes = bytes;
  return PG_OK;
}

int32_t pg_matmul(void* handle, float* out, int64_t out_stride, const float* x, int64_t x_stride, const void* weight_handle,
                  int64_t n, const float* bias, float scale, int32_t accumulate) {
  Context* context = as_context(handle);
  const Weight& weight = *static_cast<const Weight*>(weight_handle);
  if (n == 0) return PG_OK;
  if (n < 0 || out_stride < weight.rows || x_stride < weight.cols)
    return fail(context, PG_E_ARGUMENT, "matmul: n %lld, strides %lld and %lld do not fit [%lld, %lld]", (long long)n,
                (long long)out_stride, (long long)x_stride, (long long)weight.rows, (long long)weight.cols);
  for (const Segment& segment : weight.segments)
    if (segment.file != nullptr) return fail(context, PG_E_ARGUMENT, "matmul: a table in a file is only looked up");
  const Kernels& kernels = *context->kernels;
  const Places places(kernels, n, weight.cols);
  if (places.offset[kNumLayouts] > context->activation_bytes)
    return fail(context, PG_E_ARGUMENT, "matmul: no room reserved for %lld x %lld activations", (long long)n,
                (long long)weight.cols);
  uint8_t* activations = static_cast<uint8_t*>(context->activations);
  bool all_fields = false;
  int64_t panels = 0;
  for (const Segment& segment : weight.segments) {
    panels += segment.panels;
    const EncodingSpec spec = spec_of(segment.encoding);
    if (spec.scale == Factor::kSuper16 || spec.minimum != Factor::kNone) all_fields = true;
  }
  bool is_packed[kNumLayouts] = {};
  Together together;
  for (const Segment& segment : weight.segments) {
    const MatmulKernel& kernel = kernel_for(kernels, segment.encoding, n);
    if (kernel.run == nullptr) return fail(context, PG_E_UNSUPPORTED, "matmul: the weight has a form that this instruction set does not have");
    const LayoutSpec& layout = kernels.layouts[kernel.layout];
    uint8_t* packed = activations + places.offset[kernel.layout];
    if (!is_packed[kernel.layout]) pack_rows(context, layout, packed, x, x_stride, n, weight.cols, all_fields);
    is_packed[kernel.layout] = true;
    Gemm gemm;
    gemm.out = out + segment.first_row;
    gemm.out_stride = out_stride;
    gemm.bias = bias == nullptr ? nullptr : bias + segment.first_row;
    gemm.scale = scale;
    gemm.accumulate = accumulate;
    gemm.panels = segment.data;
    gemm.panel_bytes = segment.panel_bytes;
    gemm.rows = segment.rows;
    gemm.cols = weight.cols;
    gemm.tiles = tiles_of(layout, n);
    gemm.x = packed;
    gemm.x_tile_bytes = layout.tile_bytes(weight.cols);
    if (together.count == Together::kMost) together.run(context);
    together.add(kernel, gemm, segment, panels, context->pool.size());
  }
  look_ahead(context, weight, n, together);
  together.run(context);
  return PG_OK;
}

}  // extern "C"
