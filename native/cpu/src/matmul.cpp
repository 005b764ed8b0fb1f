// The matmul driver: packs activations, cuts the work, hands rectangles to the variant's kernels.
#include "matmul.h"

#include <algorithm>
#include <vector>

#include "choose-kernel.h"
#include "context.h"
#include "low-rank.h"
#include "memory.h"
#include "weight.h"

namespace pg {
namespace {

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

// x of a matmul, packed in a layout when the first segment asks for it.
class PackedRows {
 public:
  PackedRows(Context* context, const Weight& weight, const float* x, int64_t x_stride, int64_t n)
      : context_(context), places_(*context->kernels, n, weight.cols), x_(x), x_stride_(x_stride), n_(n), cols_(weight.cols) {
    for (const Segment& segment : weight.segments) {
      const EncodingSpec spec = spec_of(segment.encoding);
      if (spec.scale == Factor::kSuper16 || spec.minimum != Factor::kNone) all_fields_ = true;
    }
  }
  bool have_room() const { return places_.offset[kNumLayouts] <= context_->activation_bytes; }
  // The product with a segment; what becomes of it is left open.
  Gemm gemm_of(const Segment& segment, const MatmulKernel& kernel) {
    const LayoutSpec& layout = context_->kernels->layouts[kernel.layout];
    uint8_t* packed = static_cast<uint8_t*>(context_->activations) + places_.offset[kernel.layout];
    if (!is_packed_[kernel.layout]) pack_rows(context_, layout, packed, x_, x_stride_, n_, cols_, all_fields_);
    is_packed_[kernel.layout] = true;
    Gemm gemm = {};
    gemm.scale = 1.0f;
    gemm.panels = segment.data;
    gemm.panel_bytes = segment.panel_bytes;
    gemm.rows = segment.rows;
    gemm.cols = cols_;
    gemm.tiles = tiles_of(layout, n_);
    gemm.x = packed;
    gemm.x_tile_bytes = layout.tile_bytes(cols_);
    return gemm;
  }

 private:
  Context* context_;
  Places places_;
  const float* x_;
  int64_t x_stride_, n_, cols_;
  bool all_fields_ = false;
  bool is_packed_[kNumLayouts] = {};
};

// Of a gated product: panels of gates, and of what they gate, that a thread makes before it multiplies the two. Few rows leave room for all of a
// chunk; with many, they stay in its cache.
constexpr int64_t kFewGated = 32;
constexpr int64_t kManyGatedPanels = 4;
int64_t gated_panels(int64_t n) { return n <= kFewGated ? kMostPanels : kManyGatedPanels; }
int64_t gate_room_bytes(int64_t rows) {
  return 2 * std::max(std::min(rows, kFewGated) * kMostPanels, rows * kManyGatedPanels) * kPanelRows * int64_t{sizeof(float)};
}

// The other half of a gated product: up, and where act(gate) * up goes.
struct GatedHalf {
  const MatmulKernel* kernel;
  Gemm gemm;
  void (*gate)(float* out, const float* gate, const float* up, int64_t cols);
  // What adapters add to both halves before the gate, of which the second begins at column `inner`.
  ShrunkItems adapters;
  const LowRankKernels* low_rank;
  int64_t inner;
};

// The work of a segment, or of the two halves of a gated product: chunks of panels by bands of row tiles.
struct SegmentWork {
  const MatmulKernel* kernel;
  Gemm gemm;
  int64_t panels, columns, bands;
  int64_t first_chunk;  // among those of the segments that run together
  const GatedHalf* up = nullptr;  // null: nothing is gated
  void run(int64_t chunk, uint8_t* scratch, float* gate_room) const {
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
  void add(const MatmulKernel& kernel, const Gemm& gemm, int64_t panels, int64_t panels_of_weight, int32_t threads, const GatedHalf* up = nullptr) {
    const int64_t per_chunk = panels_per_chunk(kernel, gemm, kernel.panels == 0 ? panels : panels_of_weight, up == nullptr ? 1 : 2, threads);
    int64_t columns = (panels + per_chunk - 1) / per_chunk;
    // As many for every thread, and none a panel larger than another: few chunks of few panels are uneven otherwise.
    if (kernel.panels == 0 && columns > threads) columns = std::min((columns + threads - 1) / threads * threads, panels);
    // Too few panels for the threads: cut the rows of x as well.
    const int64_t wanted = (kernel.panels == 0 ? 4 : gemm.tiles.n > 64 ? kChunksOfMany : 1) * threads;
    const int64_t of_weight = (panels_of_weight + per_chunk - 1) / per_chunk;
    const int64_t bands = std::min(of_weight >= wanted ? 1 : (wanted + of_weight - 1) / of_weight, gemm.tiles.count);
    segments[count++] = {&kernel, gemm, panels, columns, bands, chunks, up};
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
      work->run(chunk - work->first_chunk, context->matmul_scratch.data() + worker * context->matmul_scratch_bytes,
                reinterpret_cast<float*>(context->gate_rooms.data() + worker * context->gate_room_bytes));
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

// Whether the weight can be multiplied here, with so many rows.
int32_t check(Context* context, const Weight& weight, int64_t n, const PackedRows& rows) {
  for (const Segment& segment : weight.segments) {
    if (segment.file != nullptr) return fail(context, PG_E_ARGUMENT, "matmul: a table in a file is only looked up");
    if (kernel_for(*context->kernels, segment.encoding, n).run == nullptr)
      return fail(context, PG_E_UNSUPPORTED, "matmul: the weight has a form that this instruction set does not have");
  }
  if (!rows.have_room())
    return fail(context, PG_E_ARGUMENT, "matmul: no room reserved for %lld x %lld activations", (long long)n, (long long)weight.cols);
  return PG_OK;
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
  const int64_t room = gate_room_bytes(rows);
  if (!context->gate_rooms.reserve(room * context->pool.size()))
    return fail(context, PG_E_MEMORY, "the system refused %lld bytes", (long long)(room * context->pool.size()));
  if (room > context->gate_room_bytes) context->gate_room_bytes = room;
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
  PackedRows rows(context, weight, x, x_stride, n);
  if (const int32_t status = check(context, weight, n, rows); status != PG_OK) return status;
  int64_t panels = 0;
  for (const Segment& segment : weight.segments) panels += segment.panels;
  Together together;
  for (const Segment& segment : weight.segments) {
    const MatmulKernel& kernel = kernel_for(*context->kernels, segment.encoding, n);
    Gemm gemm = rows.gemm_of(segment, kernel);
    gemm.out = out + segment.first_row;
    gemm.out_stride = out_stride;
    gemm.bias = bias == nullptr ? nullptr : bias + segment.first_row;
    gemm.scale = scale;
    gemm.accumulate = accumulate;
    if (together.count == Together::kMost) together.run(context);
    together.add(kernel, gemm, segment.panels, panels, context->pool.size());
  }
  look_ahead(context, weight, n, together);
  together.run(context);
  return PG_OK;
}

int32_t pg_gated_matmul(void* handle, float* out, int64_t out_stride, const float* x, int64_t x_stride, const void* weight_handle,
                        int64_t n, int32_t activation, const double* adapters, int64_t num_adapters) {
  Context* context = as_context(handle);
  const Weight& weight = *static_cast<const Weight*>(weight_handle);
  const int64_t inner = weight.rows / 2;
  if (n == 0) return PG_OK;
  if (n < 0 || 2 * inner != weight.rows || out_stride < inner || x_stride < weight.cols)
    return fail(context, PG_E_ARGUMENT, "gated matmul: n %lld, strides %lld and %lld do not fit [%lld, %lld]", (long long)n,
                (long long)out_stride, (long long)x_stride, (long long)weight.rows, (long long)weight.cols);
  if (activation < 0 || activation > kGateOss) return fail(context, PG_E_ARGUMENT, "activation %d is unknown", activation);
  const size_t segments = weight.segments.size();
  const bool has_both = segments == 1 && inner % kPanelRows == 0;
  if (!has_both && (segments != 2 || weight.segments[0].rows != inner)) return PG_E_UNSUPPORTED;
  const Segment &first = weight.segments.front(), &last = weight.segments.back();
  PackedRows rows(context, weight, x, x_stride, n);
  if (const int32_t status = check(context, weight, n, rows); status != PG_OK) return status;
  const MatmulKernel& kernel = kernel_for(*context->kernels, first.encoding, n);
  const MatmulKernel& up_kernel = kernel_for(*context->kernels, last.encoding, n);
  if (kernel.layout != up_kernel.layout) return PG_E_UNSUPPORTED;
  const LowRankItem* items = reinterpret_cast<const LowRankItem*>(adapters);
  const auto cuts_panels = [&](const LowRankItem& item) {
    const int64_t first = static_cast<int64_t>(item.first_col);
    const int64_t end = first + reinterpret_cast<const LowRank*>(static_cast<uintptr_t>(item.low_rank))->outputs;
    return first % kPanelRows != 0 || (first < inner && end > inner);
  };
  if (num_adapters > 0 && (inner % kPanelRows != 0 || std::any_of(items, items + num_adapters, cuts_panels))) return PG_E_UNSUPPORTED;
  if (gate_room_bytes(n) > context->gate_room_bytes)
    return fail(context, PG_E_ARGUMENT, "gated matmul: no room reserved for %lld rows", (long long)n);
  Gemm gate = rows.gemm_of(first, kernel);
  GatedHalf up = {&up_kernel, rows.gemm_of(last, up_kernel), context->kernels->rows->gate[activation], {}, context->kernels->low_rank, inner};
  const int64_t panels = (inner + kPanelRows - 1) / kPanelRows;
  gate.rows = up.gemm.rows = inner;
  if (has_both) up.gemm.panels += panels * up.gemm.panel_bytes;
  up.gemm.out = out;
  up.gemm.out_stride = out_stride;
  Together together;
  together.add(kernel, gate, panels, panels, context->pool.size(), &up);
  look_ahead(context, weight, n, together);
  if (num_adapters > 0) {
    if (const int32_t status = shrink(context, x, x_stride, adapters, num_adapters, weight.rows, &up.adapters); status != PG_OK) return status;
  }
  together.run(context);
  return PG_OK;
}

}  // extern "C"
