// One row of a packed weight as f32: the embedding lookup. A table tied to the output head is packed once and serves both.
#pragma once
#include "weight.h"

namespace pg {

// out[cols] = scale * W[row], or += when accumulating. The row must exist. room: for one panel, where rows stay in a file.
void unpack_row(float* out, const Weight& weight, int64_t row, float scale, bool accumulate, uint8_t* room);

}  // namespace pg
