// The avxvnni variant: everything of avx2, with vpdpbusd for integer weights, which laptops without AVX-512 have. Same bits.
#include "../kernels/matmul.h"

namespace pg {
namespace avx2 {
const Kernels* kernels();
}
namespace PG_NS {

const Kernels* kernels() {
  static const Kernels table = [] {
    Kernels t = *avx2::kernels();
    t.isa = kIsaAvxVnni;
    take_int_kernels(t);
    return t;
  }();
  return &table;
}

}  // namespace PG_NS
}  // namespace pg
