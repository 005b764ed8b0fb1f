// Up to 32 tokens of a mixture of experts (experts-grouped.cuh): blockIdx.x has two strips, blockIdx.y is the unit. Bound by reading the
// weights of the experts that were chosen; they depend on the router, so nothing is asked for before it has ended.
#pragma once
#include "experts-grouped.cuh"
#include "matmul-stream.cuh"

struct ExpertStreamArgs {
  StreamArgs product; Units units;
  int sharesOperand, pad;  // whether all units read one operand, that of the step's tokens
};

template <int FORMAT, int NT, int STEPS, int STAGES>
__device__ __forceinline__ void expert_stream(const ExpertStreamArgs& a) {
  if ((int)blockIdx.y >= *a.units.numUnits) return;
  const Unit unit = a.units.units[blockIdx.y];
  StreamArgs product = a.product;
  product.w = (const u8*)a.units.weights[unit.expert];
  if (!a.sharesOperand) product.x += (u64)unit.first * product.steps * 64;
  product.n = unit.count;
  if (product.epilogue.out != nullptr) product.epilogue.out += unit.first * product.epilogue.outStride;
  if (product.epilogue.bias != nullptr) product.epilogue.bias += unit.expert * a.units.biasStride;
  if (product.gate.operand.data != nullptr) product.gate.operand.data += (u64)unit.first * ((product.rows + 63) / 64 * 64);
  stream<FORMAT, NT, 2, STEPS, STAGES>(product);
}

#define EXPERT_STREAM(FORMAT, name, NT, STEPS, STAGES) \
  KERNEL(96, expert_stream_##name##_##NT, ExpertStreamArgs) { expert_stream<FORMAT, NT, STEPS, STAGES>(a); }
// As the table in src/device/cuda/experts.ts has them.
#define EXPERT_STREAMS(FORMAT, name) \
  EXPERT_STREAM(FORMAT, name, 1, 4, 3) EXPERT_STREAM(FORMAT, name, 2, 4, 3) EXPERT_STREAM(FORMAT, name, 4, 4, 3)
