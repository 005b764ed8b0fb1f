// Panels of bf12: bf16 that is only multiplied, to the same bits in three quarters of the bytes, since few rows wait for memory alone.
//
// The upper byte of a bf16 is its sign and seven bits of its exponent: the weights of a panel have 16 of those, but for one in some ten
// thousand. A panel is
//   uppers   the 16 most frequent upper bytes; zeros to a whole line
//   steps    of 32 columns, [8 groups of 4 lines][192]: the lower bytes of lines 0 and 1, those of lines 2 and 3, then codes of the upper
//            bytes, lines 0 and 1 in lower nibbles. Lines are those of the step as bf16, [cols/2][32][2]; a vector holds two of them in
//            turns of 8 bytes, which is how unpacking puts a lower and an upper byte together.
//   others   where in the panel, in numbers, an upper byte is none of those: place * 256 + byte, ascending, then kNoPlace. Room for one
//            number in kOthersEvery.
#pragma once
#include "tile-matmul.h"

namespace pg {
namespace PG_NS {

constexpr int64_t kBf12Header = 64, kBf12Group = 192, kBf12Groups = 8;
constexpr int64_t kBf12Step = kBf12Groups * kBf12Group;
constexpr int64_t kBf16Group = 256;
constexpr int64_t kStepNumbers = kStepCols * kPanelRows;
constexpr int64_t kOthersEvery = 256;
constexpr uint32_t kNoPlace = 0xffffffffu;

// Columns that a panel may have, in whole steps: places take 24 bits, of which the last is no place.
constexpr bool can_be_bf12(int64_t cols) { return cols % kStepCols == 0 && cols * kPanelRows < (1 << 24); }

constexpr int64_t bf12_others_at(int64_t cols) { return kBf12Header + cols / kStepCols * kBf12Step; }
int64_t bf12_bytes(int64_t cols);
// Whether the panel of bf16 has few enough other upper bytes.
bool fits_bf12(const uint8_t* panel, int64_t cols);
void to_bf12(uint8_t* panel, int64_t cols, uint8_t* room);

PG_INLINE __m512i uppers_of(const uint8_t* panel) { return _mm512_broadcast_i32x4(_mm_load_si128((const __m128i*)panel)); }

// A group as bf16, but for its other upper bytes.
PG_INLINE void expand_group(uint8_t* out, const uint8_t* group, __m512i uppers) {
  const __m512i codes = _mm512_load_si512(group + 128), mask = _mm512_set1_epi8(15);
  const auto two_lines = [&](uint8_t* to, __m512i lowers, __m512i places) {
    const __m512i upper = _mm512_shuffle_epi8(uppers, places);
    _mm512_store_si512(to, _mm512_unpacklo_epi8(lowers, upper));
    _mm512_store_si512(to + 64, _mm512_unpackhi_epi8(lowers, upper));
  };
  two_lines(out, _mm512_load_si512(group), _mm512_and_si512(codes, mask));
  two_lines(out + 128, _mm512_load_si512(group + 64), _mm512_and_si512(_mm512_srli_epi16(codes, 4), mask));
}

// The other upper bytes of a panel, in order.
class OtherUppers {
 public:
  OtherUppers() = default;
  explicit OtherUppers(const uint8_t* others) : next_((const uint32_t*)others) {}
  // Puts those of the numbers up to `end` into `out`, which begins with number `first`.
  [[gnu::always_inline]] void put(uint8_t* out, int64_t first, int64_t end) {
    for (; (*next_ >> 8) < end; next_++) out[((*next_ >> 8) - first) * 2 + 1] = (uint8_t)*next_;
  }

 private:
  const uint32_t* next_ = nullptr;
};

}  // namespace PG_NS
}  // namespace pg
