// A pair of an adapter: what pg_low_rank is told of it, and what a variant does with it (kernels/low-rank-kernel.cpp).
#pragma once
#include <cstdint>

#include "arena.h"
#include "encoding.h"

namespace pg {

// y = b (a x). Both lie in one block as the variant's kernels read them, a before b, with the rank that they have.
struct LowRank {
  int64_t rank, inputs, outputs;
  bool is_bf16;  // else f32
  int64_t b_at;  // in the block
  int64_t bytes;
  ArenaBlock block;
  const uint8_t* a() const { return block.data; }
  const uint8_t* b() const { return a() + b_at; }
};

// Of one call, an adapter for rows that follow each other. Numbers of 64 bits all: the host writes one array.
struct LowRankItem {
  double low_rank;
  double row, n;
  double first_col;
  double scale;
};

// Ranks that are summed side by side: a chunk of a shrink begins with a multiple of them.
constexpr int64_t kRankGroup = 4;

struct LowRankKernels {
  // Sets b_at and bytes from the sizes.
  void (*measure)(LowRank& low_rank);
  // Fills the block. a [rank, inputs], b [outputs, rank].
  void (*pack)(LowRank& low_rank, const float* a, const float* b);
  // out[n, begin .. end) = x[n, inputs] . a^T; behind the last of an odd rank a zero.
  void (*shrink)(const LowRank& low_rank, float* out, int64_t out_stride, const float* x, int64_t x_stride, int64_t n, int64_t begin, int64_t end);
  // out[n, outputs] += scale * (x[n, rank] . b^T), of panels [begin, end) of kPanelRows outputs, with the first of which out begins.
  void (*expand)(const LowRank& low_rank, float* out, int64_t out_stride, const float* x, int64_t x_stride, int64_t n, float scale, int64_t begin, int64_t end);
};

// An item of a call with what its rows were shrunk to, and how its two products are cut: chunks of ranks or panels by bands of rows.
struct ShrunkItem {
  const LowRank* low_rank;
  int64_t row, n, first_col;
  float scale;
  float* shrunk;  // [n, stride]
  int64_t stride;
  int64_t bands;
  int64_t ranks, rank_chunks;
  int64_t panels, panel_chunks;
  int64_t band_begin(int64_t band) const { return band * n / bands; }
  // Where the outputs of a column, and those behind it, are expanded from.
  const uint8_t* panel_at(int64_t col) const {
    const int64_t panel = col > first_col ? (col - first_col) / kPanelRows : 0;
    return low_rank->b() + panel * ((low_rank->rank + 1) / 2 * 2) * kPanelRows * (low_rank->is_bf16 ? 2 : 4);
  }
};

struct Context;
struct ShrunkItems {
  const ShrunkItem* items = nullptr;
  int64_t count = 0;
  // Adds what they are to a part of the product: `out` begins with this row and column of it. Columns begin with a panel of each item.
  void add_to(const LowRankKernels& kernels, float* out, int64_t out_stride, int64_t row, int64_t rows, int64_t col, int64_t cols) const;
};

// The first product of all items, in room that lasts until the next call. They are for columns below `cols`.
int32_t shrink(Context* context, const float* x, int64_t x_stride, const double* given, int64_t count, int64_t cols, ShrunkItems* out);

}  // namespace pg
