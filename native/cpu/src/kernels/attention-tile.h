// A tile of attention: which keys, and the order that keeps every result independent of tile shapes. Each number is made of its
// terms in one fixed order; register tiles only choose which numbers run side by side:
//   score    q . k in VL partial sums, p_l over the dims d = l (mod VL) ascending, one FMA a term; then t_r = p_r + p_r+4 + ...
//            and t_0 + t_1 + t_2 + t_3, left to right (attention-scores.h)
//   sum      of probabilities: by lane, keys in lanes by absolute position modulo VL, tiles ascending (attention-softmax.h)
//   output   one accumulator a number, keys ascending, one FMA a key (attention-values.h)
#pragma once
#include "kv-rows.h"
#include "simd-math.h"

namespace pg {
namespace PG_NS {

constexpr int kTileKeys = 64;  // keys of one tile; tiles begin at absolute multiples of it
constexpr int kTileSteps = kTileKeys / VL;

}  // namespace PG_NS
}  // namespace pg
