// The encodings of few bits that are no k-quants: levels of coordinates of grid points, and codes of two bits.
#include "matmul-int-many.h"

namespace pg {
namespace PG_NS {

void take_grid_kernels(Kernels& table) { take_kernels<kEncodingN2K, kEncodingN2H, kEncodingN3K, kEncodingN3S, kEncodingN1K, kEncodingN1H, kEncodingT2, kEncodingT2K>(table); }

}  // namespace PG_NS
}  // namespace pg
