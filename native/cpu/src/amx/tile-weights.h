// Weights as tiles of bf16: where the tiles of a step (32 columns) of a panel are, made on the way where the panel holds codes.
//
// Maths    w = bf16(scale * code + minimum), rounded once from f32
// Order    a step is [2 halves of the panel][16 pairs of columns][16 outputs][2 columns], a tile for each half
// Making   A vector of codes is 16 outputs by 4 columns of bytes. A byte shuffle puts 8 outputs by a pair of columns into the fraction
//          of 16 floats, whose other bits stand for a power of two; one multiply-add takes that back and applies the factors; two
//          such vectors round to the 32 bf16 of 16 outputs, in the order of the tile. Six instructions for 32 weights.
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

// For the 16 lanes of vector `second`: the byte that its lane takes of a vector of [16 outputs][4 columns].
struct ByteIndex {
  alignas(64) uint8_t of[2][2][64];  // [pair of columns][8 outputs each]
};
constexpr ByteIndex byte_index() {
  ByteIndex index = {};
  for (int pair = 0; pair < 2; pair++)
    for (int half = 0; half < 2; half++)
      for (int i = 0; i < 64; i++) index.of[pair][half][i] = (uint8_t)(4 * (8 * half + i / 8) + 2 * pair + i / 4 % 2);
  return index;
}
constexpr ByteIndex kBytesOf = byte_index();

template <int E>
struct CodeTiles {
  static constexpr EncodingSpec spec = spec_of(E);
  static constexpr bool kMade = true;
  static constexpr int64_t kRowBytes = 64;
  static constexpr int64_t kHalfBytes = kTileBytes;
  static constexpr int64_t kRecordSteps = record_blocks(spec);
  static constexpr int64_t kRecordBytes = record_bytes(spec);
  static constexpr int64_t kStepBytes = block_bytes(spec);
  // Codes of up to seven bits: 128 + code, in the upper bits of the fraction. Of eight: 2^23 + 256 * code.
  static constexpr bool kSmall = offset_of(spec.codes) < 128;
  static constexpr uint64_t kPlaces = kSmall ? 0x4444444444444444u : 0x2222222222222222u;
  static constexpr int32_t kFloatBits = kSmall ? 0x43000000 : 0x4b000000;
  static constexpr float kUnit = kSmall ? 1.0f : 1.0f / 256;
  static constexpr float kLarger = (kSmall ? 128.0f : 32768.0f) + offset_of(spec.codes);  // than the value, in units of the scale

  // What multiplies and what is added, for the two columns of 8 outputs each.
  struct Factors {
    vf times[2], plus[2];
  };
  PG_INLINE Factors factors(const uint8_t* codes, const uint8_t* header, int half, int v) {
    const uint8_t* scales = codes + code_bytes(spec.codes);
    const vf scale = scale_of<E>(scales, header, half, v);
    vf plus = v_mul(scale, v_set(-kLarger));
    if constexpr (spec.minimum != Factor::kNone)
      plus = v_add(plus, load_factor<spec.minimum>(scales + factor_bytes(spec.scale), header + big_bytes(spec.scale), half, v));
    const vf times = v_mul(scale, v_set(kUnit));
    const __m512i first = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    return {{_mm512_permutexvar_ps(first, times), _mm512_permutexvar_ps(second, times)},
            {_mm512_permutexvar_ps(first, plus), _mm512_permutexvar_ps(second, plus)}};
  }

  // The tiles of a step, from its codes and the header of its record.
  PG_INLINE void make(uint8_t* out, const uint8_t* codes, const uint8_t* header) {
    constexpr bool halves = spec.scale == Factor::kSuper16;
    const __m512i bits = _mm512_set1_epi32(kFloatBits);
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++) {
      Factors f = factors(codes, header, 0, v);
#pragma GCC unroll 8
      for (int group = 0; group < 8; group++) {
        if (halves && group == 4) f = factors(codes, header, 1, v);
        const __m512i code = load_codes<spec.codes>(codes, v, group);
#pragma GCC unroll 2
        for (int pair = 0; pair < 2; pair++) {
          const auto weights = [&](int half) {
            const __m512i index = _mm512_load_si512(kBytesOf.of[pair][half]);
            return v_madd(_mm512_castsi512_ps(put_bytes(bits, kPlaces, index, code)), f.times[half], f.plus[half]);
          };
          _mm512_store_si512(out + v * kTileBytes + (2 * group + pair) * 64, to_bf16(weights(0), weights(1)));
        }
      }
    }
  }
};

}  // namespace
}  // namespace PG_NS
}  // namespace pg
