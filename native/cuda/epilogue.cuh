// What a matmul does with a finished sum: out = scale * (sum + bias), or out += that.
#pragma once
#include "common.cuh"

struct Epilogue {
  float* out; const float* bias; i64 outStride;
  float scale; int accumulate;
};

__device__ __forceinline__ void finish(const Epilogue& e, i64 t, int o, float sum) {
  if (e.bias != nullptr) sum += e.bias[o];
  float* out = e.out + t * e.outStride + o;
  *out = e.accumulate ? fmaf(e.scale, sum, *out) : e.scale * sum;
}

// A gated feed-forward in one product: out = act(gate) * up, where up's rows follow gate's in the weights. `operand` is out's.
struct Gate {
  Operand operand; int isGated, activation;
};

__device__ __forceinline__ void finish_gated(const Epilogue& e, const Gate& gate, i64 t, int o, float g, float u) {
  const float v = activate(gate.activation, g) * u;
  e.out[t * e.outStride + o] = v;
  if (gate.operand.data != nullptr) gate.operand.data[operand_index(gate.operand, (int)t, o)] = to_bits(v, gate.operand.kind);
}
