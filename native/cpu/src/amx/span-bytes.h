// Codes of panels made bytes, as span-factors.h has them.
#pragma once
#include "../kernels/matmul-int.h"
#include "span-factors.h"

namespace pg {
namespace PG_NS {

PG_INLINE __m512i each_byte(__m512i x) {  // the lowest of 32 bits, four times
  return _mm512_shuffle_epi8(x, _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0));
}
PG_INLINE __m512i each_pair(__m512i x) {  // the lower 16 of 32 bits, twice
  return _mm512_shuffle_epi8(x, _mm512_set4_epi32(0x0d0c0d0c, 0x09080908, 0x05040504, 0x01000100));
}

// 64 entries of a byte, by the lower 6 bits of each index.
PG_INLINE __m512i looked_up(__m512i index, __m512i table) {
#ifdef PG_TILES_TWIN  // where tests run there may be no such instruction
  alignas(64) uint8_t at[64], from[64];
  _mm512_store_si512(at, index);
  _mm512_store_si512(from, table);
  for (uint8_t& byte : at) byte = from[byte & 63];
  return _mm512_load_si512(at);
#else
  return _mm512_permutexvar_epi8(index, table);
#endif
}

// How the codes of 16 outputs in a block become bytes: vector v of codes, [16 outputs][4 columns], those of groups v and, where there are two
// parts, v + 4. excess: by how much larger signed ones are (0 or 128).
template <int E>
struct BlockBytes {
  static constexpr EncodingSpec spec = spec_of(E);
  static constexpr ByteRule rule = byte_rule(E);
  static constexpr int kParts = 2, kHalves = SpanMultipliers<E>::kHalves;
  __m512i multipliers[kHalves], excess;
  [[gnu::always_inline]] BlockBytes(const SpanMultipliers<E>& of, int64_t b, int larger_by) : excess(_mm512_set1_epi8((char)larger_by)) {
    for (int part = 0; part < kHalves; part++) multipliers[part] = _mm512_slli_epi16(each_pair(of.of[b][part]), 7 - rule.shift);
  }
  // Values in the upper half of 16 bits: a rounded product with a multiplier, shifted, is the byte.
  [[gnu::always_inline]] __m512i group(const uint8_t* codes, int at, __m512i multiplier) const {
    __m512i value = load_codes<spec.codes>(codes, 0, at);
    if constexpr (!rule.is_unsigned) value = _mm512_sub_epi8(value, _mm512_set1_epi8(kMiddle));
    const __m512i even = _mm512_mulhrs_epi16(_mm512_slli_epi16(value, 8), multiplier);
    const __m512i odd = _mm512_mulhrs_epi16(_mm512_and_si512(value, _mm512_set1_epi16((short)0xff00)), multiplier);
    __m512i out;
    if constexpr (rule.saturates)
      out = _mm512_shuffle_epi8(_mm512_packs_epi16(even, odd), _mm512_set4_epi32(0x0f070e06, 0x0d050c04, 0x0b030a02, 0x09010800));
    else out = _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaaull, even, _mm512_slli_epi16(odd, 8));
    return rule.is_unsigned ? out : _mm512_xor_si512(out, excess);
  }
  [[gnu::always_inline]] void make(__m512i (&out)[kParts], const uint8_t* codes, int v) const {
    out[0] = group(codes, v, multipliers[0]);
    out[1] = group(codes, v + 4, multipliers[kHalves - 1]);
  }

 private:
  static constexpr char kMiddle = (char)(spec.codes == Codes::kFive ? 16 : offset_of(spec.codes));
};

// 16 bits of multiplier * code + constant, of which the upper eight count.
template <>
struct BlockBytes<kEncodingQ8> {
  static constexpr int kParts = 1;
  __m512i multipliers, constants;
  [[gnu::always_inline]] BlockBytes(const SpanMultipliers<kEncodingQ8>& of, int64_t b, int excess)
      : multipliers(each_pair(of.of[b][0])),
        constants(_mm512_sub_epi16(_mm512_set1_epi16((short)(128 + 256 * excess)), _mm512_slli_epi16(multipliers, 7))) {}
  [[gnu::always_inline]] void make(__m512i (&out)[kParts], const uint8_t* from, int v) const {
    const __m512i codes = _mm512_loadu_si512(from + v * 128);
    const auto number = [&](__m512i code) { return _mm512_add_epi16(_mm512_mullo_epi16(code, multipliers), constants); };
    const __m512i even = number(_mm512_and_si512(codes, _mm512_set1_epi16(255))), odd = number(_mm512_srli_epi16(codes, 8));
    const __m512i upper = _mm512_set4_epi32(0x000f000d, 0x000b0009, 0x00070005, 0x00030001);
    out[0] = _mm512_mask_shuffle_epi8(odd, 0x5555555555555555ull, even, upper);
  }
};

// multiplier = 4 * whole + quarters: whole * code fits a byte, so one multiplication does for two of them (codes of a negative one are turned
// round, which keeps products from borrowing of each other), and the quarters' part is looked up.
template <int E>
struct SignedNibbleBytes {
  static constexpr int kParts = 2;
  __m512i wholes, turned, quarters, offsets;
  [[gnu::always_inline]] SignedNibbleBytes(const SpanMultipliers<E>& of, int64_t b, int excess) {
    const __m512i multiplier = of.of[b][0];
    const __m512i whole = _mm512_srai_epi32(multiplier, 2), size = _mm512_abs_epi32(whole);
    turned = _mm512_srai_epi32(multiplier, 31);
    wholes = each_pair(size);
    quarters = each_byte(_mm512_slli_epi32(_mm512_and_si512(multiplier, _mm512_set1_epi32(3)), 4));
    // Codes are stored larger by 8, turned ones by 7.
    const __m512i sevens = _mm512_sub_epi32(size, _mm512_slli_epi32(size, 3));
    offsets = each_byte(_mm512_add_epi32(_mm512_set1_epi32(excess), _mm512_sub_epi32(sevens, _mm512_andnot_si512(turned, size))));
  }
  [[gnu::always_inline]] void make(__m512i (&out)[kParts], const uint8_t* from, int v) const {
    const __m512i codes = _mm512_loadu_si512(from + v * 128);
    alignas(64) static constexpr int8_t kQuarters[64] = {
        0,  0,  0,  0,  0,  0,  0,  0,  0, 0, 0, 0, 0, 0, 0, 0,   // (code - 8) * 0 / 4
        -2, -2, -1, -1, -1, -1, 0,  0,  0, 0, 1, 1, 1, 1, 2, 2,   // * 1 / 4
        -4, -3, -3, -2, -2, -1, -1, 0,  0, 1, 1, 2, 2, 3, 3, 4,   // * 2 / 4
        -6, -5, -4, -4, -3, -2, -1, -1, 0, 1, 2, 2, 3, 4, 5, 5};  // * 3 / 4
    const __m512i mask = _mm512_set1_epi8(15), table = _mm512_load_si512(kQuarters);
    const auto bytes = [&](__m512i nibbles) {
      const __m512i product = _mm512_mullo_epi16(_mm512_ternarylogic_epi32(nibbles, turned, mask, 0x28), wholes);  // (a ^ b) & c
      const __m512i rest = looked_up(_mm512_ternarylogic_epi32(nibbles, mask, quarters, 0xea), table);             // a & b | c
      return _mm512_add_epi8(_mm512_add_epi8(product, offsets), rest);
    };
    out[0] = bytes(codes);
    out[1] = bytes(_mm512_srli_epi16(codes, 4));
  }
};

template <>
struct BlockBytes<kEncodingQ4> : SignedNibbleBytes<kEncodingQ4> {
  using SignedNibbleBytes::SignedNibbleBytes;
};
template <>
struct BlockBytes<kEncodingQ4M> : SignedNibbleBytes<kEncodingQ4M> {
  using SignedNibbleBytes::SignedNibbleBytes;
};

// The same where neither multipliers nor values are negative.
alignas(64) inline constexpr uint8_t kCodeQuarters[64] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,   // code * 0 / 4
                                                          0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4,   // * 1 / 4
                                                          0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8,   // * 2 / 4
                                                          0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11};  // * 3 / 4
template <>
struct BlockBytes<kEncodingQ4K> {
  static constexpr int kParts = 2;
  __m512i wholes, quarters;
  [[gnu::always_inline]] BlockBytes(const SpanMultipliers<kEncodingQ4K>& of, int64_t b, int) {
    wholes = each_pair(_mm512_srli_epi32(of.of[b][0], 2));
    quarters = each_byte(_mm512_slli_epi32(_mm512_and_si512(of.of[b][0], _mm512_set1_epi32(3)), 4));
  }
  [[gnu::always_inline]] void make(__m512i (&out)[kParts], const uint8_t* from, int v) const {
    const __m512i codes = _mm512_loadu_si512(from + v * 128), mask = _mm512_set1_epi8(15), table = _mm512_load_si512(kCodeQuarters);
    const auto bytes = [&](__m512i nibbles) {
      const __m512i rest = looked_up(_mm512_ternarylogic_epi32(nibbles, mask, quarters, 0xea), table);  // a & b | c
      return _mm512_add_epi8(_mm512_mullo_epi16(_mm512_and_si512(nibbles, mask), wholes), rest);
    };
    out[0] = bytes(codes);
    out[1] = bytes(_mm512_srli_epi16(codes, 4));
  }
};

// The codes of 16 outputs of a block as bytes, [8 groups of 4 columns][16 outputs][4].
template <int E>
PG_INLINE void make_bytes(uint8_t* out, const uint8_t* codes, const SpanMultipliers<E>& multipliers, int64_t b) {
  using Block = BlockBytes<E>;
  constexpr int kVectors = 8 / Block::kParts;
  const Block block(multipliers, b, 0);
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; v++) {
    __m512i made[Block::kParts];
    block.make(made, codes, v);
#pragma GCC unroll 2
    for (int part = 0; part < Block::kParts; part++) _mm512_store_si512(out + (v + part * kVectors) * 64, made[part]);
  }
}

}  // namespace PG_NS
}  // namespace pg
