// Four bytes of every row and column change places: the steps that whole transposes of such are made of.
#pragma once
#include "../kernels/transpose.h"

namespace pg {
namespace PG_NS {

// In each lane: [4 vectors][4] -> [4][4 vectors].
PG_INLINE void turn_in_lanes(__m512i (&v)[4]) {
  const __m512i a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpackhi_epi32(v[0], v[1]);
  const __m512i c = _mm512_unpacklo_epi32(v[2], v[3]), d = _mm512_unpackhi_epi32(v[2], v[3]);
  v[0] = _mm512_unpacklo_epi64(a, c);
  v[1] = _mm512_unpackhi_epi64(a, c);
  v[2] = _mm512_unpacklo_epi64(b, d);
  v[3] = _mm512_unpackhi_epi64(b, d);
}

// Of whole lanes: [4 vectors][4 lanes] -> [4 lanes][4 vectors].
PG_INLINE void turn_lanes(__m512i (&v)[4]) {
  const __m512i a = _mm512_shuffle_i32x4(v[0], v[1], 0x44), b = _mm512_shuffle_i32x4(v[0], v[1], 0xee);
  const __m512i c = _mm512_shuffle_i32x4(v[2], v[3], 0x44), d = _mm512_shuffle_i32x4(v[2], v[3], 0xee);
  v[0] = _mm512_shuffle_i32x4(a, c, 0x88);
  v[1] = _mm512_shuffle_i32x4(a, c, 0xdd);
  v[2] = _mm512_shuffle_i32x4(b, d, 0x88);
  v[3] = _mm512_shuffle_i32x4(b, d, 0xdd);
}

// [16][16] -> [16][16]; rows lie `from_stride` and `to_stride` bytes apart.
PG_INLINE void turn_16(uint8_t* to, int64_t to_stride, const uint8_t* from, int64_t from_stride) {
  vf rows[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) rows[i] = _mm512_loadu_ps((const float*)(from + i * from_stride));
  transpose(rows);
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) _mm512_storeu_ps((float*)(to + i * to_stride), rows[i]);
}

// [8][16] -> [16][8], which is one after the other.
PG_INLINE void turn_8(uint8_t* to, const uint8_t* from, int64_t from_stride) {
  __m512i v[2][4];  // [fours of rows][..]
#pragma GCC unroll 2
  for (int four = 0; four < 2; four++) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) v[four][i] = _mm512_loadu_si512(from + (four * 4 + i) * from_stride);
    turn_in_lanes(v[four]);
  }
#pragma GCC unroll 2
  for (int pair = 0; pair < 2; pair++) {
    __m512i out[4] = {v[0][2 * pair], v[1][2 * pair], v[0][2 * pair + 1], v[1][2 * pair + 1]};
    turn_lanes(out);
#pragma GCC unroll 4
    for (int lane = 0; lane < 4; lane++) _mm512_storeu_si512(to + (lane * 2 + pair) * 64, out[lane]);
  }
}

// And back.
PG_INLINE void turn_8_back(uint8_t* to, int64_t to_stride, const uint8_t* from) {
  __m512i v[2][4];
#pragma GCC unroll 2
  for (int pair = 0; pair < 2; pair++) {
    __m512i in[4];
#pragma GCC unroll 4
    for (int lane = 0; lane < 4; lane++) in[lane] = _mm512_loadu_si512(from + (lane * 2 + pair) * 64);
    turn_lanes(in);
    v[0][2 * pair] = in[0];
    v[1][2 * pair] = in[1];
    v[0][2 * pair + 1] = in[2];
    v[1][2 * pair + 1] = in[3];
  }
#pragma GCC unroll 2
  for (int four = 0; four < 2; four++) {
    turn_in_lanes(v[four]);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) _mm512_storeu_si512(to + (four * 4 + i) * to_stride, v[four][i]);
  }
}

}  // namespace PG_NS
}  // namespace pg
