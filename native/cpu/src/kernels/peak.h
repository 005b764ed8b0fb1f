// Declarations of the peak loops of one variant.
#pragma once
#include <stdint.h>

namespace pg {
namespace PG_NS {

// Both return the operations done (a multiply and an add are two). *sink is 0 and keeps the compiler from knowing the result.
int64_t peak_float(int64_t rounds, float* sink);
int64_t peak_int(int64_t rounds, float* sink);
void peak_read(const float* data, int64_t count, float* sink);
// Reads all and writes it back.
void peak_update(float* data, int64_t count, const float* by);

}  // namespace PG_NS
}  // namespace pg
