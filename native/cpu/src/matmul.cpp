// The matmul driver: packs activations, cuts the work, hands rectangles to the variant's kernels. And the row lookup of embed.
#include "matmul.h"

#include "context.h"
#include "memory.h"
#include "unpack.h"
#include "weight.h"

namespace pg {
namespace {

int64_t packed_bytes(int64_t rows, int64_t cols) { return rows * (cols + 1) * static_cast<int64_t>(sizeof(float)); }

RowTiles tiles_of(int64_t n, int64_t most) { return {n, (n + most - 1) / most}; }

// Panels in pairs per chunk: enough chunks for every thread to find work to the end, none so small that taking it costs more.
int64_t pairs_per_chunk(int64_t pairs, int64_t pair_bytes, int64_t n, int32_t threads) {
  const int64_t by_balance = pairs / (8 * threads);
  const int64_t by_size = (64 << 10) / (pair_bytes * (n < 16 ? 1 : n / 8)) + 1;
  const int64_t wanted = by_balance < by_size ? (by_size < pairs / threads ? by_size : pairs / threads) : by_balance;
  return wanted < 1 ? 1 : wanted > 16 ? 16 : wanted;
}

void run_segment(Context* context, const Gemm& gemm, const Segment& segment) {
  const GemmFn kernel = context->kernels->gemm[segment.encoding];
  const int64_t pairs = segment.panels / 2;
  const int64_t per_chunk = pairs_per_chunk(pairs, 2 * segment.panel_bytes, gemm.tiles.n, context->pool.size());
  const int64_t columns = (pairs + per_chunk - 1) / per_chunk;
  // Too few panels for the threads: cut the rows of x as well.
  const int64_t wanted = 4 * context->pool.size();
  int64_t bands = columns >= wanted ? 1 : (wanted + columns - 1) / columns;
  if (bands > gemm.tiles.count) bands = gemm.tiles.count;
  parallel_for(context->pool, columns * bands, [&](int64_t chunk, int32_t) {
    const int64_t column = chunk / bands, band = chunk % bands;
    const int64_t end = (column + 1) * per_chunk < pairs ? (column + 1) * per_chunk : pairs;
    kernel(gemm, 2 * column * per_chunk, 2 * end, band * gemm.tiles.count / bands, (band + 1) * gemm.tiles.count / bands);
  });
}

}  // namespace
}  // namespace pg

using namespace pg;

extern "C" {

int32_t pg_reserve_activations(void* handle, int64_t rows, int64_t cols) {
  Context* context = as_context(handle);
  if (rows < 0 || cols < 0) return fail(context, PG_E_ARGUMENT, "sizes must not be negative");
  const int64_t bytes = packed_bytes(rows, cols);
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
  if (packed_bytes(n, weight.cols) > context->activation_bytes)
    return fail(context, PG_E_ARGUMENT, "matmul: no room reserved for %lld x %lld activations", (long long)n,
                (long long)weight.cols);
  const Kernels& kernels = *context->kernels;
  const RowTiles tiles = tiles_of(n, kernels.float_tile_rows);
  float* packed = static_cast<float*>(context->activations);
  const auto pack = [&](int64_t tile, int32_t) {
    const int64_t row = tiles.first(tile);
    kernels.pack_float(packed + row * weight.cols, x + row * x_stride, x_stride, tiles.first(tile + 1) - row, weight.cols);
  };
  if (n * weight.cols < (16 << 10))  // too little to be worth waking anyone
    for (int64_t tile = 0; tile < tiles.count; tile++) pack(tile, 0);
  else
    parallel_for(context->pool, tiles.count, pack);
  for (const Segment& segment : weight.segments) {
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
    gemm.tiles = tiles;
    gemm.x = packed;
    run_segment(context, gemm, segment);
  }
  return PG_OK;
}

int32_t pg_embed(void* handle, float* out, int64_t out_stride, const void* weight_handle, const int32_t* ids, int64_t count,
                 float scale, int32_t accumulate) {
  Context* context = as_context(handle);
  const Weight& weight = *static_cast<const Weight*>(weight_handle);
  if (count < 0 || out_stride < weight.cols) return fail(context, PG_E_ARGUMENT, "embed: the output is too narrow");
  for (int64_t t = 0; t < count; t++)
    if (ids[t] < 0 || ids[t] >= weight.rows)
      return fail(context, PG_E_ARGUMENT, "embed: id %d is outside the table of %lld rows", ids[t], (long long)weight.rows);
  const auto lookup = [&](int64_t t, int32_t) {
    unpack_row(out + t * out_stride, weight, ids[t], scale, accumulate != 0);
  };
  if (count < 8)
    for (int64_t t = 0; t < count; t++) lookup(t, 0);
  else
    parallel_for(context->pool, count, lookup);
  return PG_OK;
}

}  // extern "C"
