// Weights as tiles of bf16: where the tiles of a step (32 columns) of a panel are, made on the way where the panel holds codes.
//
// Maths    w = the upper half of the f32 number kUp * (scale * code + minimum). Cutting loses 0.28 % on average, which kUp gives back:
//          a weight is off by 0.17 % (root of the mean square; rounding to nearest: 0.16), 0.6 % at most, and exact where it is a bf16
// Order    a step is [2 halves of the panel][16 pairs of columns][16 outputs][2 columns], a tile for each half
// Making   A vector of codes is 16 outputs by 4 columns of bytes. One instruction puts a column into the fraction of 16 floats, whose
//          other bits stand for 2^23; one multiply-add takes that back and applies the factors; a shuffle joins the upper halves of
//          two columns, in the order of the tile. Five instructions for 32 weights; rounding would take four more.
#pragma once
#include "../kernels/matmul-int.h"
#include "tile-matmul.h"

namespace pg {
namespace PG_NS {
namespace {

// bf16 panels, [cols / 2][32 outputs][2], are two tiles side by side: nothing is made. The last step may be short.
struct FloatTiles {
  static constexpr bool kMade = false;
  static constexpr int64_t kRowBytes = 128;    // from one pair of columns to the next
  static constexpr int64_t kHalfBytes = 64;    // from one tile to the other
  static constexpr int64_t kStepBytes = kPanelStepBytes;
  static constexpr int64_t kRecordSteps = 1;
  static constexpr int64_t kRecordBytes = kStepBytes;
};

constexpr float kUp = 1.0028f;

// Bytes of each of 4 words, from those of the same lane: a code's byte to place `to`, or the upper half to the lower one.
PG_INLINE __m512i byte_to(int from, int to) {
  const int index = from << 8 * to;
  return _mm512_broadcast_i32x4(_mm_setr_epi32(index, index + (4 << 8 * to), index + (8 << 8 * to), index + (12 << 8 * to)));
}
PG_INLINE __m512i upper_to_lower() { return _mm512_broadcast_i32x4(_mm_setr_epi32(0x0302, 0x0706, 0x0b0a, 0x0f0e)); }

template <int E>
struct CodeTiles {
  static constexpr EncodingSpec spec = spec_of(E);
  static constexpr bool kMade = true;
  static constexpr int64_t kRowBytes = 64;
  static constexpr int64_t kHalfBytes = kTileBytes;
  static constexpr int64_t kRecordSteps = record_blocks(spec);
  static constexpr int64_t kRecordBytes = record_bytes(spec);
  static constexpr int64_t kStepBytes = block_bytes(spec);
  // Where a code stands in the fraction: its third byte, of which it may use seven bits, else its second.
  static constexpr int kPlace = offset_of(spec.codes) < 128 ? 2 : 1;
  static constexpr uint64_t kPlaces = 0x1111111111111111u << kPlace;
  static constexpr float kUnit = kPlace == 2 ? 1.0f / 65536 : 1.0f / 256;
  static constexpr float kLarger = 8388608 * kUnit + offset_of(spec.codes);  // than the value, in units of the scale

  // What multiplies the float of a code, and what is added.
  struct Factors {
    vf times, plus;
  };
  PG_INLINE Factors factors(const uint8_t* codes, const uint8_t* header, int half, int v) {
    const uint8_t* scales = codes + code_bytes(spec.codes);
    const vf scale = v_mul(scale_of<E>(scales, header, half, v), v_set(kUp));
    vf plus = v_mul(scale, v_set(-kLarger));
    if constexpr (spec.minimum != Factor::kNone) {
      const vf minimum = load_factor<spec.minimum>(scales + factor_bytes(spec.scale), header + big_bytes(spec.scale), half, v);
      plus = v_madd(minimum, v_set(kUp), plus);
    }
    return {v_mul(scale, v_set(kUnit)), plus};
  }

  // Weights of 16 outputs by one of the four columns of `code`, as f32.
  PG_INLINE __m512i column(__m512i code, int column, const Factors& f) {
    const __m512i bits = _mm512_set1_epi32(0x4b000000);
    const __m512i number = column == kPlace ? _mm512_ternarylogic_epi32(bits, code, _mm512_set1_epi32(0xff << 8 * kPlace), 0xf8)
                                            : _mm512_mask_shuffle_epi8(bits, kPlaces, code, byte_to(column, kPlace));
    return _mm512_castps_si512(v_madd(_mm512_castsi512_ps(number), f.times, f.plus));
  }

  // The tiles of a step, from its codes and the header of its record.
  PG_INLINE void make(uint8_t* out, const uint8_t* codes, const uint8_t* header) {
    constexpr bool halves = spec.scale == Factor::kSuper16;
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++) {
      Factors f = factors(codes, header, 0, v);
#pragma GCC unroll 8
      for (int group = 0; group < 8; group++) {
        if (halves && group == 4) f = factors(codes, header, 1, v);
        const __m512i code = load_codes<spec.codes>(codes, v, group);
#pragma GCC unroll 2
        for (int pair = 0; pair < 2; pair++) {
          const __m512i even = column(code, 2 * pair, f), odd = column(code, 2 * pair + 1, f);
          _mm512_store_si512(out + v * kTileBytes + (2 * group + pair) * 64,
                             _mm512_mask_shuffle_epi8(odd, 0x3333333333333333u, even, upper_to_lower()));
        }
      }
    }
  }
};

}  // namespace
}  // namespace PG_NS
}  // namespace pg
