// Rotary embedding and the append of keys and values to their pages.
//
// Angles are the f32 product position * invFreq, as Hugging Face computes them. One thread turns one pair of numbers.
// Traffic: q is read and written once; k and v are read once and written to the pool in its own dtype.
#include "kv-fp8.cuh"
#include "turn.cuh"

// Codes of KV element types (codes.ts).
#define KV_F32 0
#define KV_F16 1
#define KV_BF16 2
#define KV_I8 3

struct RotaryTableArgs {
  float* cos; float* sin; const int* positions; const float* invFreq; int half; float scale;
};
KERNEL(256, rotary_table, RotaryTableArgs) {
  int t = blockIdx.x, i = blockIdx.y * blockDim.x + threadIdx.x;
  if (i >= a.half) return;
  float angle = __fmul_rn((float)a.positions[t], a.invFreq[i]);
  double s, c;
  sincos((double)angle, &s, &c);
  a.cos[(i64)t * a.half + i] = (float)c * a.scale;
  a.sin[(i64)t * a.half + i] = (float)s * a.scale;
}

struct RotaryArgs {
  float* x; const float* cos; const float* sin; i64 xStride;
  int heads, headDim, offset, half, interleaved, pad;
};
KERNEL(256, rotary, RotaryArgs) {
  int t = blockIdx.x, at = blockIdx.y * blockDim.x + threadIdx.x;
  if (at >= a.heads * a.half) return;
  int h = at / a.half, i = at % a.half;
  float* x = a.x + t * a.xStride + h * a.headDim + a.offset;
  float* first = x + (a.interleaved ? 2 * i : i);
  float* second = a.interleaved ? first + 1 : first + a.half;
  turn(*first, *second, a.cos[(i64)t * a.half + i], a.sin[(i64)t * a.half + i]);
}

struct AppendArgs {
  float* q; const float* k; const float* v; const float* cos; const float* sin; void* pool; const int* slots;
  i64 qStride, kStride, vStride, pageStride, layerOffset, valueOffset;  // of the pool: in elements, of i8 and fp8 in bytes
  int numHeads, numKvHeads, keyDim, valueDim, keySlot, valueSlot, pageSize, half, interleaved, dtype;
  int isTiled, pad;  // whether a head's slots lie in core matrices (attention-mma.cuh)
};

__device__ __forceinline__ void put_kv(void* pool, i64 at, float v, int dtype) {
  if (dtype == KV_F32) ((float*)pool)[at] = v;
  else if (dtype == KV_F16) ((u16*)pool)[at] = to_bits(v, KIND_F16);
  else ((u16*)pool)[at] = to_bits(v, KIND_BF16);
}

// A warp per (token, head): heads of q first, then those of k, then those of v.
template <bool IS_FP8>
__device__ __forceinline__ void rotary_append_to(const AppendArgs& a) {
  const int warp = (blockIdx.y * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31, t = blockIdx.x;
  const int H = a.numHeads, K = a.numKvHeads;
  if (warp >= (a.v == nullptr ? H + K : H + 2 * K)) return;  // no v: a latent pool, whose values lie in its keys
  if (warp < H) {
    if (a.cos == nullptr) return;
    float* x = a.q + t * a.qStride + (i64)warp * a.keyDim;
    for (int i = lane; i < a.half; i += 32) {
      float* first = x + (a.interleaved ? 2 * i : i);
      float* second = a.interleaved ? first + 1 : first + a.half;
      turn(*first, *second, a.cos[(i64)t * a.half + i], a.sin[(i64)t * a.half + i]);
    }
    return;
  }
  const int slot = a.slots[t];
  if (slot < 0) return;
  const bool isKey = warp < H + K;
  const int head = warp - H - (isKey ? 0 : K), dim = isKey ? a.keyDim : a.valueDim;
  const float* x = isKey ? a.k + t * a.kStride + (i64)head * dim : a.v + t * a.vStride + (i64)head * dim;
  const int page = slot / a.pageSize, inPage = slot % a.pageSize;
  const int slotStride = isKey ? a.keySlot : a.valueSlot;
  const i64 headAt = (i64)page * a.pageStride + a.layerOffset + (isKey ? 0 : a.valueOffset) + (i64)head * a.pageSize * slotStride;
  const int turned = isKey && a.cos != nullptr ? 2 * a.half : 0;
  // The number at index c of the turned vector.
  auto value = [&](int c) -> float {
    if (c >= turned) return x[c];
    int i = a.interleaved ? c >> 1 : c % a.half;
    bool isSecond = a.interleaved ? (c & 1) : c >= a.half;
    float first = x[a.interleaved ? 2 * i : i], second = x[a.interleaved ? 2 * i + 1 : i + a.half];
    turn(first, second, a.cos[(i64)t * a.half + i], a.sin[(i64)t * a.half + i]);
    return isSecond ? second : first;
  };
  if constexpr (IS_FP8) {
    int top = 0;  // the bits of a magnitude grow with it; NaN is above all
    for (int c = lane; c < dim; c += 32) top = max(top, (int)__float_as_uint(fabsf(value(c))));
    const float most = __int_as_float(__reduce_max_sync(0xffffffffu, top));
    const int exponent = fp8_exponent(most);
    const bool isFinite = most < __int_as_float(0x7F800000);
    const float inverse = __uint_as_float((u32)(127 - exponent) << 23);
    if (a.isTiled) {
      u8* group = (u8*)a.pool + headAt + (inPage >> 3) * 8 * fp8_slot(dim);
      if (lane == 0) ((u16*)(group + 8 * dim))[inPage & 7] = isFinite ? (u16)((247 + exponent) << 7) : 0x7FC0;
      for (int i = lane; i < dim / 2; i += 32) {
        const int c = (i >> 3) * 16 + (i & 7);
        const u16 bits = fp8_mix(fp8_code(__fmul_rn(value(c), inverse)), fp8_code(__fmul_rn(value(c + 8), inverse)));
        *(u16*)(group + (isKey ? fp8_key_at(inPage & 7, i) : fp8_value_at(inPage & 7, i))) = bits;
      }
    } else {  // an f32 scale, then the codes
      u8* vector = (u8*)a.pool + headAt + (i64)inPage * slotStride;
      if (lane == 0) *(float*)vector = isFinite ? __uint_as_float((u32)(127 + exponent) << 23) : __int_as_float(0x7FC00000);
      for (int c = lane; c < dim; c += 32) vector[4 + c] = fp8_code(__fmul_rn(value(c), inverse));
    }
    return;
  }
  if (a.isTiled) {
    const i64 at = headAt + (inPage >> 3) * 8 * dim + (inPage & 7) * 8;
    for (int c = lane; c < dim; c += 32) put_kv(a.pool, at + (c >> 3) * 64 + (c & 7), value(c), a.dtype);
    return;
  }
  const i64 at = headAt + (i64)inPage * slotStride;
  if (a.dtype != KV_I8) {
    for (int c = lane; c < dim; c += 32) put_kv(a.pool, at + c, value(c), a.dtype);
    return;
  }
  // i8: one scale per vector, max |x| / 127, kept in f32 before the vector's bytes.
  float most = 0.f;
  for (int c = lane; c < dim; c += 32) most = fmaxf(most, fabsf(value(c)));
  float scale = warp_max(most) / 127.f;
  u8* bytes = (u8*)a.pool + at;
  if (lane == 0) *(float*)bytes = scale;
  for (int c = lane; c < dim; c += 32) ((signed char*)bytes)[4 + c] = scale == 0.f ? 0 : (signed char)rintf(value(c) / scale);
}

KERNEL(256, rotary_append, AppendArgs) { rotary_append_to<false>(a); }
KERNEL(256, rotary_append_fp8, AppendArgs) { rotary_append_to<true>(a); }
