// The matmul driver: packs activations, cuts the work, hands rectangles to the variant's kernels.
#include "matmul.h"

#include "context.h"
#include "memory.h"
#include "weight.h"

namespace pg {
namespace {

constexpr int64_t kLine = 64;
int64_t rounded(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// Packed activations: float rows, then integer rows. Integer tiles are padded to the full height of a tile.
int64_t float_bytes(int64_t rows, int64_t cols) { return rounded(rows * cols * 4); }
int64_t int_tile_bytes(int64_t height, int64_t cols) {
  return rounded(blocks_of(cols) * height * (kBlockCols + 4 * kSideFields));
}
int64_t int_bytes(int64_t rows, int64_t cols, int64_t tile_rows) {
  return (rows + tile_rows - 1) / tile_rows * int_tile_bytes(tile_rows, cols);
}

RowTiles equal_tiles(int64_t n, int64_t most) { return {n, (n + most - 1) / most, 0}; }
RowTiles full_tiles(int64_t n, int64_t most) { return {n, (n + most - 1) / most, most}; }

// Panels per chunk: enough chunks for every thread to find work to the end, none so small that taking it costs more.
int64_t panels_per_chunk(const Segment& segment, int64_t n, int32_t threads) {
  const int64_t by_balance = segment.panels / (8 * threads);
  const int64_t by_size = (64 << 10) / (segment.panel_bytes * (n < 16 ? 1 : n / 8)) + 1;
  int64_t wanted = by_balance > by_size ? by_balance : by_size;
  if (wanted > segment.panels / threads) wanted = segment.panels / threads;
  return wanted < 1 ? 1 : wanted > 16 ? 16 : wanted;
}

// pack(first row, height, tile) for every tile; on this thread alone when there is too little to be worth waking anyone.
template <class Pack>
void pack_rows(Context* context, int64_t cols, const RowTiles& tiles, Pack pack) {
  const auto one = [&](int64_t tile, int32_t) { pack(tiles.first(tile), tiles.height(tile), tile); };
  if (tiles.n * cols < (16 << 10))
    for (int64_t tile = 0; tile < tiles.count; tile++) one(tile, 0);
  else
    parallel_for(context->pool, tiles.count, one);
}

void run_segment(Context* context, const Gemm& gemm, const Segment& segment) {
  const GemmFn kernel = context->kernels->gemm[segment.encoding];
  const int64_t per_chunk = panels_per_chunk(segment, gemm.tiles.n, context->pool.size());
  const int64_t columns = (segment.panels + per_chunk - 1) / per_chunk;
  // Too few panels for the threads: cut the rows of x as well.
  const int64_t wanted = 4 * context->pool.size();
  int64_t bands = columns >= wanted ? 1 : (wanted + columns - 1) / columns;
  if (bands > gemm.tiles.count) bands = gemm.tiles.count;
  parallel_for(context->pool, columns * bands, [&](int64_t chunk, int32_t) {
    const int64_t column = chunk / bands, band = chunk % bands;
    const int64_t end = (column + 1) * per_chunk < segment.panels ? (column + 1) * per_chunk : segment.panels;
    kernel(gemm, column * per_chunk, end, band * gemm.tiles.count / bands, (band + 1) * gemm.tiles.count / bands);
  });
}

}  // namespace
}  // namespace pg

using namespace pg;

extern "C" {

int32_t pg_reserve_activations(void* handle, int64_t rows, int64_t cols) {
  Context* context = as_context(handle);
  if (rows < 0 || cols < 0) return fail(context, PG_E_ARGUMENT, "sizes must not be negative");
  const int64_t bytes = float_bytes(rows, cols) + int_bytes(rows, cols, context->kernels->int_tile_rows);
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
  const Kernels& kernels = *context->kernels;
  bool has_float = false, has_int = false, all_fields = false;
  for (const Segment& segment : weight.segments) {
    const EncodingSpec spec = spec_of(segment.encoding);
    (spec.codes == Codes::kFloat ? has_float : has_int) = true;
    if (spec.scale == Factor::kSuper16 || spec.minimum != Factor::kNone) all_fields = true;
  }
  if (float_bytes(n, weight.cols) + int_bytes(n, weight.cols, kernels.int_tile_rows) > context->activation_bytes)
    return fail(context, PG_E_ARGUMENT, "matmul: no room reserved for %lld x %lld activations", (long long)n,
                (long long)weight.cols);
  float* floats = static_cast<float*>(context->activations);
  const RowTiles float_tiles = equal_tiles(n, kernels.float_tile_rows);
  if (has_float) pack_rows(context, weight.cols, float_tiles, [&](int64_t first, int64_t height, int64_t) {
    kernels.pack_float(floats + first * weight.cols, x + first * x_stride, x_stride, height, weight.cols);
  });
  IntRows ints;
  ints.data = static_cast<uint8_t*>(context->activations) + float_bytes(n, weight.cols);
  ints.tile_bytes = int_tile_bytes(kernels.int_tile_rows, weight.cols);
  const RowTiles int_tiles = full_tiles(n, kernels.int_tile_rows);
  if (has_int) pack_rows(context, weight.cols, int_tiles, [&](int64_t first, int64_t height, int64_t tile) {
    kernels.pack_int(ints.data + tile * ints.tile_bytes, x + first * x_stride, x_stride, height, weight.cols, all_fields);
  });
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
    gemm.tiles = is_integer(segment.encoding) ? int_tiles : float_tiles;
    gemm.x = floats;
    gemm.ints = ints;
    run_segment(context, gemm, segment);
  }
  return PG_OK;
}

}  // extern "C"
