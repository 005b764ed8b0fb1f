// Ops that towers need beside those of text models.
#include "common.cuh"

// out = min(max(x, low), high) over [n, cols]: blockIdx.x is the row. NaN stays NaN.
struct ClampArgs {
  float* out; const float* x; i64 outStride, xStride; int cols; float low, high; int pad;
};
KERNEL(256, clamp_rows, ClampArgs) {
  const int t = blockIdx.x, c = blockIdx.y * blockDim.x + threadIdx.x;
  if (c >= a.cols) return;
  const float x = a.x[t * a.xStride + c];
  a.out[t * a.outStride + c] = x < a.low ? a.low : x > a.high ? a.high : x;
}

// out = act(x), or act(x) * y, over [n, cols], four columns a thread, and its operand: the matrices behind it are wide.
struct ActivateArgs {
  float* out; const float* x; const float* y; Operand operand; i64 outStride, xStride, yStride; int cols, kind;
};
KERNEL(256, activate_quads, ActivateArgs) {
  const int t = blockIdx.x, c = 4 * (int)(blockIdx.y * blockDim.x + threadIdx.x);
  if (c >= a.cols) return;
  Quad v = *(const Quad*)(a.x + t * a.xStride + c);
  const Quad y = a.y == nullptr ? Quad{{1.f, 1.f, 1.f, 1.f}} : *(const Quad*)(a.y + t * a.yStride + c);
  for (int j = 0; j < 4; j++) v.v[j] = activate(a.kind, v.v[j]) * y.v[j];
  *(Quad*)(a.out + t * a.outStride + c) = v;
  if (a.operand.data != nullptr) operand_put4(a.operand, t, c, v);
}

// Keys and values of a token to 16-bit pages in core matrices (attention-mma.cuh), as they are: eight numbers of a head a thread, 16 bytes of
// the page. The bits of rotary_append.
struct PlainAppendArgs {
  const float* k; const float* v; u16* pool; const int* slots;
  i64 kStride, vStride, pageStride, layerOffset, valueOffset;
  int numKvHeads, keyDim, valueDim, pageSize, kind, n;
};
// Eight threads side by side have the same numbers of eight tokens, which lie side by side in the page too.
KERNEL(256, append_plain, PlainAppendArgs) {
  const int t = 8 * blockIdx.x + (threadIdx.x & 7), slot = t < a.n ? a.slots[t] : -1;
  if (slot < 0) return;
  const int page = slot / a.pageSize, inPage = slot % a.pageSize;
  const int numKeys = a.numKvHeads * a.keyDim / 8, numValues = a.numKvHeads * a.valueDim / 8;
  for (int i = (blockIdx.y * blockDim.x + threadIdx.x) / 8; i < numKeys + numValues; i += gridDim.y * blockDim.x / 8) {
    const bool isKey = i < numKeys;
    const int dim = isKey ? a.keyDim : a.valueDim, at = isKey ? i : i - numKeys;
    const int head = at / (dim / 8), group = at % (dim / 8);
    const float* x = (isKey ? a.k + t * a.kStride : a.v + t * a.vStride) + at * 8;
    const Quad low = *(const Quad*)x, high = *(const Quad*)(x + 4);
    const i64 to = (i64)page * a.pageStride + a.layerOffset + (isKey ? 0 : a.valueOffset) + (i64)head * a.pageSize * dim +
                   (inPage >> 3) * 8 * dim + (inPage & 7) * 8 + group * 64;
    *(uint4*)(a.pool + to) = {pack2(low.v[0], low.v[1], a.kind), pack2(low.v[2], low.v[3], a.kind),
                              pack2(high.v[0], high.v[1], a.kind), pack2(high.v[2], high.v[3], a.kind)};
  }
}
