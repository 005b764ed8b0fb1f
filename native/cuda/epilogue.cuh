// What a matmul does with a finished sum: out = scale * (sum + bias), or out += that.
#pragma once
#include "common.cuh"

struct Epilogue {
  float* out; const float* bias; i64 outStride;
  float scale; int accumulate;
};

// What `finish` adds to. Apart from it, so that a thread asks for all its numbers before it waits for the first of them: a load behind
// each store would make a chain of memory latencies.
__device__ __forceinline__ float before(const Epilogue& e, i64 t, int o) { return e.accumulate ? e.out[t * e.outStride + o] : 0.f; }
__device__ __forceinline__ float bias_of(const Epilogue& e, int o) { return e.bias == nullptr ? 0.f : e.bias[o]; }

__device__ __forceinline__ void finish(const Epilogue& e, i64 t, int o, float sum, float bias, float before) {
  if (e.bias != nullptr) sum += bias;
  e.out[t * e.outStride + o] = e.accumulate ? fmaf(e.scale, sum, before) : e.scale * sum;
}

// A warp's 16 outputs from `o`, COUNT groups of 8 tokens from `t`, as the tensor cores leave them in registers (ptx.cuh).
template <int COUNT>
__device__ __forceinline__ void finish_strip(const Epilogue& e, const float* sum, i64 t, int o, i64 tokens, int rows) {
  const int lane = threadIdx.x & 31, q = lane & 3;
  o += lane >> 2;
  const float bias[2] = {o < rows ? bias_of(e, o) : 0.f, o + 8 < rows ? bias_of(e, o + 8) : 0.f};
  constexpr int BATCH = COUNT < 8 ? COUNT : 8;
#pragma unroll
  for (int i = 0; i < COUNT; i += BATCH) {
    float old[BATCH][4];
#pragma unroll
    for (int b = 0; b < BATCH; b++) {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const i64 token = t + (i + b) * 8 + 2 * q + (j & 1);
        const int row = o + (j >> 1) * 8;
        old[b][j] = row < rows && token < tokens ? before(e, token, row) : 0.f;
      }
    }
#pragma unroll
    for (int b = 0; b < BATCH; b++) {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const i64 token = t + (i + b) * 8 + 2 * q + (j & 1);
        const int row = o + (j >> 1) * 8;
        if (row < rows && token < tokens) finish(e, token, row, sum[(i + b) * 4 + j], bias[j >> 1], old[b][j]);
      }
    }
  }
}

// A gated feed-forward in one product: out = act(gate) * up, where up's rows follow gate's in the weights. `operand` is out's; out may
// be null where nothing else reads the numbers.
struct Gate {
  Operand operand; int isGated, activation;
};

__device__ __forceinline__ void finish_gated(const Epilogue& e, const Gate& gate, i64 t, int o, float g, float u) {
  const float v = gated(gate.activation, g, u);
  if (e.out != nullptr) e.out[t * e.outStride + o] = v;
  if (gate.operand.data != nullptr) gate.operand.data[operand_index(gate.operand, (int)t, o)] = to_bits(v, gate.operand.kind);
}
