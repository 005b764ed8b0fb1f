#include "isa.h"

namespace pg {

// One table per variant, each from its own compilation of kernels/table.cpp.
namespace portable { const Kernels* kernels(); }
#ifdef PG_HAVE_X86
namespace avx2 { const Kernels* kernels(); }
namespace avx512 { const Kernels* kernels(); }
#endif

const Kernels* kernels_for(int32_t isa) {
#ifdef PG_HAVE_X86
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vnni");
  if (isa == kIsaAvx512 || (isa == kIsaBest && has_avx512)) return has_avx512 ? avx512::kernels() : nullptr;
  if (isa == kIsaAvx2 || (isa == kIsaBest && has_avx2)) return has_avx2 ? avx2::kernels() : nullptr;
#endif
  return isa == kIsaPortable || isa == kIsaBest ? portable::kernels() : nullptr;
}

}  // namespace pg
