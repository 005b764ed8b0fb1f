// The integer dot products of matmul-int.h for WebAssembly. Three ways to the same sums:
//   relaxed   codes below 2^7, where the module has it: a dot product of bytes adds two products in 16 bits, and those of several groups
//             are added up before they are widened. With a second operand of 7 bits no machine saturates: 2 * 127 * 127 < 2^15.
//   nibbles   otherwise: even and odd columns as 16-bit numbers, left where they stand in their lane. What a code is thereby too large by,
//             x makes up for, so that all products are 256 times too large and share a sum.
//   others    even and odd columns as 16-bit numbers, so that a multiply-add of pairs leaves one sum per output, exactly.
#pragma once
#include "../encoding.h"
#include "simd.h"

namespace pg {
namespace PG_NS {
namespace {

// A loop that stays one. Unrolled, the engine's compiler takes one sum after the other through all groups and keeps every group's x in
// memory meanwhile (1.3 to 1.6 times the time).
#define PG_LOOP _Pragma("clang loop unroll(disable)")

// 4 outputs x 4 columns, bytes: table entries as signed numbers, the others unsigned and larger by their offset.
template <Codes C>
PG_INLINE v128_t load_codes(const uint8_t* codes, int v, int group) {
  const auto at = [&](int64_t offset) { return wasm_v128_load(codes + offset + v * 16); };
  // By 16-bit lanes: what crosses from one byte into the other is masked away.
  const auto shifted = [](v128_t bits, int by) {
    return by < 0 ? wasm_i16x8_shl(bits, (uint32_t)-by) : by == 0 ? bits : wasm_u16x8_shr(bits, (uint32_t)by);
  };
  const auto masked = [](v128_t bits, int mask) { return wasm_v128_and(bits, wasm_i8x16_splat((int8_t)mask)); };
  if constexpr (C == Codes::kByte) return at(group * 128);
  v128_t code;
  if constexpr (low_bits(C) == 2) code = masked(shifted(at((group & 1) * 128), group & 6), 3);
  else code = masked(shifted(at((group & 3) * 128), group & 4), 15);
  // Upper bits: shifted to where they belong, the mask keeps them.
  constexpr int from = upper_from(C);
  if constexpr (upper_bits(C) == 1) code = wasm_v128_or(code, masked(shifted(at(upper_plane(C)), group - from), 1 << from));
  if constexpr (upper_bits(C) == 2)
    code = wasm_v128_or(code, masked(shifted(at(upper_plane(C) + (group & 1) * 128), (group & 6) - from), 3 << from));
  if constexpr (is_table(C)) return wasm_i8x16_swizzle(wasm_v128_load(table_of(C)), code);
  return code;
}

// The four columns of row i, for every output.
template <int MR>
PG_INLINE v128_t load_x(const uint8_t* x, int group, int i) {
  return wasm_v128_load32_splat(x + (group * MR + i) * 4);
}

template <int J, int MR, typename Body>
PG_INLINE void each_sum(const Body& body) {
#pragma GCC unroll 8
  for (int j = 0; j < J; j++)
#pragma GCC unroll 4
    for (int i = 0; i < MR; i++) body(j, i);
}

#if PG_WASM == 2
// Groups whose products can be added up in 16 bits: codes are below 2^4, 2^5 or 2^6, x below 2^7.
constexpr int groups_in_16_bits(Codes codes) {
  const int bits = low_bits(codes) + upper_bits(codes);
  return bits <= 4 ? 8 : bits == 5 ? 4 : 2;
}

template <Codes C, int J, int MR, int G0, int G1>
PG_INLINE void add_relaxed(v128_t (&sum)[J][MR], const uint8_t* codes, int v, const uint8_t* x) {
  constexpr int most = groups_in_16_bits(C);
  v128_t pairs[J][MR];
#pragma GCC unroll 8
  for (int group = G0; group < G1; group++) {
    v128_t w[J];
#pragma GCC unroll 8
    for (int j = 0; j < J; j++) w[j] = load_codes<C>(codes, v + j, group);
    each_sum<J, MR>([&](int j, int i) {
      const v128_t products = wasm_i16x8_relaxed_dot_i8x16_i7x16(load_x<MR>(x, group, i), w[j]);
      pairs[j][i] = (group - G0) % most == 0 ? products : wasm_i16x8_add(pairs[j][i], products);
      if ((group - G0) % most == most - 1 || group + 1 == G1)
        sum[j][i] = wasm_i32x4_add(sum[j][i], wasm_i32x4_extadd_pairwise_i16x8(pairs[j][i]));
    });
  }
}
#endif

template <int J, int MR>
PG_INLINE void add_nibbles(v128_t (&sum)[J][MR], const uint8_t* codes, int v, const uint8_t* x) {
  v128_t scaled[J][MR];
  each_sum<J, MR>([&](int j, int i) { scaled[j][i] = wasm_i32x4_splat(0); });
  PG_LOOP for (int group = 0; group < 4; group++, codes += 128, x += 4 * MR) {
    v128_t low_even[MR], low_odd[MR], high_even[MR], high_odd[MR];  // of x
#pragma GCC unroll 4
    for (int i = 0; i < MR; i++) {
      const v128_t low = load_x<MR>(x, 0, i), high = load_x<MR>(x, 4, i);
      low_even[i] = wasm_i16x8_shl(low, 8);                            // 256 x
      low_odd[i] = wasm_i16x8_shr(low, 8);                             // x
      high_even[i] = wasm_i16x8_shr(wasm_i16x8_shl(high, 8), 4);       // 16 x
      high_odd[i] = wasm_v128_and(high, wasm_i16x8_splat(-256));       // 256 x
    }
#pragma GCC unroll 8
    for (int j = 0; j < J; j++) {
      const v128_t w = wasm_v128_load(codes + (v + j) * 16);
      const v128_t w_low_even = wasm_v128_and(w, wasm_i16x8_splat(0x000f));
      const v128_t w_high_even = wasm_v128_and(w, wasm_i16x8_splat(0x00f0));
      const v128_t w_low_odd = wasm_v128_and(w, wasm_i16x8_splat(0x0f00));
      const v128_t w_high_odd = wasm_u16x8_shr(w, 12);
#pragma GCC unroll 4
      for (int i = 0; i < MR; i++) {
        const v128_t low = wasm_i32x4_add(wasm_i32x4_dot_i16x8(w_low_even, low_even[i]), wasm_i32x4_dot_i16x8(w_low_odd, low_odd[i]));
        const v128_t high =
            wasm_i32x4_add(wasm_i32x4_dot_i16x8(w_high_even, high_even[i]), wasm_i32x4_dot_i16x8(w_high_odd, high_odd[i]));
        scaled[j][i] = wasm_i32x4_add(scaled[j][i], wasm_i32x4_add(low, high));
      }
    }
  }
  each_sum<J, MR>([&](int j, int i) { sum[j][i] = wasm_i32x4_add(sum[j][i], wasm_i32x4_shr(scaled[j][i], 8)); });
}

template <Codes C, int J, int MR>
PG_INLINE void add_group(v128_t (&sum)[J][MR], const uint8_t* codes, int v, const uint8_t* x, int group) {
  v128_t even[MR], odd[MR];
#pragma GCC unroll 4
  for (int i = 0; i < MR; i++) {
    const v128_t four = load_x<MR>(x, group, i);
    even[i] = wasm_i16x8_shr(wasm_i16x8_shl(four, 8), 8);
    odd[i] = wasm_i16x8_shr(four, 8);
  }
#pragma GCC unroll 8
  for (int j = 0; j < J; j++) {
    const v128_t w = load_codes<C>(codes, v + j, group);
    const v128_t w_even = is_table(C) ? wasm_i16x8_shr(wasm_i16x8_shl(w, 8), 8) : wasm_v128_and(w, wasm_i16x8_splat(255));
    const v128_t w_odd = is_table(C) ? wasm_i16x8_shr(w, 8) : wasm_u16x8_shr(w, 8);
#pragma GCC unroll 4
    for (int i = 0; i < MR; i++) {
      sum[j][i] = wasm_i32x4_add(sum[j][i], wasm_i32x4_dot_i16x8(w_even, even[i]));
      sum[j][i] = wasm_i32x4_add(sum[j][i], wasm_i32x4_dot_i16x8(w_odd, odd[i]));
    }
  }
}

template <Codes C, int J, int MR, int G0, int G1>
PG_INLINE void add_bytes(v128_t (&sum)[J][MR], const uint8_t* codes, int v, const uint8_t* x) {
  if constexpr (C == Codes::kByte) {
    PG_LOOP for (int group = G0; group < G1; group++, codes += 128, x += 4 * MR) add_group<C, J, MR>(sum, codes, v, x, 0);
  } else {
#pragma GCC unroll 8
    for (int group = G0; group < G1; group++) add_group<C, J, MR>(sum, codes, v, x, group);
  }
}

// sum[j][i] += the products of vector v + j with row i over groups [G0, G1).
template <Codes C, int J, int MR, int G0, int G1>
PG_INLINE void add_products(v128_t (&sum)[J][MR], const uint8_t* codes, int v, const uint8_t* x) {
  constexpr bool is_small = C != Codes::kByte && !is_table(C);
#if PG_WASM == 2
  if constexpr (is_small) return add_relaxed<C, J, MR, G0, G1>(sum, codes, v, x);
#endif
  if constexpr (is_small && low_bits(C) == 4 && upper_bits(C) == 0 && G1 - G0 == 8) return add_nibbles<J, MR>(sum, codes, v, x);
  return add_bytes<C, J, MR, G0, G1>(sum, codes, v, x);
}

}  // namespace
}  // namespace PG_NS
}  // namespace pg
