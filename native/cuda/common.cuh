// What every kernel shares: small types, conversions, reductions in a fixed order, activations, and the two orders in which
// activations lie for the tensor cores. No fast-math anywhere: a kernel says itself where it uses an approximation.
//
// Batch invariance: a sum's order depends on the row's own length alone, never on how many rows there are.
#pragma once
#include "ptx.cuh"

#define LOG2E 1.4426950408889634f

struct alignas(16) Quad { float v[4]; };

__device__ __forceinline__ u16 to_bits(float x, int kind) {
  // f16 holds no more than 65504: a larger number saturates instead of becoming an infinity that poisons the row.
  return kind == KIND_BF16 ? bf16_bits(x) : f16_bits(fminf(fmaxf(x, -65504.f), 65504.f));
}
__device__ __forceinline__ float from_bits(u16 b, int kind) {
  return kind == KIND_BF16 ? __uint_as_float((u32)b << 16) : f16_value(b);
}
__device__ __forceinline__ u32 pack2(float a, float b, int kind) {
  return kind == KIND_BF16 ? round2<KIND_BF16>(a, b) : (u32)to_bits(a, KIND_F16) | ((u32)to_bits(b, KIND_F16) << 16);
}

// ---------------------------------------------------------------------------------------------------------------------
// Operands: activations rounded to 16 bits, in the order in which a matmul reads them.
//
// strip (few tokens, mma.sync): [K/32][tokens/8][lane 32][k16 step 2][4]. A lane's 16 bytes are its B fragments of two k16
// steps: token = lane / 4, and per step the k's 2q, 2q+1, 2q+8, 2q+9 with q = lane % 4.
//
// tile (many tokens, wgmma): [K/64][tokens/8][8 tokens][128 bytes, 16-byte columns XOR token % 8]: the 128-byte swizzle that
// wgmma's shared-memory descriptors name, laid out in global memory already, so that a tile of any number of tokens is one
// contiguous block per 64 k's and comes by one bulk copy.
//
// rows (many tokens, cuBLASLt): [tokens][K].
// ---------------------------------------------------------------------------------------------------------------------
#define ORDER_STRIP 0
#define ORDER_TILE 1
#define ORDER_ROWS 2
struct Operand {
  u16* data;     // null: none is wanted
  int tokens8;   // groups of 8 tokens in the layout; of rows: K
  int kind;      // KIND_*
  int order;     // ORDER_*
  int pad;
};

__device__ __forceinline__ u64 strip_index(int t, int k, int tokens8) {
  int kk = k & 15;
  int lane = (t & 7) * 4 + ((kk & 7) >> 1);
  int j = ((kk >> 3) << 1) | (kk & 1);
  return ((((u64)(k >> 5) * tokens8 + (t >> 3)) * 32 + lane) << 3) + ((k >> 4) & 1) * 4 + j;
}
__device__ __forceinline__ u64 tile_index(int t, int k, int tokens8) {
  u64 atom = (u64)(k >> 6) * tokens8 + (t >> 3);
  int row = t & 7;
  return (atom << 9) + row * 64 + (((((k & 63) >> 3) ^ row)) << 3) + (k & 7);
}
__device__ __forceinline__ u64 operand_index(const Operand& o, int t, int k) {
  if (o.order == ORDER_ROWS) return (u64)t * o.tokens8 + k;
  return o.order == ORDER_TILE ? tile_index(t, k, o.tokens8) : strip_index(t, k, o.tokens8);
}
// Two neighbouring k's, the first of them even: 4 bytes.
__device__ __forceinline__ void operand_put2(const Operand& o, int t, int k, float a, float b) {
  *(u32*)(o.data + operand_index(o, t, k)) = pack2(a, b, o.kind);
}
// Four, the first a multiple of 4: 8 bytes, but of strips.
__device__ __forceinline__ void operand_put4(const Operand& o, int t, int k, const Quad& v) {
  if (o.order == ORDER_STRIP) {
    operand_put2(o, t, k, v.v[0], v.v[1]);
    operand_put2(o, t, k + 2, v.v[2], v.v[3]);
  } else *(uint2*)(o.data + operand_index(o, t, k)) = {pack2(v.v[0], v.v[1], o.kind), pack2(v.v[2], v.v[3], o.kind)};
}

// ---------------------------------------------------------------------------------------------------------------------
// Reductions. Lanes add by halving distance, then warps do: one tree for a given block size.
// ---------------------------------------------------------------------------------------------------------------------
__device__ __forceinline__ float warp_sum(float v) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}
__device__ __forceinline__ float warp_max(float v) {
  for (int d = 16; d > 0; d >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}
// Sum over the block, known to all threads. `scratch` has room for 32 floats.
__device__ __forceinline__ float block_sum(float v, float* scratch) {
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
  v = warp_sum(v);
  __syncthreads();
  if (lane == 0) scratch[warp] = v;
  __syncthreads();
  return warp_sum(lane < warps ? scratch[lane] : 0.f);
}

// ---------------------------------------------------------------------------------------------------------------------
// Activations, codes as in codes.ts.
// ---------------------------------------------------------------------------------------------------------------------
// The quotient by the machine's reciprocal, to 1 unit in the last place: a division has a branch, behind which no other number is computed.
__device__ __forceinline__ float sigmoid_of(float x) { return reciprocal_of(1.f + expf(-x)); }
__device__ __forceinline__ float silu_of(float x) { return x * sigmoid_of(x); }

static __device__ __noinline__ float activate_other(int kind, float x) {
  switch (kind) {
    case 1: return 0.5f * x * (1.f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));         // gelu_tanh
    case 2: return 0.5f * x * (1.f + erff(x * 0.70710678118654752f));                                   // gelu
    case 3: return fmaxf(x, 0.f);                                                                       // relu
    case 4: { float r = fmaxf(x, 0.f); return r * r; }                                                  // relu2
    case 5: return sigmoid_of(x);
  }
  return x;
}
// silu in place, the others behind a call: long code in the middle of a loop costs the common case.
__device__ __forceinline__ float activate(int kind, float x) { return kind == 0 ? silu_of(x) : activate_other(kind, x); }
// gpt-oss: the gate is clamped above, the linear half on both sides, and one is added to it.
__device__ __forceinline__ float gated_oss(float gate, float up) {
  float g = fminf(gate, 7.f), u = fminf(fmaxf(up, -7.f), 7.f);
  return (u + 1.f) * g * sigmoid_of(1.702f * g);
}
#define ACTIVATION_OSS 7
__device__ __forceinline__ float gated(int kind, float gate, float up) {
  return kind == ACTIVATION_OSS ? gated_oss(gate, up) : activate(kind, gate) * up;
}
