// The encodings whose nibbles are looked up in a table of a type's own.
#include "matmul-int-many.h"

namespace pg {
namespace PG_NS {

void take_table_kernels(Kernels& table) { take_kernels<kEncodingN4, kEncodingN4K, kEncodingMx4>(table); }

}  // namespace PG_NS
}  // namespace pg
