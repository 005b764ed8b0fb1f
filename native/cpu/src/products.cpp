#include "products.h"

#include <algorithm>

namespace pg {
namespace {

// Chunks per thread where a kernel of tiles has many rows: threads that share a core run at speeds that differ, so the last of few large
// chunks is waited for.
constexpr int64_t kChunksOfMany = 4;
constexpr int64_t kMostPanels = 16;   // of a chunk
constexpr int64_t kLargeX = 2 << 20;  // more than L2 keeps: read for two panels at least
// Of weights, in a chunk of a kernel of tiles with one row tile: all threads wait for memory, and others can only help with chunks that are not taken.
constexpr int64_t kChunkBytes = 256 << 10;

// Panels per chunk of a weight that has `panels` of them: enough chunks for every thread to find work to the end, none so small that taking
// it costs more. halves: 2 where each panel has another beside it (a gated product).
int64_t panels_per_chunk(const MatmulKernel& kernel, const Gemm& gemm, int64_t panels, int64_t halves, int32_t threads) {
  const int64_t n = gemm.tiles.n;
  if (kernel.panels > 0 && n > 64) {
    const int64_t least = gemm.tiles.count * gemm.x_tile_bytes > kLargeX ? 2 : 1;
    return std::clamp<int64_t>(panels / (kChunksOfMany * threads), least, kernel.panels);
  }
  const int64_t by_balance = panels / (8 * threads);
  const int64_t by_size = (64 << 10) / (gemm.panel_bytes * (n < 16 ? 1 : n / 8)) + 1;
  const int64_t side_by_side = n == 1 && kernel.layout == kLayoutFloat ? 4 : 1;  // panels that a kernel may read in turns
  const int64_t wanted = std::min(std::max({by_balance, by_size, side_by_side}), panels / threads);
  const bool waits_for_memory = kernel.panels > 0 && gemm.tiles.count == 1;
  const int64_t most = waits_for_memory ? kChunkBytes / (halves * gemm.panel_bytes) : kMostPanels;
  return std::clamp<int64_t>(wanted, 1, std::clamp<int64_t>(most, 1, kMostPanels));
}

// Of a gated product: panels of gates, and of what they gate, that a thread makes before it multiplies the two. Few rows leave room for all of a
// chunk; with many, they stay in its cache.
constexpr int64_t kFewGated = 32;
constexpr int64_t kManyGatedPanels = 4;
int64_t gated_panels(int64_t n) { return n <= kFewGated ? kMostPanels : kManyGatedPanels; }

// Of the weight that comes next, by a worker that waits: a part of its L2, and more than memory gives between two matmuls.
constexpr int64_t kPrefetched = 256 << 10;

}  // namespace

int64_t gate_room_bytes(int64_t rows) {
  return 2 * std::max(std::min(rows, kFewGated) * kMostPanels, rows * kManyGatedPanels) * kPanelRows * int64_t{sizeof(float)};
}

Gemm gemm_of(const Kernels& kernels, const MatmulKernel& kernel, const Segment& segment, int64_t n, int64_t cols) {
  const LayoutSpec& layout = kernels.layouts[kernel.layout];
  Gemm gemm = {};
  gemm.scale = 1.0f;
  gemm.panels = segment.data;
  gemm.panel_bytes = segment.panel_bytes;
  gemm.rows = segment.rows;
  gemm.cols = cols;
  gemm.tiles = tiles_of(layout, n);
  gemm.x_tile_bytes = layout.tile_bytes(cols);
  return gemm;
}

bool needs_all_fields(const Weight& weight) {
  return std::any_of(weight.segments.begin(), weight.segments.end(), [](const Segment& segment) {
    const EncodingSpec spec = spec_of(segment.encoding);
    return spec.scale == Factor::kSuper16 || spec.minimum != Factor::kNone;
  });
}

bool gated_product(GatedProduct* out, const Kernels& kernels, const Weight& weight, int64_t n, int32_t activation) {
  const int64_t inner = weight.rows / 2;
  const size_t segments = weight.segments.size();
  const bool has_both = segments == 1 && inner % kPanelRows == 0;
  if (!has_both && (segments != 2 || weight.segments[0].rows != inner)) return false;
  const Segment &first = weight.segments.front(), &last = weight.segments.back();
  out->kernel = &kernel_for(kernels, first.encoding, n);
  out->up.kernel = &kernel_for(kernels, last.encoding, n);
  if (out->kernel->layout != out->up.kernel->layout) return false;
  out->gate = gemm_of(kernels, *out->kernel, first, n, weight.cols);
  out->up.gemm = gemm_of(kernels, *out->up.kernel, last, n, weight.cols);
  out->up.gate = kernels.rows->gate[activation];
  out->up.adapters = {};
  out->up.low_rank = kernels.low_rank;
  out->up.inner = inner;
  out->panels = (inner + kPanelRows - 1) / kPanelRows;
  out->gate.rows = out->up.gemm.rows = inner;
  if (has_both) out->up.gemm.panels += out->panels * last.panel_bytes;
  return true;
}

void SegmentWork::run(int64_t chunk, uint8_t* scratch, float* gate_room) const {
  const int64_t column = chunk / bands, band = chunk % bands;
  const int64_t panel_begin = column * panels / columns, panel_end = (column + 1) * panels / columns;
  const int64_t tile_begin = band * gemm.tiles.count / bands, tile_end = (band + 1) * gemm.tiles.count / bands;
  if (up == nullptr) return kernel->run(gemm, panel_begin, panel_end, tile_begin, tile_end, scratch);
  const int64_t step = gated_panels(gemm.tiles.n), width = step * kPanelRows;
  const int64_t row = gemm.tiles.first(tile_begin), rows = gemm.tiles.first(tile_end) - row;
  for (int64_t panel = panel_begin; panel < panel_end; panel += step) {
    const int64_t end = std::min(panel + step, panel_end), col = panel * kPanelRows;
    const auto make = [&](const MatmulKernel& half, Gemm part, float* to) {
      part.out = to;
      part.out_stride = width;
      part.first_row = row;
      part.first_col = col;
      half.run(part, panel, end, tile_begin, tile_end, scratch);
    };
    float *gates = gate_room, *products = gate_room + rows * width;
    make(*kernel, gemm, gates);
    make(*up->kernel, up->gemm, products);
    const int64_t cols = std::min(end * kPanelRows, gemm.rows) - col;
    up->adapters.add_to(*up->low_rank, gates, width, row, rows, col, cols);
    up->adapters.add_to(*up->low_rank, products, width, row, rows, up->inner + col, cols);
    for (int64_t r = 0; r < rows; r++)
      up->gate(up->gemm.out + (row + r) * up->gemm.out_stride + col, gates + r * width, products + r * width, cols);
  }
}

void Together::add(const MatmulKernel& kernel, const Gemm& gemm, int64_t panels, int64_t panels_of_all, int32_t threads, const GatedHalf* up) {
  const int64_t per_chunk = panels_per_chunk(kernel, gemm, kernel.panels == 0 ? panels : panels_of_all, up == nullptr ? 1 : 2, threads);
  int64_t columns = (panels + per_chunk - 1) / per_chunk;
  // As many for every thread, and none a panel larger than another: few chunks of few panels are uneven otherwise.
  if (kernel.panels == 0 && columns > threads) columns = std::min((columns + threads - 1) / threads * threads, panels);
  // Too few panels for the threads: cut the rows of x as well.
  const int64_t wanted = (kernel.panels == 0 ? 4 : gemm.tiles.n > 64 ? kChunksOfMany : 1) * threads;
  const int64_t of_all = (panels_of_all + per_chunk - 1) / per_chunk;
  const int64_t bands = std::min(of_all >= wanted ? 1 : (wanted + of_all - 1) / of_all, gemm.tiles.count);
  segments[count++] = {&kernel, gemm, panels, columns, bands, chunks, up};
  chunks += columns * bands;
}

const SegmentWork* Together::work_of(int64_t chunk) const {
  const auto is_before = [](int64_t at, const SegmentWork& work) { return at < work.first_chunk; };
  return std::upper_bound(segments, segments + count, chunk, is_before) - 1;
}

Ahead Together::first_panels(int32_t worker, int32_t threads) const {
  const int64_t begin = chunks * worker / threads, end = chunks * (worker + 1) / threads;
  if (begin == end) return {};
  const SegmentWork* work = work_of(begin);
  const int64_t first = (begin - work->first_chunk) / work->bands * work->panels / work->columns;
  const int64_t last = std::min((end - work->first_chunk) / work->bands * work->panels / work->columns, work->panels);
  const uint8_t* at = work->gemm.panels + first * work->gemm.panel_bytes;
  return {at, at + std::min((last - first) * work->gemm.panel_bytes, kPrefetched)};
}

void Together::run(Context* context) {
  parallel_for(context->pool, chunks, [&](int64_t chunk, int32_t worker) {
    const SegmentWork* work = work_of(chunk);
    work->run(chunk - work->first_chunk, context->matmul_scratch.data() + worker * context->matmul_scratch_bytes,
              reinterpret_cast<float*>(context->gate_rooms.data() + worker * context->gate_room_bytes));
  });
  count = 0;
  chunks = 0;
}

}  // namespace pg
