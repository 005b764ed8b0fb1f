// Matmul of a single row with float weights in WebAssembly: the order of summation and the panels are those of matmul-float.cpp.
//
// Up to kStreams panels side by side, kBlockCols columns of each in turns: the processor's prefetcher follows every panel by itself, so
// more of memory is on its way than with one. Sums wait in memory between blocks: V8 moves loads up as far as the last store, and in a
// loop without one it loads a panel's whole width first and then keeps half of it, and of the sums, on the stack.
#pragma once
#include "finish.h"
#include "float-weights.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int kStreams = 4;
constexpr int kBlockCols = 4;

// sums[kPanel] += x[c] * column c of those that begin at `at`.
template <class W>
PG_INLINE void add_block(float* sums, const uint8_t* at, const vf (&x)[kBlockCols]) {
  asm volatile("" : "+r"(at), "+r"(sums));  // plain addresses: the offsets below are then part of the loads
#pragma GCC unroll 8
  for (int v = 0; v < kPanel / VL; v++) {
    vf sum = v_load(sums + v * VL);
#pragma GCC unroll 4
    for (int c = 0; c < kBlockCols; c++) sum = v_madd(x[c], W::load(at, c - c % W::kStep, v, c % W::kStep), sum);
    v_store(sums + v * VL, sum);
  }
}

// What the panels read next, beginning with `panel`: as in ask_first and ask_ahead, of every stream its own part.
struct StreamsAhead {
  const intptr_t panel_bytes, bytes, others;
  const uint8_t* const end;
  StreamsAhead(const Gemm& g, int streams)
      : panel_bytes((intptr_t)g.panel_bytes),
        bytes(kPageAhead / kPage / streams * kPage),
        others((streams - 1) * panel_bytes),
        end(weights_end(g) - kPageLines * 64) {}
  void ask(const uint8_t* page) const {
    if (page < end) ask_for_page(page);
  }
  void ask_first(const uint8_t* panel) const {
    for (const uint8_t* page = panel; page < panel + bytes; page += kPage - ((intptr_t)page & (kPage - 1))) ask(page);
  }
  // The stream is about to read `block` bytes at `at`; behind the end of its panel it goes on with the panel after the others'.
  void ask_next(const uint8_t* at, intptr_t block, const uint8_t* panel_end) const {
    const intptr_t in_page = (intptr_t)at & (kPage - 1);
    if (in_page >= block) return;
    const uint8_t* page = at - in_page + bytes;
    ask(page < panel_end ? page : page + others);
  }
};

// The panels [panel, panel + kSide).
template <class W, int kSide>
void row_by_panels(const Gemm& g, int64_t panel, const StreamsAhead& ahead) {
  constexpr intptr_t kColumn = kPanel * W::kBytes;
  const float* x = (const float*)g.tile_of(0);
  alignas(64) float sums[kSide][kPanel] = {};
  const intptr_t panel_bytes = ahead.panel_bytes, cols = (intptr_t)g.cols;
  const uint8_t* base = g.panels + panel * panel_bytes;
  intptr_t k = 0;
  for (; k + kBlockCols <= cols; k += kBlockCols) {
    vf block[kBlockCols];
    for (int c = 0; c < kBlockCols; c++) block[c] = v_set(x[k + c]);
    const uint8_t* at = base + k * kColumn;
#pragma GCC unroll 4
    for (int s = 0; s < kSide; s++) ahead.ask_next(at + s * panel_bytes, kBlockCols * kColumn, base + (s + 1) * panel_bytes);
#pragma GCC unroll 4
    for (int s = 0; s < kSide; s++) add_block<W>(sums[s], at + s * panel_bytes, block);
  }
  for (int s = 0; s < kSide; s++) {
    for (intptr_t c = k; c < cols; c++) {
      for (int v = 0; v < kPanel / VL; v++) {
        const vf w = W::load(base + s * panel_bytes, c - c % W::kStep, v, (int)(c % W::kStep));
        v_store(sums[s] + v * VL, v_madd(v_set(x[c]), w, v_load(sums[s] + v * VL)));
      }
    }
    finish(g, sums[s], 0, 1, (panel + s) * kPanel, kPanel);
  }
}

template <class W>
void one_row(const Gemm& g, int64_t panel_begin, int64_t panel_end) {
  for (int64_t panel = panel_begin; panel < panel_end;) {
    const int streams = panel_end - panel < kStreams ? (int)(panel_end - panel) : kStreams;
    const StreamsAhead ahead(g, streams);
    if (panel == panel_begin)
      for (int s = 0; s < streams; s++) ahead.ask_first(g.panels + (panel + s) * g.panel_bytes);
    if (streams == 4) row_by_panels<W, 4>(g, panel, ahead);
    if (streams == 3) row_by_panels<W, 3>(g, panel, ahead);
    if (streams == 2) row_by_panels<W, 2>(g, panel, ahead);
    if (streams == 1) row_by_panels<W, 1>(g, panel, ahead);
    panel += streams;
  }
}

}  // namespace
}  // namespace PG_NS
}  // namespace pg
