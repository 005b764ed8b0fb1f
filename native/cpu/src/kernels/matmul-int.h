// Matmul with integer weights, int8 activations.
//
// Maths    w[j, k] = factor[j, block] * code[j, k] (+ minimum[j, block]),  x[i, k] = scale[i, block] * q[i, k]
//          out[i, j] = sum over blocks, ascending, of  factor * scale * (sum of code * q over the block's 32 columns)
//                                                     (+ minimum * scale * (sum of q))
// Order    the inner sum is over integers and therefore exact in any order; the outer one is one fused multiply-add per block
//          on one f32 accumulator per output. So a row's result does not depend on the rows beside it, and the instruction sets
//          with fused multiply-add agree bit for bit.
// Tiling   kIntVectors vectors of outputs by up to kIntTileRows rows of x. AVX-512: one vector of 16 outputs x 4 columns per
//          instruction (vpdpbusd), the whole panel side by side so that a broadcast of x serves two. AVX2: vpmaddubsw, made
//          safe from saturation (see groups_in_16_bits), half a panel at a time (one and two rows: the whole). Both from kUnpackedFrom rows on from codes
//          that are unpacked once (matmul-int-many.h). WebAssembly: half a panel, for a single row the whole.
//          Accumulators, integer and float, stay in registers.
// Traffic  codes and factors stream once per row tile; for decode that is once from memory, at 8.5 or 4.5 bits a weight.
//
// Included by the matmul-int-*.cpp files, which share the encodings among them so that they compile in parallel.
#pragma once
#include "../encoding.h"
#include "finish.h"
#include "matmul.h"
#if PG_WASM
#include "dots-wasm.h"
#endif

namespace pg {
namespace PG_NS {
namespace {

#ifndef PG_VNNI
#define PG_VNNI 0  // on AVX2: 1 with AVX-VNNI, 2 with what it does
#endif

// Vectors whose dot products are made together, sharing the broadcasts of x.
constexpr int kJoint = PG_WASM ? 4 : PG_ISA == 3 || PG_NEON ? 2 : 1;

// What a code that is multiplied is larger than its value. AVX2 looks up small values with small offsets: more of their products can be added
// up in 16 bits.
constexpr int32_t offset_here(Codes codes) {
  if (PG_ISA != 2 || !is_table(codes) || codes == Codes::kIq4) return offset_of(codes);
  return codes == Codes::kIq3 ? 64 : codes == Codes::kIq2 ? 48 : 16;
}

// -offset * sum(q), which a dot product starts from, of the side field: there are fields for 8 and 128 over whole blocks, for 8 over
// half ones.
template <Codes C, int Groups>
PG_INLINE int32_t start_from(int32_t field) {
  if constexpr (offset_here(C) == 128 && Groups == 8) return field;
  if constexpr (offset_here(C) % 8 == 0) return field * (offset_here(C) / 8);
  return (field >> 3) * offset_here(C);
}

PG_INLINE int32_t load_i32(const void* p) { int32_t v; memcpy(&v, p, 4); return v; }

// --- dots: for the kJoint vectors from vector v of the panel on, d[j][i] = the integer dot products with x row i over groups
//     [G0, G1) of the block, as f32. `codes` is at the block, `x` at its [8][MR] groups, `start` holds MR starting values.

#if PG_ISA == 2
// Whether codes are multiplied as their lower and their upper nibbles: those of 8 bits, where there is no instruction for them.
constexpr bool is_split(Codes codes) { return !PG_VNNI && (codes == Codes::kByte || codes == Codes::kIq4); }
#else
constexpr bool is_split(Codes) { return false; }
#endif
// Bytes that a code becomes where a panel is unpacked for many rows (matmul-int-many.h).
constexpr int unpacked_planes(Codes codes) { return is_split(codes) ? 2 : 1; }

#if PG_ISA == 3

template <Codes C>
PG_INLINE __m512i load_codes(const uint8_t* codes, int v, int group) {
  const auto at = [&](int64_t offset) { return _mm512_loadu_si512(codes + offset + v * 64); };
  const auto shifted = [](__m512i bits, int by) {
    return by < 0 ? _mm512_slli_epi16(bits, -by) : by == 0 ? bits : _mm512_srli_epi16(bits, by);
  };
  if constexpr (C == Codes::kByte) return at(group * 128);
  __m512i code;
  if constexpr (low_bits(C) == 2) code = _mm512_and_si512(shifted(at((group & 1) * 128), group & 6), _mm512_set1_epi8(3));
  else code = _mm512_and_si512(shifted(at((group & 3) * 128), group & 4), _mm512_set1_epi8(15));
  // Upper bits: shifted to where they belong, the mask keeps them; 0xf8 is "first or (second and third)".
  constexpr int from = upper_from(C);
  if constexpr (upper_bits(C) == 1) {
    const __m512i bits = shifted(at(upper_plane(C)), group - from);
    code = _mm512_ternarylogic_epi32(code, bits, _mm512_set1_epi8(1 << from), 0xf8);
  }
  if constexpr (upper_bits(C) == 2) {
    const __m512i bits = shifted(at(upper_plane(C) + (group & 1) * 128), (group & 6) - from);
    code = _mm512_ternarylogic_epi32(code, bits, _mm512_set1_epi8(3 << from), 0xf8);
  }
  if constexpr (is_table(C)) {
    const __m128i values = _mm_xor_si128(_mm_loadu_si128((const __m128i*)table_of(C)), _mm_set1_epi8((char)0x80));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), code);
  }
  return code;
}

// The codes of a block, as dots reads them.
template <Codes C>
void unpack_codes(uint8_t* out, const uint8_t* codes) {
#pragma GCC unroll 8
  for (int group = 0; group < 8; group++)
    for (int v = 0; v < kPanelRows / VL; v++) _mm512_storeu_si512(out + group * 128 + v * 64, load_codes<C>(codes, v, group));
}

template <Codes C, int Groups>
PG_INLINE __m512i start_of(int32_t field) {
  if constexpr (offset_of(C) == 0) return _mm512_setzero_si512();
  return _mm512_set1_epi32(start_from<C, Groups>(field));
}

template <Codes C, int MR, int G0, int G1, bool Unpacked>
PG_INLINE void dots(vf (&d)[kJoint][MR], const uint8_t* codes, int v, const uint8_t* x, const int32_t* start) {
  __m512i sum[kJoint][MR];
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++) {
    const __m512i first = start_of<C, G1 - G0>(start[i]);
#pragma GCC unroll 2
    for (int j = 0; j < kJoint; j++) sum[j][i] = first;
  }
#pragma GCC unroll 8
  for (int group = G0; group < G1; group++) {
    __m512i w[kJoint];
#pragma GCC unroll 2
    for (int j = 0; j < kJoint; j++) w[j] = load_codes<Unpacked ? Codes::kByte : C>(codes, v + j, group);
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) {
      const __m512i q = _mm512_set1_epi32(load_i32(x + (group * MR + i) * 4));
#pragma GCC unroll 2
      for (int j = 0; j < kJoint; j++) sum[j][i] = _mm512_dpbusd_epi32(sum[j][i], w[j], q);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
    for (int j = 0; j < kJoint; j++) d[j][i] = _mm512_cvtepi32_ps(sum[j][i]);
}

#elif PG_ISA == 2

#if PG_VNNI
// acc + the products of four unsigned codes and four signed numbers, summed in 32 bits.
PG_INLINE __m256i add_products(__m256i acc, __m256i w, __m256i q) {
#if PG_VNNI == 2  // the same without the instruction, for tests
  const __m256i nibble = _mm256_set1_epi8(15);
  const __m256i low = _mm256_maddubs_epi16(_mm256_and_si256(w, nibble), q);
  const __m256i high = _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(w, 4), nibble), q);
  acc = _mm256_add_epi32(acc, _mm256_madd_epi16(low, _mm256_set1_epi16(1)));
  return _mm256_add_epi32(acc, _mm256_madd_epi16(high, _mm256_set1_epi16(16)));
#else
  return _mm256_dpbusd_avx_epi32(acc, w, q);
#endif
}
#endif

// vpmaddubsw adds two products (unsigned x signed) in 16 bits, saturating. So many groups of columns can be added up in 16 bits before
// they are widened: 2 * 127 times the largest code is at most 32,767 for 128, 64 (two), 32 (four) and 16 (eight). Of 8-bit codes none
// can: they are split, 16 * high + low.
constexpr int groups_in_16_bits(Codes codes) {
  if (codes == Codes::kIq2 || codes == Codes::kIq3) return 1;
  const int bits = is_table(codes) ? 5 : low_bits(codes) + upper_bits(codes);
  return bits <= 4 ? 8 : bits == 5 ? 4 : 2;
}
template <Codes C>
PG_INLINE __m256i load_whole_codes(const uint8_t* codes, int v, int group) {
  const auto at = [&](int64_t offset) { return _mm256_loadu_si256((const __m256i*)(codes + offset + v * 32)); };
  const auto shifted = [](__m256i bits, int by) {
    return by < 0 ? _mm256_slli_epi16(bits, -by) : by == 0 ? bits : _mm256_srli_epi16(bits, by);
  };
  if constexpr (C == Codes::kByte) return at(group * 128);
  __m256i code;
  if constexpr (low_bits(C) == 2) code = _mm256_and_si256(shifted(at((group & 1) * 128), group & 6), _mm256_set1_epi8(3));
  else code = _mm256_and_si256(shifted(at((group & 3) * 128), group & 4), _mm256_set1_epi8(15));
  // Upper bits: shifted to where they belong, the mask keeps them.
  constexpr int from = upper_from(C);
  if constexpr (upper_bits(C) == 1)
    code = _mm256_or_si256(code, _mm256_and_si256(shifted(at(upper_plane(C)), group - from), _mm256_set1_epi8(1 << from)));
  if constexpr (upper_bits(C) == 2) {
    const __m256i bits = shifted(at(upper_plane(C) + (group & 1) * 128), (group & 6) - from);
    code = _mm256_or_si256(code, _mm256_and_si256(bits, _mm256_set1_epi8(3 << from)));
  }
  if constexpr (is_table(C)) {
    const __m128i values = _mm_add_epi8(_mm_loadu_si128((const __m128i*)table_of(C)), _mm_set1_epi8((char)offset_here(C)));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), code);
  }
  return code;
}

// The codes of a group; split ones as their lower and upper nibbles. Unpacked: as unpack leaves them.
template <Codes C, bool Unpacked>
PG_INLINE void load_codes(__m256i& low, __m256i& high, const uint8_t* codes, int v, int group) {
  if constexpr (Unpacked) {
    const uint8_t* at = codes + group * unpacked_planes(C) * 128 + v * 32;
    low = _mm256_loadu_si256((const __m256i*)at);
    if constexpr (is_split(C)) high = _mm256_loadu_si256((const __m256i*)(at + 128));
  } else {
    low = load_whole_codes<C>(codes, v, group);
    if constexpr (is_split(C)) {
      high = _mm256_and_si256(_mm256_srli_epi16(low, 4), _mm256_set1_epi8(15));
      low = _mm256_and_si256(low, _mm256_set1_epi8(15));
    }
  }
}

// The codes of a block, for load_codes.
template <Codes C>
void unpack_codes(uint8_t* out, const uint8_t* codes) {
#pragma GCC unroll 8
  for (int group = 0; group < 8; group++)
    for (int v = 0; v < kPanelRows / VL; v++) {
      __m256i low, high;
      load_codes<C, false>(low, high, codes, v, group);
      uint8_t* at = out + group * unpacked_planes(C) * 128 + v * 32;
      _mm256_storeu_si256((__m256i*)at, low);
      if constexpr (is_split(C)) _mm256_storeu_si256((__m256i*)(at + 128), high);
    }
}

#if PG_VNNI
template <Codes C, int MR, int G0, int G1, bool Unpacked>
PG_INLINE void dots(vf (&d)[kJoint][MR], const uint8_t* codes, int v, const uint8_t* x, const int32_t* start) {
  asm volatile("" ::: "memory");  // as below
  __m256i sum[MR];
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++) sum[i] = offset_here(C) == 0 ? _mm256_setzero_si256() : _mm256_set1_epi32(start_from<C, G1 - G0>(start[i]));
#pragma GCC unroll 8
  for (int group = G0; group < G1; group++) {
    __m256i w, none;
    load_codes<C, Unpacked>(w, none, codes, v, group);
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) sum[i] = add_products(sum[i], w, _mm256_set1_epi32(load_i32(x + (group * MR + i) * 4)));
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++) d[0][i] = _mm256_cvtepi32_ps(sum[i]);
}
#else
// The empty asm statements hold the compiler to this order: left alone it merges the halves' loads and rearranges the sums, and
// spills what then exceeds 16 registers.
template <Codes C, int MR, int G0, int G1, bool Unpacked>
PG_INLINE void dots(vf (&d)[kJoint][MR], const uint8_t* codes, int v, const uint8_t* x, const int32_t* start) {
  constexpr int most = is_split(C) ? 8 : groups_in_16_bits(C);
  asm volatile("" ::: "memory");
  __m256i low[MR], high[MR], sum[MR];
#pragma GCC unroll 8
  for (int group = G0; group < G1; group++) {
    const bool begins = (group - G0) % most == 0, ends = (group - G0) % most == most - 1 || group + 1 == G1;
    __m256i w_low, w_high;
    load_codes<C, Unpacked>(w_low, w_high, codes, v, group);
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) {
      const __m256i q = _mm256_set1_epi32(load_i32(x + (group * MR + i) * 4));
      const __m256i products = _mm256_maddubs_epi16(w_low, q);
      low[i] = begins ? products : _mm256_add_epi16(low[i], products);
      asm("" : "+x"(low[i]));
      if constexpr (is_split(C)) {
        const __m256i upper = _mm256_maddubs_epi16(w_high, q);
        high[i] = begins ? upper : _mm256_add_epi16(high[i], upper);
        asm("" : "+x"(high[i]));
      }
      if (!ends) continue;
      const __m256i wide = _mm256_madd_epi16(low[i], _mm256_set1_epi16(1));
      sum[i] = group - G0 < most ? wide : _mm256_add_epi32(sum[i], wide);
      if constexpr (is_split(C)) sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(high[i], _mm256_set1_epi16(16)));
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++) {
    if constexpr (offset_here(C) != 0) sum[i] = _mm256_add_epi32(sum[i], _mm256_set1_epi32(start_from<C, G1 - G0>(start[i])));
    d[0][i] = _mm256_cvtepi32_ps(sum[i]);
  }
}
#endif

#elif PG_NEON

// 4 outputs x 4 columns as signed numbers: bytes and table entries their values, the others still larger by their offset.
template <Codes C>
PG_INLINE int8x16_t load_codes(const uint8_t* codes, int v, int group) {
  if constexpr (C == Codes::kByte) return (int8x16_t)veorq_u8(vld1q_u8(codes + group * 128 + v * 16), vdupq_n_u8(0x80));
  const auto at = [&](int64_t offset) { return vld1q_u8(codes + offset + v * 16); };
  const auto shifted = [](uint8x16_t bits, int left) { return vshlq_u8(bits, vdupq_n_s8((int8_t)left)); };
  uint8x16_t code;
  if constexpr (low_bits(C) == 2) code = vandq_u8(shifted(at((group & 1) * 128), -(group & 6)), vdupq_n_u8(3));
  else code = group < 4 ? vandq_u8(at(group * 128), vdupq_n_u8(15)) : vshrq_n_u8(at((group & 3) * 128), 4);
  // Upper bits: shifted to where they belong, the mask keeps them.
  constexpr int from = upper_from(C);
  if constexpr (upper_bits(C) == 1)
    code = vorrq_u8(code, vandq_u8(shifted(at(upper_plane(C)), from - group), vdupq_n_u8(1 << from)));
  if constexpr (upper_bits(C) == 2)
    code = vorrq_u8(code, vandq_u8(shifted(at(upper_plane(C) + (group & 1) * 128), from - (group & 6)), vdupq_n_u8(3 << from)));
  if constexpr (is_table(C)) return vqtbl1q_s8(vld1q_s8(table_of(C)), code);
  return (int8x16_t)code;
}

constexpr bool is_offset_left(Codes codes) { return codes != Codes::kByte && !is_table(codes) && offset_of(codes) != 0; }

template <Codes C>
PG_INLINE int32x4_t start_of(int32_t field) {
  if constexpr (!is_offset_left(C)) return vdupq_n_s32(0);
  return vdupq_n_s32(start_from<C, 4>(field));
}

// Groups in an order that uses both nibbles of a vector one after the other.
template <int G0, int G1>
constexpr int nth_group(int i) { return G1 - G0 == 8 ? i / 2 + i % 2 * 4 : G0 + i; }

#if PG_NEON == 1
// Products in 16 bits for as many groups as cannot overflow: codes are below 2^4, 2^5, 2^6 or 2^7 in magnitude, x below 2^7.
constexpr int groups_in_16_bits(Codes codes) {
  return codes == Codes::kByte || is_table(codes) ? 2 : codes == Codes::kSix ? 4 : 8;
}
#endif

// sdot takes four columns of four outputs and one row's four columns, picked from a vector that holds four rows'. Without it
// (PG_NEON 1), products are widened to 16 bits and added up in pairs.
template <Codes C, int MR, int G0, int G1, bool>
PG_INLINE void dots(vf (&d)[kJoint][MR], const uint8_t* codes, int v, const uint8_t* x, const int32_t* start) {
  int32x4_t sum[kJoint][MR];
#pragma GCC unroll 4
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
    for (int j = 0; j < kJoint; j++) sum[j][i] = start_of<C>(start[i]);
#if PG_NEON == 1
  int16x8_t low[kJoint][MR], high[kJoint][MR];
#endif
#pragma GCC unroll 8
  for (int step = 0; step < G1 - G0; step++) {
    const int group = nth_group<G0, G1>(step);
    const int8x16_t q = vld1q_s8((const int8_t*)x + group * MR * 4);  // past the last row: the next group, or `side`
    int8x16_t w[kJoint];
#pragma GCC unroll 2
    for (int j = 0; j < kJoint; j++) w[j] = load_codes<C>(codes, v + j, group);
#pragma GCC unroll 2
    for (int j = 0; j < kJoint; j++)
#pragma GCC unroll 4
      for (int i = 0; i < MR; i++) {
#if PG_NEON >= 2
        if (i == 0) sum[j][i] = vdotq_laneq_s32(sum[j][i], w[j], q, 0);
        if (i == 1) sum[j][i] = vdotq_laneq_s32(sum[j][i], w[j], q, 1);
        if (i == 2) sum[j][i] = vdotq_laneq_s32(sum[j][i], w[j], q, 2);
        if (i == 3) sum[j][i] = vdotq_laneq_s32(sum[j][i], w[j], q, 3);
#else
        const int8x16_t qi = (int8x16_t)(i == 0   ? vdupq_laneq_s32((int32x4_t)q, 0)
                                         : i == 1 ? vdupq_laneq_s32((int32x4_t)q, 1)
                                         : i == 2 ? vdupq_laneq_s32((int32x4_t)q, 2)
                                                  : vdupq_laneq_s32((int32x4_t)q, 3));
        const bool begins = step % groups_in_16_bits(C) == 0;
        low[j][i] = begins ? vmull_s8(vget_low_s8(w[j]), vget_low_s8(qi)) : vmlal_s8(low[j][i], vget_low_s8(w[j]), vget_low_s8(qi));
        high[j][i] = begins ? vmull_high_s8(w[j], qi) : vmlal_high_s8(high[j][i], w[j], qi);
        if (step % groups_in_16_bits(C) == groups_in_16_bits(C) - 1 || step + 1 == G1 - G0)
          sum[j][i] = vaddq_s32(sum[j][i], vpaddq_s32(vpaddlq_s16(low[j][i]), vpaddlq_s16(high[j][i])));
#endif
      }
  }
#pragma GCC unroll 4
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
    for (int j = 0; j < kJoint; j++) d[j][i] = (vf)vcvtq_f32_s32(sum[j][i]);
}

#elif PG_WASM

template <Codes C, int MR, int G0, int G1, bool>
PG_INLINE void dots(vf (&d)[kJoint][MR], const uint8_t* codes, int v, const uint8_t* x, const int32_t* start) {
  v128_t sum[kJoint][MR];
#pragma GCC unroll 4
  for (int i = 0; i < MR; i++) {
    const int32_t first = is_table(C) || offset_of(C) == 0 ? 0 : start_from<C, G1 - G0>(start[i]);
#pragma GCC unroll 8
    for (int j = 0; j < kJoint; j++) sum[j][i] = wasm_i32x4_splat(first);
  }
  add_products<C, kJoint, MR, G0, G1>(sum, codes, v, x);
#pragma GCC unroll 4
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
    for (int j = 0; j < kJoint; j++) d[j][i] = (vf)wasm_f32x4_convert_i32x4(sum[j][i]);
}

#else

template <Codes C>
PG_INLINE int32_t code_at(const uint8_t* codes, int row, int group, int column) {
  const int at = row * 4 + column;
  if constexpr (C == Codes::kByte) return (int32_t)codes[group * 128 + at] - 128;
  int32_t code;
  if constexpr (low_bits(C) == 2) code = codes[(group & 1) * 128 + at] >> (group & 6) & 3;
  else code = codes[(group & 3) * 128 + at] >> (group & 4) & 15;
  if constexpr (upper_bits(C) == 1) code |= (codes[upper_plane(C) + at] >> group & 1) << upper_from(C);
  if constexpr (upper_bits(C) == 2) code |= (codes[upper_plane(C) + (group & 1) * 128 + at] >> (group & 6) & 3) << upper_from(C);
  if constexpr (is_table(C)) return table_of(C)[code];
  return code - offset_of(C);
}

template <Codes C, int MR, int G0, int G1, bool>
PG_INLINE void dots(vf (&d)[kJoint][MR], const uint8_t* codes, int v, const uint8_t* x, const int32_t*) {
  for (int i = 0; i < MR; i++)
    for (int lane = 0; lane < VL; lane++) {
      int32_t sum = 0;
      for (int group = G0; group < G1; group++)
        for (int column = 0; column < 4; column++)
          sum += code_at<C>(codes, v * VL + lane, group, column) * ((const int8_t*)x)[(group * MR + i) * 4 + column];
      d[0][i][lane] = (float)sum;
    }
}

#endif

// --- factors of VL rows, from vector v of the panel: `at` their place in the block, `big` in the header ---------------------
template <Factor F>
PG_INLINE vf load_factor(const uint8_t* at, const uint8_t* big, int half, int v) {
  if constexpr (F == Factor::kHalf) return v_load_f16((const uint16_t*)at + v * VL);
  if constexpr (F == Factor::kBhalf) return v_load_bf16((const uint16_t*)at + v * VL);
  if constexpr (F == Factor::kBig) return v_load_f16((const uint16_t*)big + v * VL);
  const int8_t* small = (const int8_t*)at + (F == Factor::kSuper16 ? half * kPanelRows : 0);
  return v_mul(v_load_f16((const uint16_t*)big + v * VL), v_load_i8(small + v * VL));
}

// The scales of VL rows, in units of the encoding's codes.
template <int E>
PG_INLINE vf scale_of(const uint8_t* at, const uint8_t* big, int half, int v) {
  constexpr EncodingSpec spec = spec_of(E);
  const vf scale = load_factor<spec.scale>(at, big, half, v);
  if constexpr (unit_of(spec.codes) != 1.0f) return v_mul(scale, v_set(unit_of(spec.codes)));
  return scale;
}

// Beside the pages that come next, the first tile of a panel asks for their lines, kAhead bytes before use (into L2) and whole blocks at
// once: the processor's own streams begin anew at every page, and arithmetic would wait for each.
constexpr int64_t kAhead = 8192;

// As many as leave registers for the sums of a whole panel.
constexpr int kWholePanelRows = PG_WASM ? 1 : 2;

// What a block of 32 columns adds to the sums of NV vectors of outputs, from vector `first` of the panel on. Where codes are unpacked,
// factors are f32.
struct BlockOfPanel {
  const uint8_t *codes, *scales, *minimums;
  const uint8_t* header;
};

template <int E, int MR, int NV, bool Unpacked>
PG_INLINE void add_block(vf (&sum)[NV][MR], const BlockOfPanel& block, int first, const uint8_t* x, const uint8_t* side) {
  constexpr EncodingSpec spec = spec_of(E);
  constexpr bool halves = spec.scale == Factor::kSuper16;
  const float* scale = (const float*)side + kSideScale * MR;
#pragma GCC unroll 4
  for (int v = 0; v < NV; v += kJoint) {
#pragma GCC unroll 2
    for (int half = 0; half < (halves ? 2 : 1); half++) {
      const int field = halves ? kSideMinus8Lo + half : offset_here(spec.codes) == 128 ? kSideMinus128 : kSideMinus8;
      const int32_t* start = (const int32_t*)side + field * MR;
      vf d[kJoint][MR];
      if constexpr (!halves) dots<spec.codes, MR, 0, 8, Unpacked>(d, block.codes, first + v, x, start);
      else if (half == 0) dots<spec.codes, MR, 0, 4, Unpacked>(d, block.codes, first + v, x, start);
      else dots<spec.codes, MR, 4, 8, Unpacked>(d, block.codes, first + v, x, start);
#pragma GCC unroll 4
      for (int j = 0; j < kJoint; j++) {
        const int at = half * (int)kPanelRows + (first + v + j) * VL;  // of factors that are f32
        vf w;
        if constexpr (Unpacked) w = v_load((const float*)block.scales + at);
        else w = scale_of<E>(block.scales, block.header, half, first + v + j);
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++) sum[v + j][i] = v_madd(d[j][i], v_mul(w, v_set(scale[i])), sum[v + j][i]);
        if constexpr (spec.minimum != Factor::kNone) {
          vf m;
          if constexpr (Unpacked) m = v_load((const float*)block.minimums + at);
          else m = load_factor<spec.minimum>(block.minimums, block.header + big_bytes(spec.scale), half, first + v + j);
          const float* total = (const float*)side + (halves ? kSideSumLo + half : (int)kSideSum) * MR;
#pragma GCC unroll 8
          for (int i = 0; i < MR; i++) sum[v + j][i] = v_madd(m, v_set(total[i]), sum[v + j][i]);
        }
      }
    }
  }
}

// NV vectors of outputs from vector `first` of the panel on. Only the first tile of a panel looks ahead: the others find the
// panel in cache.
template <int E, int MR, int NV>
void int_tile(const Gemm& g, int64_t panel, int first, int64_t row, const uint8_t* x, bool ahead) {
  constexpr EncodingSpec spec = spec_of(E);
  const int64_t blocks = blocks_of(g.cols);
  const uint8_t* codes = g.panels + panel * g.panel_bytes;
  const uint8_t* header = codes;
  const uint8_t* end = weights_end(g);
  const uint8_t* side = x + blocks * 32 * MR;
  // Every loop over the accumulators is unrolled, or the compiler keeps them in memory.
  vf sum[NV][MR];
#pragma GCC unroll 8
  for (int v = 0; v < NV; v++)
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) sum[v][i] = v_set(0.0f);

  for (int64_t b = 0; b < blocks; b++) {
    if (b % record_blocks(spec) == 0) {
      header = codes;
      codes += header_bytes(spec);
    }
    const uint8_t* scales = codes + code_bytes(spec.codes);
    if (ahead) {
      ask_ahead(codes, block_bytes(spec), end);
      for (int64_t line = 0; !PG_WASM && line < block_bytes(spec); line += 64) __builtin_prefetch(codes + kAhead + line, 0, 2);
    }
    add_block<E, MR, NV, false>(sum, {codes, scales, scales + factor_bytes(spec.scale), header}, first, x, side);
    codes += block_bytes(spec);
    x += 32 * MR;
    side += kSideFields * 4 * MR;
  }
  alignas(64) float sums[MR][NV * VL];
#pragma GCC unroll 8
  for (int v = 0; v < NV; v++)
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) v_store(&sums[i][v * VL], sum[v][i]);
  finish(g, sums[0], row, MR, panel * kPanelRows + first * VL, NV * VL);
}

template <int E, int MR>
PG_INLINE void int_dispatch(const Gemm& g, int64_t height, int64_t panel, int first, int64_t row, const uint8_t* x, bool ahead) {
  if constexpr (MR >= 1) {
    if (height == MR) return int_tile<E, MR, kIntVectors>(g, panel, first, row, x, ahead);
    int_dispatch<E, MR - 1>(g, height, panel, first, row, x, ahead);
  }
}

template <int E>
void int_gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end, uint8_t*) {
  ask_first(g, panel_begin);
  // Few rows wait for memory: they take the whole panel at once, one stream. Half of it after the other would wait first and multiply then.
#if PG_WASM || PG_ISA == 2
  if (g.tiles.n <= kWholePanelRows) {
    for (int64_t panel = panel_begin; panel < panel_end; panel++) {
      if (g.tiles.n == 1) int_tile<E, 1, kPanelRows / VL>(g, panel, 0, 0, g.x, true);
      else if constexpr (kWholePanelRows > 1) int_tile<E, kWholePanelRows, kPanelRows / VL>(g, panel, 0, 0, g.x, true);
    }
    return;
  }
#endif
  for (int64_t panel = panel_begin; panel < panel_end; panel++) {
    for (int first = 0; first < kPanelRows / VL; first += kIntVectors)
      for (int64_t t = tile_begin; t < tile_end; t++)
        int_dispatch<E, kIntTileRows>(g, g.tiles.height(t), panel, first, g.tiles.first(t), g.tile_of(t),
                                      first == 0 && t == tile_begin);
  }
}

}  // namespace
}  // namespace PG_NS
}  // namespace pg
