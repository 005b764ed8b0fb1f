// Products with packed weights as chunks of work for the pool: of one weight (matmul.cpp), or of all experts of a layer (moe.cpp).
#pragma once
#include "choose-kernel.h"
#include "context.h"
#include "low-rank.h"
#include "matmul.h"
#include "weight.h"

namespace pg {

// n rows by a segment; x, and what becomes of the product, are left open.
Gemm gemm_of(const Kernels& kernels, const MatmulKernel& kernel, const Segment& segment, int64_t n, int64_t cols);

// Whether kernels of the weight read more fields of integer activations than the plain ones do.
bool needs_all_fields(const Weight& weight);

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
// Bytes of a worker's room for `rows` rows of gates and of what they gate.
int64_t gate_room_bytes(int64_t rows);

// The work of a segment, or of the two halves of a gated product: chunks of panels by bands of row tiles.
struct SegmentWork {
  const MatmulKernel* kernel;
  Gemm gemm;
  int64_t panels, columns, bands;
  int64_t first_chunk;  // among those of the segments that run together
  const GatedHalf* up;  // null: nothing is gated
  void run(int64_t chunk, uint8_t* scratch, float* gate_room) const;
};

// Segments that run together: nobody waits at the end of each.
struct Together {
  SegmentWork* segments;  // room for them
  int32_t count = 0;
  int64_t chunks = 0;
  explicit Together(SegmentWork* room) : segments(room) {}
  // panels_of_all: of the segments that will run together.
  void add(const MatmulKernel& kernel, const Gemm& gemm, int64_t panels, int64_t panels_of_all, int32_t threads, const GatedHalf* up = nullptr);
  // The panels that a worker begins with, as many as it may prefetch.
  Ahead first_panels(int32_t worker, int32_t threads) const;
  void run(Context* context);

 private:
  const SegmentWork* work_of(int64_t chunk) const;
};

// Gate and up of a weight, the first and the second half of its outputs, by n rows; x is left open. False where the halves are neither two
// matrices nor whole panels of one, or meet x in different layouts.
struct GatedProduct {
  const MatmulKernel* kernel;
  Gemm gate;
  GatedHalf up;
  int64_t panels;
};
bool gated_product(GatedProduct* out, const Kernels& kernels, const Weight& weight, int64_t n, int32_t activation);

}  // namespace pg
