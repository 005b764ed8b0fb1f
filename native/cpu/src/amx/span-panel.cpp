// Panels of q8 as span8 and of q4 as span4: bytes, multipliers and units as span-bytes.h makes them, made once at load.
#include "span-matmul.h"
#include "span-nibbles.h"

namespace pg {
namespace PG_NS {

int64_t span8_bytes(int64_t cols) { return int_steps_of(cols) * kStepBytes + spans_of(cols) * kSpanUnits; }

void to_span8(uint8_t* panel, int64_t cols, uint8_t* room) {
  constexpr EncodingSpec spec = spec_of(kEncodingQ8);
  const int64_t blocks = blocks_of(cols);
  memcpy(room, panel, (size_t)(blocks * block_bytes(spec)));
  for (int64_t first = 0; first < blocks; first += kSpanBlocks, panel += kSpan8Bytes) {
    const int64_t count = blocks - first < kSpanBlocks ? blocks - first : kSpanBlocks, steps = (count + 1) / 2;
    const uint8_t* from = room + first * block_bytes(spec);
    if (count % 2 != 0) memset(panel + (steps - 1) * kStepBytes, 0, kStepBytes);
    for (int half = 0; half < 2; half++) {
      SpanMultipliers<kEncodingQ8> multipliers;
      read_multipliers(multipliers, from, half, count);
      for (int64_t b = 0; b < count; b++)
        make_bytes(panel + b / 2 * kStepBytes + half * kTileBytes + b % 2 * (kTileBytes / 2), from + b * block_bytes(spec) + half * 64,
                   multipliers, b);
      store_unit(panel + steps * kStepBytes, half, multipliers);
    }
  }
}

int64_t span4_bytes(int64_t cols) {
  const int64_t blocks = blocks_of(cols), rest = blocks % kSpanBlocks;
  return blocks / kSpanBlocks * kSpan4Bytes + (rest == 0 ? 0 : span4_span_bytes(rest));
}

void to_span4(uint8_t* panel, int64_t cols, uint8_t* room) {
  constexpr EncodingSpec spec = spec_of(kEncodingQ4);
  const int64_t blocks = blocks_of(cols);
  memcpy(room, panel, (size_t)(blocks * block_bytes(spec)));
  for (int64_t first = 0; first < blocks; first += kSpanBlocks, panel += kSpan4Bytes) {
    const int64_t count = blocks - first < kSpanBlocks ? blocks - first : kSpanBlocks;
    const uint8_t* from = room + first * block_bytes(spec);
    memset(panel + count * kSpan4Block, 0, (size_t)(span4_units_at(count) - count * kSpan4Block));
    for (int half = 0; half < 2; half++) {
      SpanMultipliers<kEncodingQ4> multipliers;
      read_multipliers(multipliers, from, half, count);
      store_unit(panel + span4_units_at(count), half, multipliers);
      for (int64_t b = 0; b < count; b++) {
        alignas(64) int32_t of[kTileRows];
        _mm512_store_si512(of, multipliers.of[b][0]);
        const Quad quad = quad_of(panel, count, b / kQuadBlocks);
        for (int64_t output = 0; output < kTileRows; output++) {
          // Out of range: of a factor that is not finite. The unit tells.
          const bool is_number = of[output] >= -kMostMultiplier && of[output] <= kMostMultiplier;
          const int64_t place = (half * kTileRows + output) * quad.blocks + b % kQuadBlocks;
          ((uint8_t*)quad.multipliers)[place] = (uint8_t)(is_number ? 2 * of[output] : 0);
          for (int group = 0; group < 4; group++)
            memcpy((uint8_t*)quad.codes + place * 16 + group * 4, from + b * block_bytes(spec) + group * 128 + half * 64 + output * 4, 4);
        }
      }
    }
  }
}

}  // namespace PG_NS
}  // namespace pg
