// What adapters add to a product, all of a step's adapters in one call: shrink x to the rank, then expand, with nobody waiting in between but
// once. The sums are those of pg_matmul, so a row's bits do not depend on which rows and adapters come with it.
#include <algorithm>

#include "choose-kernel.h"
#include "context.h"
#include "low-rank.h"
#include "matmul.h"
#include "weight.h"

namespace pg {
namespace {

// Of x or of what it was shrunk to, packed for a kernel; one row of floats is packed as it is.
bool is_packed_already(const MatmulKernel& kernel, int64_t n) { return n == 1 && kernel.layout == kLayoutFloat; }

int64_t packed_bytes(const Kernels& kernels, const MatmulKernel& kernel, int64_t n, int64_t cols) {
  if (is_packed_already(kernel, n)) return 0;
  const LayoutSpec& layout = kernels.layouts[kernel.layout];
  return tiles_of(layout, n).count * layout.tile_bytes(cols);
}

const uint8_t* pack(const Kernels& kernels, const MatmulKernel& kernel, uint8_t* room, const float* x, int64_t stride, int64_t n, int64_t cols) {
  if (is_packed_already(kernel, n)) return reinterpret_cast<const uint8_t*>(x);
  const LayoutSpec& layout = kernels.layouts[kernel.layout];
  const RowTiles tiles = tiles_of(layout, n);
  for (int64_t tile = 0; tile < tiles.count; tile++)
    layout.pack(room + tile * layout.tile_bytes(cols), {x + tiles.first(tile) * stride, stride, tiles.height(tile), cols, 0, cols, false});
  return room;
}

Gemm gemm_of(const Kernels& kernels, const MatmulKernel& kernel, const Segment& segment, const uint8_t* x, int64_t n, int64_t cols) {
  const LayoutSpec& layout = kernels.layouts[kernel.layout];
  Gemm gemm = {};
  gemm.panels = segment.data;
  gemm.panel_bytes = segment.panel_bytes;
  gemm.rows = segment.rows;
  gemm.cols = cols;
  gemm.tiles = tiles_of(layout, n);
  gemm.x = x;
  gemm.x_tile_bytes = layout.tile_bytes(cols);
  return gemm;
}

constexpr int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Panels of an expansion that a thread takes at a time: enough that taking them costs little.
constexpr int64_t kExpandPanels = 8;

struct Item {
  const Segment *a, *b;
  const MatmulKernel *shrink, *expand;
  int64_t row, n, first_col, inputs, rank;
  float scale;
  uint8_t *x_room, *shrunk_room;
  float* shrunk;  // [n, stride]
  int64_t stride;
  int64_t chunks;  // of the expansion
};

Item item_of(const Kernels& kernels, const LowRankItem& given) {
  const Weight& a = *reinterpret_cast<const Weight*>(static_cast<uintptr_t>(given.a));
  const Weight& b = *reinterpret_cast<const Weight*>(static_cast<uintptr_t>(given.b));
  Item item = {};
  item.a = &a.segments.front();
  item.b = &b.segments.front();
  item.row = static_cast<int64_t>(given.row);
  item.n = static_cast<int64_t>(given.n);
  item.first_col = static_cast<int64_t>(given.first_col);
  item.inputs = a.cols;
  item.rank = b.cols;
  item.scale = static_cast<float>(given.scale);
  item.shrink = &kernel_for(kernels, item.a->encoding, item.n);
  item.expand = &kernel_for(kernels, item.b->encoding, item.n);
  item.stride = (item.rank + 15) / 16 * 16;
  item.chunks = (item.b->panels + kExpandPanels - 1) / kExpandPanels;
  return item;
}

int64_t room_of(const Kernels& kernels, const Item& item) {
  return aligned(packed_bytes(kernels, *item.shrink, item.n, item.inputs)) + aligned(packed_bytes(kernels, *item.expand, item.n, item.rank)) +
         aligned(item.n * item.stride * int64_t{sizeof(float)});
}

}  // namespace
}  // namespace pg

using namespace pg;

extern "C" int32_t pg_low_rank(void* handle, float* out, int64_t out_stride, const float* x, int64_t x_stride, const double* given, int64_t count) {
  Context* context = as_context(handle);
  const Kernels& kernels = *context->kernels;
  const LowRankItem* items = reinterpret_cast<const LowRankItem*>(given);
  int64_t room = 0, chunks = 0;
  for (int64_t i = 0; i < count; i++) {
    const Item item = item_of(kernels, items[i]);
    if (item.shrink->run == nullptr || item.expand->run == nullptr)
      return fail(context, PG_E_UNSUPPORTED, "low rank: the matrices have a form that this instruction set does not have");
    if (item.n < 1 || item.row < 0 || item.rank != item.a->rows || x_stride < item.inputs || out_stride < item.first_col + item.b->rows)
      return fail(context, PG_E_ARGUMENT, "low rank: rank %lld, %lld inputs, columns up to %lld do not fit strides %lld and %lld",
                  (long long)item.rank, (long long)item.inputs, (long long)(item.first_col + item.b->rows), (long long)x_stride, (long long)out_stride);
    room += room_of(kernels, item);
    chunks += item.chunks;
  }
  const int64_t table = aligned(count * int64_t{sizeof(Item)});
  if (!context->low_rank_room.reserve(table + room)) return fail(context, PG_E_MEMORY, "the system refused %lld bytes", (long long)(table + room));
  Item* own = reinterpret_cast<Item*>(context->low_rank_room.data());
  uint8_t* at = context->low_rank_room.data() + table;
  for (int64_t i = 0; i < count; i++) {
    own[i] = item_of(kernels, items[i]);
    own[i].x_room = at;
    own[i].shrunk_room = at + aligned(packed_bytes(kernels, *own[i].shrink, own[i].n, own[i].inputs));
    own[i].shrunk = reinterpret_cast<float*>(own[i].shrunk_room + aligned(packed_bytes(kernels, *own[i].expand, own[i].n, own[i].rank)));
    at += room_of(kernels, own[i]);
  }
  const auto scratch_of = [&](int32_t worker) { return context->matmul_scratch.data() + worker * context->matmul_scratch_bytes; };
  parallel_for(context->pool, count, [&](int64_t i, int32_t worker) {
    const Item& item = own[i];
    const uint8_t* packed = pack(kernels, *item.shrink, item.x_room, x + item.row * x_stride, x_stride, item.n, item.inputs);
    Gemm gemm = gemm_of(kernels, *item.shrink, *item.a, packed, item.n, item.inputs);
    gemm.out = item.shrunk;
    gemm.out_stride = item.stride;
    gemm.scale = 1.0f;
    item.shrink->run(gemm, 0, item.a->panels, 0, gemm.tiles.count, scratch_of(worker));
    pack(kernels, *item.expand, item.shrunk_room, item.shrunk, item.stride, item.n, item.rank);
  });
  parallel_for(context->pool, chunks, [&](int64_t chunk, int32_t worker) {
    const Item* item = own;
    for (; chunk >= item->chunks; item++) chunk -= item->chunks;
    const bool is_bare = is_packed_already(*item->expand, item->n);
    const uint8_t* packed = is_bare ? reinterpret_cast<const uint8_t*>(item->shrunk) : item->shrunk_room;
    Gemm gemm = gemm_of(kernels, *item->expand, *item->b, packed, item->n, item->rank);
    gemm.out = out + item->row * out_stride + item->first_col;
    gemm.out_stride = out_stride;
    gemm.scale = item->scale;
    gemm.accumulate = 1;
    const int64_t first = chunk * kExpandPanels, end = std::min(first + kExpandPanels, item->b->panels);
    item->expand->run(gemm, first, end, 0, gemm.tiles.count, scratch_of(worker));
  });
  return PG_OK;
}
