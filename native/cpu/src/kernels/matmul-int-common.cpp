// The encodings with one f16 factor per block: q8_0 and q4_0, which `--quantize` also makes, q4_1, q5_0, q5_1.
#include "matmul-int-many.h"

namespace pg {
namespace PG_NS {

void take_common_kernels(Kernels& table) { take_kernels<kEncodingQ8, kEncodingQ4, kEncodingQ4M, kEncodingQ5, kEncodingQ5M>(table); }

}  // namespace PG_NS
}  // namespace pg
