// Weights on their way into the device: matrices of a checkpoint become f32 rows (f32 checkpoints) or strips (fragments.cuh): of 16-bit
// numbers, or of the codes and scales of the checkpoint's blocks. K is padded with zeros to 64s, rows to 16s. Traffic: read once,
// written once.
#include "common.cuh"
#include "fragments.cuh"

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

struct UnpackWeightArgs {
  u16* out; const u16* from;  // [rows, cols]; strips
  i64 rows, cols, paddedCols;
};
// The rows of a matrix of 16-bit numbers from its strips. A thread per pair of k's.
KERNEL(256, unpack_weight, UnpackWeightArgs) {
  i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x, pairs = a.cols >> 1;
  if (at >= a.rows * pairs) return;
  i64 row = at / pairs, c = 2 * (at % pairs);
  int rr = (int)(row & 15), kk = (int)(c & 15);
  int lane = (rr & 7) * 4 + ((kk & 7) >> 1);
  int j = ((kk >> 3) << 2) | ((rr >> 3) << 1);
  i64 block = (row >> 4) * (a.paddedCols >> 4) + (c >> 4);
  *(u32*)(a.out + row * a.cols + c) = *(const u32*)(a.from + block * 256 + lane * 8 + j);
}

// Block encodings, as CODED in codes.ts numbers them. d and m are f16.
#define BLOCKS_Q4_0 0
#define BLOCKS_Q4_1 1
#define BLOCKS_Q5_0 2
#define BLOCKS_Q5_1 3
#define BLOCKS_Q8_0 4
#define BLOCKS_Q4_K 5
#define BLOCKS_Q5_K 6
#define BLOCKS_Q6_K 7
#define BYTES_E4M3 8
#define BLOCKS_MXFP4 9
#define BLOCKS_IQ4_NL 10
#define BLOCKS_IQ4_XS 11
#define BLOCKS_Q2_K 12
#define BLOCKS_Q3_K 13
#define BLOCKS_E4M3_64 14

// 32 weights of a row, as codes and, for each 16 of them, a scale and a minimum: scale * q + min. Where a block has no minimum, min is
// what centres the codes: -centre * scale.
struct Codes {
  u8 q[32];
  float scale[2], min[2], centre;
};

__device__ __forceinline__ float f16_at(const u8* p) { return f16_value((u16)(p[0] | p[1] << 8)); }
// q4_k and q5_k: 8 scales and 8 mins of 6 bits in 12 bytes; those of groups 4..7 have their top bits in the bytes of groups 0..3.
__device__ __forceinline__ int k_scale(const u8* p, int g) { return g < 4 ? p[g] & 63 : (p[g + 4] & 15) | (p[g - 4] >> 6) << 4; }
__device__ __forceinline__ int k_min(const u8* p, int g) { return g < 4 ? p[g + 4] & 63 : p[g + 4] >> 4 | (p[g] >> 6) << 4; }

__device__ __forceinline__ void set_scale(Codes& c, float scale, float min, float centre) {
  c.scale[0] = c.scale[1] = scale;
  c.min[0] = c.min[1] = min;
  c.centre = centre;
}

// The 16 levels of iq4_nl and iq4_xs, 128 higher; nibbles of 16 bytes, the low ones first.
__device__ __forceinline__ void read_levels(Codes& c, const u8* pairs) {
  const u8 levels[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
  for (int i = 0; i < 32; i++) c.q[i] = levels[i < 16 ? pairs[i] & 15 : pairs[i - 16] >> 4];
}

__device__ void read_codes(Codes& c, const u8* row, int at, int encoding) {  // `at`: which 32 of the row
  switch (encoding) {
    case BLOCKS_Q4_0: case BLOCKS_Q4_1: case BLOCKS_Q5_0: case BLOCKS_Q5_1: {
      const bool hasMin = encoding == BLOCKS_Q4_1 || encoding == BLOCKS_Q5_1, hasFifth = encoding >= BLOCKS_Q5_0;
      const u8* b = row + (i64)at * (18 + (hasMin ? 2 : 0) + (hasFifth ? 4 : 0));
      const u8* fifth = b + (hasMin ? 4 : 2);
      const u8* pairs = fifth + (hasFifth ? 4 : 0);
      set_scale(c, f16_at(b), hasMin ? f16_at(b + 2) : 0.f, hasMin ? 0.f : hasFifth ? 16.f : 8.f);
      for (int i = 0; i < 32; i++) {
        c.q[i] = i < 16 ? pairs[i] & 15 : pairs[i - 16] >> 4;
        if (hasFifth) c.q[i] |= (fifth[i >> 3] >> (i & 7) & 1) << 4;
      }
      return;
    }
    case BLOCKS_Q8_0: {
      const u8* b = row + (i64)at * 34;
      set_scale(c, f16_at(b), 0.f, 128.f);
      for (int i = 0; i < 32; i++) c.q[i] = b[2 + i] ^ 0x80;
      return;
    }
    case BLOCKS_Q4_K: case BLOCKS_Q5_K: {
      const bool hasFifth = encoding == BLOCKS_Q5_K;
      const u8* b = row + (i64)(at >> 3) * (hasFifth ? 176 : 144);
      const int g = at & 7;
      const u8* from = b + (hasFifth ? 48 : 16) + 32 * (g >> 1);
      set_scale(c, f16_at(b) * k_scale(b + 4, g), -f16_at(b + 2) * k_min(b + 4, g), 0.f);
      for (int i = 0; i < 32; i++) {
        c.q[i] = from[i] >> (4 * (g & 1)) & 15;
        if (hasFifth) c.q[i] |= (b[16 + i] >> g & 1) << 4;
      }
      return;
    }
    case BLOCKS_Q6_K: {
      const u8* b = row + (i64)(at >> 3) * 210;
      const int part = (at & 7) >> 2, run = at & 3;
      const float d = f16_at(b + 208);
      set_scale(c, 0.f, 0.f, 32.f);
      for (int h = 0; h < 2; h++) c.scale[h] = d * (signed char)b[192 + 2 * (at & 7) + h];
      for (int i = 0; i < 32; i++) {
        c.q[i] = (b[64 * part + 32 * (run & 1) + i] >> (4 * (run >> 1)) & 15) | (b[128 + 32 * part + i] >> (2 * run) & 3) << 4;
      }
      return;
    }
    case BLOCKS_Q2_K: {
      const u8* b = row + (i64)(at >> 3) * 84;
      const u8* from = b + 16 + 32 * ((at & 7) >> 2);
      set_scale(c, 0.f, 0.f, 0.f);
      for (int h = 0; h < 2; h++) {
        const u8 both = b[2 * (at & 7) + h];
        c.scale[h] = f16_at(b + 80) * (both & 15);
        c.min[h] = -f16_at(b + 82) * (both >> 4);
      }
      for (int i = 0; i < 32; i++) c.q[i] = from[i] >> (2 * (at & 3)) & 3;
      return;
    }
    case BLOCKS_Q3_K: {
      const u8* b = row + (i64)(at >> 3) * 110;
      const u8* from = b + 32 + 32 * ((at & 7) >> 2);
      set_scale(c, 0.f, 0.f, 4.f);
      for (int h = 0; h < 2; h++) {
        const int g = 2 * (at & 7) + h;
        const int low = b[96 + (g & 7)] >> (4 * (g >> 3)) & 15, high = b[104 + (g & 3)] >> (2 * (g >> 2)) & 3;
        c.scale[h] = f16_at(b + 108) * ((low | high << 4) - 32);
      }
      for (int i = 0; i < 32; i++) c.q[i] = (from[i] >> (2 * (at & 3)) & 3) | (b[i] >> (at & 7) & 1) << 2;
      return;
    }
    case BLOCKS_IQ4_NL: {
      const u8* b = row + (i64)at * 18;
      set_scale(c, f16_at(b), 0.f, 128.f);
      read_levels(c, b + 2);
      return;
    }
    case BLOCKS_IQ4_XS: {
      const u8* b = row + (i64)(at >> 3) * 136;
      const int g = at & 7, low = b[4 + (g >> 1)] >> (4 * (g & 1)) & 15, high = (b[2] | b[3] << 8) >> (2 * g) & 3;
      set_scale(c, f16_at(b) * ((low | high << 4) - 32), 0.f, 128.f);
      read_levels(c, b + 8 + 16 * g);
      return;
    }
    case BLOCKS_MXFP4: {
      const u8* b = row + (i64)at * 17;
      set_scale(c, ldexpf(1.f, b[0] - 127), 0.f, 0.f);
      for (int i = 0; i < 32; i++) c.q[i] = i < 16 ? b[1 + i] & 15 : b[1 + i - 16] >> 4;
      return;
    }
    case BLOCKS_E4M3_64: {
      const u8* b = row + (i64)(at >> 1) * 68;
      set_scale(c, *(const float*)b, 0.f, 0.f);
      for (int i = 0; i < 32; i++) c.q[i] = b[4 + 32 * (at & 1) + i];
      return;
    }
    default:
      set_scale(c, 1.f, 0.f, 0.f);
      for (int i = 0; i < 32; i++) c.q[i] = row[(i64)at * 32 + i];
  }
}

struct PackCodesArgs {
  u8* out; const u8* from;
  i64 firstRow, stagedRows, rowBytes;
  int cols, steps, encoding, format;
};
template <int FORMAT>
__device__ void pack_codes_as(const PackCodesArgs& a, i64 row, int at, const Codes& c) {
  typedef Fragments<FORMAT> F;
  const int r = (int)(row & 15);
  u8* step = a.out + ((row >> 4) * a.steps + (at >> 1)) * F::STEP_BYTES;
  for (int i = 0; i < 32; i += 2) {
    u8* to = step + code_at<FORMAT>(r, (at & 1) * 32 + i);
    const bool isFirst = (i & 8) == 0;  // of two that lie together
    if (F::IS_E4M3) { if (isFirst) *(u32*)to = e4m3_word(c.q[i], c.q[i + 1], c.q[i + 8], c.q[i + 9]); }
    else if (F::BITS != 4) { to[0] = c.q[i]; to[1] = c.q[i + 1]; }
    else if (isFirst) { to[0] = c.q[i] | c.q[i + 8] << 4; to[2] = c.q[i + 1] | c.q[i + 9] << 4; }
  }
  u16* scales = (u16*)(step + F::CODE_BYTES);
  if (F::IS_E4M3) {
    if (at & 1) return;
    u16* to = scales + scale_at(F::GROUPS, F::HAS_TWO, r, 0);
    const float scale = c.scale[0] * 0x1p120f;
    to[0] = bf16_bits(scale);
    to[1] = bf16_bits(scale - from_bits(to[0], KIND_BF16));
    return;
  }
  const int per32 = F::GROUPS / 2;  // groups in these 32
  for (int h = 0; h < per32; h++) {
    u16* to = scales + scale_at(F::GROUPS, F::HAS_MIN, r, (at & 1) * per32 + h);
    const int kind = F::BITS == 4 ? KIND_BF16 : KIND_F16;
    const float factor = F::BITS == 8 && F::HAS_MIN ? SCALED_BY : 1.f;
    to[0] = to_bits(c.scale[h] * factor, kind);
    // Codes stay centred exactly: the minimum is made from the scale as it was rounded.
    if (F::HAS_MIN) to[1] = to_bits(c.centre != 0.f ? -c.centre * from_bits(to[0], kind) : c.min[h] * factor, kind);
  }
}
// A thread per 32 weights of a row.
KERNEL(128, pack_codes, PackCodesArgs) {
  const int per = a.cols >> 5;
  const i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= a.stagedRows * per) return;
  const i64 r = index / per, row = a.firstRow + r;
  const int at = (int)(index % per);
  Codes c;
  read_codes(c, a.from + r * a.rowBytes, at, a.encoding);
  switch (a.format) {
    case FORMAT_Q4: return pack_codes_as<FORMAT_Q4>(a, row, at, c);
    case FORMAT_Q4_MIN: return pack_codes_as<FORMAT_Q4_MIN>(a, row, at, c);
    case FORMAT_Q8: return pack_codes_as<FORMAT_Q8>(a, row, at, c);
    case FORMAT_Q8_MIN: return pack_codes_as<FORMAT_Q8_MIN>(a, row, at, c);
    case FORMAT_E4M3: return pack_codes_as<FORMAT_E4M3>(a, row, at, c);
    case FORMAT_E2M1: return pack_codes_as<FORMAT_E2M1>(a, row, at, c);
  }
}
