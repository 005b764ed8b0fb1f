// Loops that do nothing but what the processor does best, to measure the machine against itself: what a matmul could reach.
#include "peak.h"

#include "simd.h"

namespace pg {
namespace PG_NS {

// Independent chains: enough to cover the latency of an instruction on every pipe.
constexpr int kChains = 12;

int64_t peak_float(int64_t rounds, float* sink) {
  vf sum[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; i++) sum[i] = v_set((float)i);
  const vf a = v_set(1.0f + *sink), b = v_set(*sink);
  for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; i++) sum[i] = v_madd(sum[i], a, b);
  }
#pragma GCC unroll 12
  for (int i = 0; i < kChains; i++) *sink += sum[i][0];
  return rounds * kChains * VL * 2;
}

int64_t peak_int(int64_t rounds, float* sink) {
#if PG_ISA == 3
  __m512i sum[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; i++) sum[i] = _mm512_set1_epi32(i);
  const __m512i a = _mm512_set1_epi8((char)*sink), b = _mm512_set1_epi8(1);
  for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; i++) sum[i] = _mm512_dpbusd_epi32(sum[i], a, b);
  }
#pragma GCC unroll 12
  for (int i = 0; i < kChains; i++) *sink += (float)_mm512_reduce_add_epi32(sum[i]);
  return rounds * kChains * 64 * 2;
#elif PG_ISA == 2
  // The three instructions that stand for one vpdpbusd.
  __m256i sum[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; i++) sum[i] = _mm256_set1_epi32(i);
  const __m256i a = _mm256_set1_epi8((char)*sink), b = _mm256_set1_epi8(1), ones = _mm256_set1_epi16(1);
  for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; i++) {
      __m256i pairs = _mm256_maddubs_epi16(a, b);
      asm volatile("" : "+x"(pairs));  // not hoisted out of the loop
      sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(pairs, ones));
    }
  }
  int32_t lanes[8];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; i++) {
    _mm256_storeu_si256((__m256i*)lanes, sum[i]);
    *sink += (float)lanes[0];
  }
  return rounds * kChains * 32 * 2;
#else
  return peak_float(rounds, sink);
#endif
}

void peak_read(const float* data, int64_t count, float* sink) {
  vf sum[8];
  for (int i = 0; i < 8; i++) sum[i] = v_set(0.0f);
  for (int64_t k = 0; k + 8 * VL <= count; k += 8 * VL)
    for (int i = 0; i < 8; i++) sum[i] = v_add(sum[i], v_load(data + k + i * VL));
  for (int i = 0; i < 8; i++) *sink += sum[i][0];
}

void peak_update(float* data, int64_t count, const float* by) {
  const vf add = v_set(*by);
  for (int64_t k = 0; k + VL <= count; k += VL) v_store(data + k, v_add(v_load(data + k), add));
}

}  // namespace PG_NS
}  // namespace pg
