// A panel of q8 as one of span8: bytes and units as span-bytes.h makes them, made once at load.
#include "span-matmul.h"

namespace pg {
namespace PG_NS {

int64_t span8_bytes(int64_t cols) { return int_steps_of(cols) * kStepBytes + spans_of(cols) * kSpan8Units; }

void to_span8(uint8_t* panel, int64_t cols, uint8_t* room) {
  constexpr EncodingSpec spec = spec_of(kEncodingQ8);
  const int64_t blocks = blocks_of(cols);
  memcpy(room, panel, (size_t)(blocks * block_bytes(spec)));
  for (int64_t first = 0; first < blocks; first += kSpanBlocks, panel += kSpan8Bytes) {
    const int64_t count = blocks - first < kSpanBlocks ? blocks - first : kSpanBlocks, steps = (count + 1) / 2;
    const uint8_t* from = room + first * block_bytes(spec);
    if (count % 2 != 0) memset(panel + (steps - 1) * kStepBytes, 0, kStepBytes);
    for (int half = 0; half < 2; half++) {
      SpanMultipliers multipliers;
      read_multipliers<spec.codes>(multipliers, from + code_bytes(spec.codes) + half * 32, block_bytes(spec), count);
      for (int64_t b = 0; b < count; b++)
        make_bytes<spec.codes>(panel + b / 2 * kStepBytes + half * kTileBytes + b % 2 * (kTileBytes / 2),
                               from + b * block_bytes(spec) + half * 64, multipliers.of[b]);
      v_store((float*)(panel + steps * kStepBytes) + half * 16, multipliers.unit);
    }
  }
}

}  // namespace PG_NS
}  // namespace pg
