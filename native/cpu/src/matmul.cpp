// The matmul driver: packs activations, cuts the work, hands rectangles to the variant's kernels.
#include "matmul.h"

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

// Panels per chunk: enough chunks for every thread to find work to the end, none so small that taking it costs more.
int64_t panels_per_chunk(const MatmulKernel& kernel, const Segment& segment, int64_t n, int32_t threads) {
  if (kernel.panels > 0 && n > 64) {
    const int64_t wanted = segment.panels / (2 * threads);
    return wanted < 1 ? 1 : wanted > kernel.panels ? kernel.panels : wanted;
  }
  const int64_t by_balance = segment.panels / (8 * threads);
  const int64_t by_size = (64 << 10) / (segment.panel_bytes * (n < 16 ? 1 : n / 8)) + 1;
  int64_t wanted = by_balance > by_size ? by_balance : by_size;
  if (wanted > segment.panels / threads) wanted = segment.panels / threads;
  return wanted < 1 ? 1 : wanted > 16 ? 16 : wanted;
}

// Packs x in one layout; on this thread alone when there is too little to be worth waking anyone.
void pack_rows(Context* context, const LayoutSpec& layout, uint8_t* out, const float* x, int64_t x_stride, int64_t n, int64_t cols,
               bool all_fields) {
  const RowTiles tiles = tiles_of(layout, n);
  const int64_t tile_bytes = layout.tile_bytes(cols);
  const auto one = [&](int64_t tile, int32_t) {
    layout.pack(out + tile * tile_bytes, x + tiles.first(tile) * x_stride, x_stride, tiles.height(tile), cols, all_fields);
  };
  if (n * cols < (16 << 10))
    for (int64_t tile = 0; tile < tiles.count; tile++) one(tile, 0);
  else
    parallel_for(context->pool, tiles.count, one);
}

void run_segment(Context* context, const MatmulKernel& kernel, const Gemm& gemm, const Segment& segment) {
  const int64_t per_chunk = panels_per_chunk(kernel, segment, gemm.tiles.n, context->pool.size());
  const int64_t columns = (segment.panels + per_chunk - 1) / per_chunk;
  // Too few panels for the threads: cut the rows of x as well.
  const int64_t wanted = (kernel.panels > 0 ? 1 : 4) * context->pool.size();
  int64_t bands = columns >= wanted ? 1 : (wanted + columns - 1) / columns;
  if (bands > gemm.tiles.count) bands = gemm.tiles.count;
  parallel_for(context->pool, columns * bands, [&](int64_t chunk, int32_t worker) {
    const int64_t column = chunk / bands, band = chunk % bands;
    const int64_t end = (column + 1) * per_chunk < segment.panels ? (column + 1) * per_chunk : segment.panels;
    kernel.run(gemm, column * per_chunk, end, band * gemm.tiles.count / bands, (band + 1) * gemm.tiles.count / bands,
        context->matmul_scratch.data() + worker * context->matmul_scratch_bytes);
  });
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
  for (const Segment& segment : weight.segments) {
    const EncodingSpec spec = spec_of(segment.encoding);
    if (spec.scale == Factor::kSuper16 || spec.minimum != Factor::kNone) all_fields = true;
  }
  bool is_packed[kNumLayouts] = {};
  for (const Segment& segment : weight.segments) {
    const MatmulKernel& kernel = kernel_for(kernels, segment.encoding, n);
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
    run_segment(context, kernel, gemm, segment);
  }
  return PG_OK;
}

}  // extern "C"
