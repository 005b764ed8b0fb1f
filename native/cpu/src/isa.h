// Which instruction sets this processor and this build have.
#pragma once
#include <cstdint>

#include "kernels.h"

namespace pg {

// isa as in pg_context_create; null when the processor or the build lacks it.
const Kernels* kernels_for(int32_t isa);

}  // namespace pg
