// Panels of bf16 as bf12, made once at load.
#include "bf12.h"

namespace pg {
namespace PG_NS {
namespace {

// Frequent upper bytes of a panel, by every kSampled-th number.
constexpr int64_t kSampled = 7;
struct Uppers {
  alignas(16) uint8_t bytes[16] = {};
  Uppers(const uint8_t* panel, int64_t numbers) {
    uint32_t counts[256] = {};
    for (int64_t i = 0; i < numbers; i += kSampled) counts[panel[2 * i + 1]]++;
    for (uint8_t& byte : bytes) {
      int most = 0;
      for (int i = 1; i < 256; i++)
        if (counts[i] > counts[most]) most = i;
      byte = (uint8_t)most;
      counts[most] = 0;
    }
  }
  // Codes of 64 upper bytes, and which have none.
  [[gnu::always_inline]] __m512i codes_of(__m512i uppers, __mmask64* others) const {
    __m512i codes = _mm512_setzero_si512();
    __mmask64 found = 0;
#pragma GCC unroll 16
    for (int code = 0; code < 16; code++) {
      const __mmask64 same = _mm512_cmpeq_epi8_mask(uppers, _mm512_set1_epi8((char)bytes[code]));
      codes = _mm512_mask_mov_epi8(codes, same, _mm512_set1_epi8((char)code));
      found |= same;
    }
    *others = ~found;
    return codes;
  }
};

// Two lines of bf16, as a vector of bytes holds two: in every lane eight of the first, then eight of the second.
PG_INLINE __m512i lowers_of(const uint8_t* lines) {
  const __m512i mask = _mm512_set1_epi16(0xff);
  return _mm512_packus_epi16(_mm512_and_si512(_mm512_loadu_si512(lines), mask), _mm512_and_si512(_mm512_loadu_si512(lines + 64), mask));
}
PG_INLINE __m512i uppers_in(const uint8_t* lines) {
  return _mm512_packus_epi16(_mm512_srli_epi16(_mm512_loadu_si512(lines), 8), _mm512_srli_epi16(_mm512_loadu_si512(lines + 64), 8));
}
constexpr int64_t kTwoLines = 128;

int64_t most_others(int64_t cols) { return cols * kPanelRows / kOthersEvery; }

}  // namespace

int64_t bf12_bytes(int64_t cols) {
  const int64_t bytes = bf12_others_at(cols) + (most_others(cols) + 1) * (int64_t)sizeof(uint32_t);
  return (bytes + 63) / 64 * 64;
}

bool fits_bf12(const uint8_t* panel, int64_t cols) {
  if (!can_be_bf12(cols)) return false;
  const Uppers uppers(panel, cols * kPanelRows);
  int64_t left = most_others(cols);
  for (const uint8_t *lines = panel, *end = panel + cols * kPanelRows * 2; lines < end && left >= 0; lines += kTwoLines) {
    __mmask64 others;
    uppers.codes_of(uppers_in(lines), &others);
    left -= __builtin_popcountll(others);
  }
  return left >= 0;
}

void to_bf12(uint8_t* panel, int64_t cols, uint8_t* room) {
  const int64_t numbers = cols * kPanelRows;
  memcpy(room, panel, (size_t)(numbers * 2));
  const Uppers uppers(room, numbers);
  memset(panel, 0, kBf12Header);
  memcpy(panel, uppers.bytes, sizeof uppers.bytes);
  uint32_t* other = (uint32_t*)(panel + bf12_others_at(cols));
  uint8_t* group = panel + kBf12Header;
  for (int64_t first = 0; first < numbers; first += kBf16Group / 2, group += kBf12Group) {
    __m512i codes[2];
    for (int half = 0; half < 2; half++) {
      const uint8_t* lines = room + first * 2 + half * kTwoLines;
      __mmask64 others;
      codes[half] = uppers.codes_of(uppers_in(lines), &others);
      _mm512_storeu_si512(group + half * 64, lowers_of(lines));
      if (others == 0) continue;
      for (int i = 0; i < kTwoLines / 2; i++)  // ascending, as the numbers lie: 32 of a line, 8 of each lane
        if (others >> (i % 32 / 8 * 16 + i / 32 * 8 + i % 8) & 1)
          *other++ = (uint32_t)(first + half * (kTwoLines / 2) + i) << 8 | lines[2 * i + 1];
    }
    _mm512_storeu_si512(group + 128, _mm512_or_si512(codes[0], _mm512_slli_epi16(codes[1], 4)));
  }
  *other = kNoPlace;
}

}  // namespace PG_NS
}  // namespace pg
