// What adapters add to a product, all of a step's adapters in one call: shrink x to the rank, then expand, with nobody waiting in between but
// once. A row's sums do not depend on which rows and adapters come with it.
#include "low-rank.h"

#include <algorithm>
#include <memory>

#include "context.h"
#include "encoding.h"

namespace pg {
namespace {

// Rows that a chunk has at most: of x, they stay in L2 while the ranks go over them.
constexpr int64_t kBand = 32;
// Of a matrix, in a chunk: enough that taking it costs little.
constexpr int64_t kStreamBytes = 16 << 10;

// Kernels ask for memory this far ahead (kernels/low-rank-kernel.cpp): so much of what comes after a jump is asked for here.
constexpr int64_t kJumpAhead = 4096;

void ask_for(const uint8_t* at) {
  for (int64_t byte = 0; byte < kJumpAhead; byte += 64) __builtin_prefetch(at + byte, 0, 2);
}

constexpr int64_t ceil_div(int64_t value, int64_t by) { return (value + by - 1) / by; }

ShrunkItem item_of(const LowRankItem& given) {
  const LowRank& low_rank = *reinterpret_cast<const LowRank*>(static_cast<uintptr_t>(given.low_rank));
  const int64_t width = low_rank.is_bf16 ? 2 : 4;
  ShrunkItem item = {};
  item.low_rank = &low_rank;
  item.row = static_cast<int64_t>(given.row);
  item.n = static_cast<int64_t>(given.n);
  item.first_col = static_cast<int64_t>(given.first_col);
  item.scale = static_cast<float>(given.scale);
  item.stride = ceil_div(low_rank.rank, 16) * 16;
  item.bands = ceil_div(item.n, kBand);
  item.ranks = std::max<int64_t>(kStreamBytes / (width * low_rank.inputs * kRankGroup), 1) * kRankGroup;
  item.rank_chunks = ceil_div(low_rank.rank, item.ranks);
  item.panels = std::max<int64_t>(kStreamBytes / (width * low_rank.rank * kPanelRows), 1);
  item.panel_chunks = ceil_div(ceil_div(low_rank.outputs, kPanelRows), item.panels);
  return item;
}

}  // namespace

void ShrunkItems::add_to(const LowRankKernels& kernels, float* out, int64_t out_stride, int64_t row, int64_t rows, int64_t col, int64_t cols) const {
  for (const ShrunkItem* item = items; item < items + count; item++) {
    const int64_t row_begin = std::max(row, item->row), row_end = std::min(row + rows, item->row + item->n);
    const int64_t col_begin = std::max(col, item->first_col), col_end = std::min(col + cols, item->first_col + item->low_rank->outputs);
    if (row_begin >= row_end || col_begin >= col_end) continue;
    if (item + 1 < items + count) ask_for(item[1].panel_at(col));
    kernels.expand(*item->low_rank, out + (row_begin - row) * out_stride + (col_begin - col), out_stride,
                   item->shrunk + (row_begin - item->row) * item->stride, item->stride, row_end - row_begin, item->scale,
                   (col_begin - item->first_col) / kPanelRows, ceil_div(col_end - item->first_col, kPanelRows));
  }
}

int32_t shrink(Context* context, const float* x, int64_t x_stride, const double* given, int64_t count, int64_t cols, ShrunkItems* out) {
  const LowRankKernels& kernels = *context->kernels->low_rank;
  const LowRankItem* items = reinterpret_cast<const LowRankItem*>(given);
  int64_t floats = 0, chunks = 0;
  for (int64_t i = 0; i < count; i++) {
    const ShrunkItem item = item_of(items[i]);
    const int64_t end_col = item.first_col + item.low_rank->outputs;
    if (item.n < 1 || item.row < 0 || item.first_col < 0 || x_stride < item.low_rank->inputs || end_col > cols)
      return fail(context, PG_E_ARGUMENT, "low rank: %lld inputs and columns up to %lld do not fit %lld and %lld",
                  (long long)item.low_rank->inputs, (long long)end_col, (long long)x_stride, (long long)cols);
    floats += item.n * item.stride;
    chunks += item.rank_chunks * item.bands;
  }
  const int64_t table = ceil_div(count * int64_t{sizeof(ShrunkItem)}, 64) * 64;
  const int64_t room = table + floats * int64_t{sizeof(float)};
  if (!context->low_rank_room.reserve(room)) return fail(context, PG_E_MEMORY, "the system refused %lld bytes", (long long)room);
  ShrunkItem* own = reinterpret_cast<ShrunkItem*>(context->low_rank_room.data());
  float* at = reinterpret_cast<float*>(context->low_rank_room.data() + table);
  for (int64_t i = 0; i < count; i++) {
    own[i] = item_of(items[i]);
    own[i].shrunk = at;
    at += own[i].n * own[i].stride;
  }
  parallel_for(context->pool, chunks, [&](int64_t chunk, int32_t) {
    const ShrunkItem* item = own;
    for (; chunk >= item->rank_chunks * item->bands; item++) chunk -= item->rank_chunks * item->bands;
    const int64_t begin = chunk / item->bands * item->ranks, end = std::min(begin + item->ranks, item->low_rank->rank);
    const int64_t band = chunk % item->bands, row = item->band_begin(band);
    if (end == item->low_rank->rank && item + 1 < own + count) ask_for(item[1].low_rank->a());
    kernels.shrink(*item->low_rank, item->shrunk + row * item->stride, item->stride, x + (item->row + row) * x_stride, x_stride,
                   item->band_begin(band + 1) - row, begin, end);
  });
  *out = {own, count};
  return PG_OK;
}

}  // namespace pg

using namespace pg;

extern "C" {

int32_t pg_low_rank_create(void* handle, int64_t rank, int64_t inputs, int64_t outputs, const void* a, const void* b, uint64_t* out_low_rank) {
  Context* context = as_context(handle);
  if (rank < 1 || inputs < 1 || outputs < 1 || out_low_rank == nullptr)
    return fail(context, PG_E_ARGUMENT, "low rank: sizes must be positive");
  const auto is_bf16 = [](const void* numbers, int64_t count) {
    const uint32_t* words = static_cast<const uint32_t*>(numbers);
    return std::all_of(words, words + count, [](uint32_t word) { return (word & 0xffff) == 0; });
  };
  return guarded(context, "low rank", [&] {
    auto low_rank = std::make_unique<LowRank>(LowRank{rank, inputs, outputs, is_bf16(a, rank * inputs) && is_bf16(b, outputs * rank), 0, 0, {}});
    const LowRankKernels& kernels = *context->kernels->low_rank;
    kernels.measure(*low_rank);
    low_rank->block = context->weights.allocate(low_rank->bytes);
    if (low_rank->block.data == nullptr) return fail(context, PG_E_MEMORY, "the system refused %lld bytes", (long long)low_rank->bytes);
    kernels.pack(*low_rank, static_cast<const float*>(a), static_cast<const float*>(b));
    *out_low_rank = reinterpret_cast<uint64_t>(low_rank.release());
    return int32_t{PG_OK};
  });
}

int64_t pg_low_rank_bytes(const void* low_rank) { return static_cast<const LowRank*>(low_rank)->bytes; }

int32_t pg_low_rank_free(void* handle, void* low_rank) {
  as_context(handle)->weights.free(static_cast<LowRank*>(low_rank)->block);
  delete static_cast<LowRank*>(low_rank);
  return PG_OK;
}

int32_t pg_low_rank(void* handle, float* out, int64_t out_stride, const float* x, int64_t x_stride, const double* given, int64_t count) {
  Context* context = as_context(handle);
  const LowRankKernels& kernels = *context->kernels->low_rank;
  ShrunkItems shrunk;
  if (const int32_t status = shrink(context, x, x_stride, given, count, out_stride, &shrunk); status != PG_OK) return status;
  int64_t chunks = 0;
  for (int64_t i = 0; i < count; i++) chunks += shrunk.items[i].panel_chunks * shrunk.items[i].bands;
  parallel_for(context->pool, chunks, [&](int64_t chunk, int32_t) {
    const ShrunkItem* item = shrunk.items;
    for (; chunk >= item->panel_chunks * item->bands; item++) chunk -= item->panel_chunks * item->bands;
    const int64_t begin = chunk / item->bands * item->panels;
    const int64_t end = std::min(begin + item->panels, ceil_div(item->low_rank->outputs, kPanelRows));
    const int64_t band = chunk % item->bands, row = item->band_begin(band);
    kernels.expand(*item->low_rank, out + (item->row + row) * out_stride + item->first_col + begin * kPanelRows, out_stride,
                   item->shrunk + row * item->stride, item->stride, item->band_begin(band + 1) - row, item->scale, begin, end);
  });
  return PG_OK;
}

}  // extern "C"
