// Weights on their way into the device: float matrices of a checkpoint become f32 rows (f32 checkpoints) or 16-bit fragments.
//
// Fragments: [rows/16][K/16][lane 32][8]: a block of 16 rows and 16 k's is 512 contiguous bytes, and a lane's 16 bytes are the
// four registers of its A fragment of m16n8k16, for mma.sync and for wgmma with A in registers alike. K is padded with zeros
// to 64s, rows to 16s. Traffic: read once, written once.
#include "common.cuh"

// Codes of what the staged bytes are (codes.ts).
#define FROM_F32 0
#define FROM_F16 1
#define FROM_BF16 2
#define FROM_E4M3 3
#define FROM_E5M2 4

__device__ float small_float(u8 b, int exponentBits, int mantissaBits, int bias) {
  int e = (b >> mantissaBits) & ((1 << exponentBits) - 1), m = b & ((1 << mantissaBits) - 1);
  float v = e == 0 ? ldexpf((float)m, 1 - bias - mantissaBits) : ldexpf((float)(m | (1 << mantissaBits)), e - bias - mantissaBits);
  if (exponentBits == 4 && (b & 0x7f) == 0x7f) v = __int_as_float(0x7fc00000);
  if (exponentBits == 5 && e == 31) v = m == 0 ? __int_as_float(0x7f800000) : __int_as_float(0x7fc00000);
  return b & 0x80 ? -v : v;
}

__device__ float staged_value(const void* from, i64 at, int dtype) {
  switch (dtype) {
    case FROM_F32: return ((const float*)from)[at];
    case FROM_F16: return from_bits(((const u16*)from)[at], KIND_F16);
    case FROM_BF16: return from_bits(((const u16*)from)[at], KIND_BF16);
    case FROM_E4M3: return small_float(((const u8*)from)[at], 4, 3, 7);
    default: return small_float(((const u8*)from)[at], 5, 2, 15);
  }
}

struct PackWeightArgs {
  void* out; const void* from;
  i64 firstRow;                      // of the matrix: where the first staged row goes
  i64 stagedRows, cols, paddedCols;  // staged [stagedRows, cols], or [cols, stagedRows] when transposed
  int dtype, kind, isTransposed, pad;
};
// A thread per pair of k's of a row.
KERNEL(256, pack_weight, PackWeightArgs) {
  i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x, pairs = a.paddedCols >> 1;
  if (at >= a.stagedRows * pairs) return;
  i64 r = at / pairs, c = 2 * (at % pairs);
  auto value = [&](i64 col) -> float {
    if (col >= a.cols) return 0.f;
    return staged_value(a.from, a.isTransposed ? col * a.stagedRows + r : r * a.cols + col, a.dtype);
  };
  i64 row = a.firstRow + r;
  if (a.kind == KIND_NONE) {
    float* out = (float*)a.out + row * a.cols;
    if (c < a.cols) out[c] = value(c);
    if (c + 1 < a.cols) out[c + 1] = value(c + 1);
    return;
  }
  int rr = (int)(row & 15), kk = (int)(c & 15);
  int lane = (rr & 7) * 4 + ((kk & 7) >> 1);
  int j = ((kk >> 3) << 2) | ((rr >> 3) << 1);
  i64 block = (row >> 4) * (a.paddedCols >> 4) + (c >> 4);
  *(u32*)((u16*)a.out + block * 256 + lane * 8 + j) = pack2(value(c), value(c + 1), a.kind);
}
