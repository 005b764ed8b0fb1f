// Weights of f32, f16 and bf16 panels as vectors of f32.
#pragma once
#include "matmul.h"

namespace pg {
namespace PG_NS {
namespace {

constexpr int kPanel = 32;

// Loads vector v (of one panel) at column k. Column step 1.
struct F32Weights {
  static constexpr int kStep = 1;
  static constexpr int kBytes = 4;
  PG_INLINE vf load(const uint8_t* panel, int64_t k, int v, int) {
    return v_load((const float*)panel + k * kPanel + v * VL);
  }
};
struct F16Weights {
  static constexpr int kStep = 1;
  static constexpr int kBytes = 2;
  PG_INLINE vf load(const uint8_t* panel, int64_t k, int v, int) {
    return v_load_f16((const uint16_t*)panel + k * kPanel + v * VL);
  }
};
// Columns come in pairs; the panel is padded to an even number of them.
struct Bf16Weights {
  static constexpr int kStep = 2;
  static constexpr int kBytes = 2;
  PG_INLINE vf load(const uint8_t* panel, int64_t k, int v, int odd) {
    const uint16_t* p = (const uint16_t*)panel + k * kPanel + v * VL * 2;
    if (odd) return v_load_bf16_odd(p);
#if PG_WASM  // a shuffle of bytes: x86 shifts in the same two units that multiply and add
    const v128_t up = wasm_i8x16_const(-1, -1, 0, 1, -1, -1, 4, 5, -1, -1, 8, 9, -1, -1, 12, 13);
    return (vf)wasm_i8x16_swizzle(wasm_v128_load(p), up);
#else
    return v_load_bf16_even(p);
#endif
  }
};

}  // namespace
}  // namespace PG_NS
}  // namespace pg
