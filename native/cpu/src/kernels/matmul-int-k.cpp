// The encodings with super blocks.
#include "matmul-int-many.h"

namespace pg {
namespace PG_NS {

void take_k_kernels(Kernels& table) { take_kernels<kEncodingQ4K, kEncodingQ5K, kEncodingQ6K, kEncodingQ3K, kEncodingQ2K>(table); }

}  // namespace PG_NS
}  // namespace pg
