// Products with one weight: packs activations, has the work cut, and the workers told what comes next.
#include <algorithm>

#include "memory.h"
#include "products.h"

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
      : context_(context), places_(*context->kernels, n, weight.cols), x_(x), x_stride_(x_stride), n_(n), cols_(weight.cols), all_fields_(needs_all_fields(weight)) {}
  bool have_room() const { return places_.offset[kNumLayouts] <= context_->activation_bytes; }
  // x for a kernel.
  const uint8_t* packed_for(const MatmulKernel& kernel) {
    uint8_t* packed = static_cast<uint8_t*>(context_->activations) + places_.offset[kernel.layout];
    if (!is_packed_[kernel.layout]) pack_rows(context_, context_->kernels->layouts[kernel.layout], packed, x_, x_stride_, n_, cols_, all_fields_);
    is_packed_[kernel.layout] = true;
    return packed;
  }

 private:
  Context* context_;
  Places places_;
  const float* x_;
  int64_t x_stride_, n_, cols_;
  bool all_fields_;
  bool is_packed_[kNumLayouts] = {};
};

// Where there are many rows, weights are not what is waited for.
constexpr int64_t kPrefetchRows = 32;
// Of a weight: more of them run one after the other.
constexpr int32_t kMostSegments = 8;

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
  SegmentWork room[kMostSegments];
  Together together(room);
  for (const Segment& segment : weight.segments) {
    const MatmulKernel& kernel = kernel_for(*context->kernels, segment.encoding, n);
    Gemm gemm = gemm_of(*context->kernels, kernel, segment, n, weight.cols);
    gemm.x = rows.packed_for(kernel);
    gemm.out = out + segment.first_row;
    gemm.out_stride = out_stride;
    gemm.bias = bias == nullptr ? nullptr : bias + segment.first_row;
    gemm.scale = scale;
    gemm.accumulate = accumulate;
    if (together.count == kMostSegments) together.run(context);
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
  GatedProduct product;
  if (!gated_product(&product, *context->kernels, weight, n, activation)) return PG_E_UNSUPPORTED;
  const LowRankItem* items = reinterpret_cast<const LowRankItem*>(adapters);
  const auto cuts_panels = [&](const LowRankItem& item) {
    const int64_t first = static_cast<int64_t>(item.first_col);
    const int64_t end = first + reinterpret_cast<const LowRank*>(static_cast<uintptr_t>(item.low_rank))->outputs;
    return first % kPanelRows != 0 || (first < inner && end > inner);
  };
  if (num_adapters > 0 && (inner % kPanelRows != 0 || std::any_of(items, items + num_adapters, cuts_panels))) return PG_E_UNSUPPORTED;
  PackedRows rows(context, weight, x, x_stride, n);
  if (const int32_t status = check(context, weight, n, rows); status != PG_OK) return status;
  if (gate_room_bytes(n) > context->gate_room_bytes)
    return fail(context, PG_E_ARGUMENT, "gated matmul: no room reserved for %lld rows", (long long)n);
  product.gate.x = product.up.gemm.x = rows.packed_for(*product.kernel);
  product.up.gemm.out = out;
  product.up.gemm.out_stride = out_stride;
  SegmentWork room[1];
  Together together(room);
  together.add(*product.kernel, product.gate, product.panels, product.panels, context->pool.size(), &product.up);
  look_ahead(context, weight, n, together);
  if (num_adapters > 0) {
    const int32_t status = shrink(context, x, x_stride, adapters, num_adapters, weight.rows, &product.up.adapters);
    if (status != PG_OK) return status;
  }
  together.run(context);
  return PG_OK;
}

}  // extern "C"
