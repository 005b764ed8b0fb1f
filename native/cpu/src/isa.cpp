#include "isa.h"

#ifdef PG_HAVE_X86
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(PG_HAVE_ARM)
#ifdef __linux__
#include <sys/auxv.h>
#else
#include <sys/sysctl.h>
#endif
#endif

namespace pg {

// One table per variant, each from its own compilation of kernels/table.cpp, or of the table of the folder that adds to one.
#ifdef PG_HAVE_ARM
namespace neon { const Kernels* kernels(); }
namespace dotprod { const Kernels* kernels(); }
namespace i8mm { const Kernels* kernels(); }

namespace {

enum class Feature { dotprod, i8mm };

bool has(Feature feature) {
#ifdef __linux__
  return feature == Feature::dotprod ? (getauxval(AT_HWCAP) & 1ul << 20) != 0 : (getauxval(AT_HWCAP2) & 1ul << 13) != 0;
#else
  int32_t value = 0;
  size_t size = sizeof value;
  const char* name = feature == Feature::dotprod ? "hw.optional.arm.FEAT_DotProd" : "hw.optional.arm.FEAT_I8MM";
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
#endif
}

}  // namespace
#elif defined(__wasm__)
namespace wasm { const Kernels* kernels(); }
#else
namespace portable { const Kernels* kernels(); }
#endif
#ifdef PG_HAVE_X86
namespace avx2 { const Kernels* kernels(); }
namespace avxvnni { const Kernels* kernels(); }
namespace avx512 {
const Kernels* kernels_of(bool is_tall, bool unpacks);
}  // namespace avx512
namespace amx {
const Kernels* kernels();
const Kernels* fast_kernels();
}  // namespace amx

namespace {

// Asked of the processor itself: what compilers offer for it is not in every one's runtime.
struct Cpuid {
  unsigned a = 0, b = 0, c = 0, d = 0;
  explicit Cpuid(unsigned leaf, unsigned part = 0) { __get_cpuid_count(leaf, part, &a, &b, &c, &d); }
};

constexpr bool has_all(unsigned word, unsigned bits) { return (word & bits) == bits; }

// The registers that the system saves when it switches threads; only of use where the processor has `osxsave`.
unsigned saved_registers() {
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool has_avx2() {
  constexpr unsigned kFma = 1u << 12, kOsxsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29, kAvx2 = 1u << 5;
  if (!has_all(Cpuid(1).c, kFma | kOsxsave | kAvx | kF16c) || !has_all(Cpuid(7).b, kAvx2)) return false;
  return has_all(saved_registers(), 0x6);  // xmm, ymm
}

bool has_avxvnni() {
#ifdef PG_TWINS
  return has_avx2();
#else
  constexpr unsigned kAvxVnni = 1u << 4;
  return has_avx2() && Cpuid(7).a >= 1 && has_all(Cpuid(7, 1).a, kAvxVnni);
#endif
}

bool has_avx512() {
  constexpr unsigned kF = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31, kVnni = 1u << 11;
  const Cpuid seven(7);
  if (!has_avx2() || !has_all(seven.b, kF | kDq | kBw | kVl) || !has_all(seven.c, kVnni)) return false;
#ifdef __APPLE__
  return true;  // saved from their first use on
#else
  return has_all(saved_registers(), 0xe0);  // masks, zmm
#endif
}

bool is_amd() {
  const Cpuid vendor(0);
  return vendor.b == 0x68747541 && vendor.d == 0x69746e65 && vendor.c == 0x444d4163;
}

// Zen 4 (AMD's family 25) does an instruction of 512 bits in two halves, one multiply-add a cycle.
bool halves_vectors() {
  const unsigned version = Cpuid(1).a;
  return is_amd() && (version >> 8 & 15) + (version >> 20 & 255) == 25;
}

// Tiles, their products of bf16 and of bytes, the vector instructions that make their operands, and the system's leave to use tiles: Linux
// saves their 8 KiB only for processes that ask.
bool has_amx() {
#ifdef PG_TWINS
  return true;
#elif defined(__linux__)
  constexpr unsigned kVbmi = 1u << 1, kGfni = 1u << 8, kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
  const Cpuid features(7);
  if (!has_all(features.c, kVbmi | kGfni) || !has_all(features.d, kBf16 | kTile | kInt8)) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace
#endif

const Kernels* kernels_for(int32_t isa) {
#ifdef PG_HAVE_X86
  if ((isa == kIsaAmx || isa == kIsaAmxFast || isa == kIsaBest) && has_avx512() && has_amx())
    return isa == kIsaAmxFast ? amx::fast_kernels() : amx::kernels();
  if (isa == kIsaAvx512 || isa == kIsaAvx512Other || (isa == kIsaBest && has_avx512())) {
    if (!has_avx512()) return nullptr;
    // Intel's have no more than two vector instructions a cycle: unpacking takes the time of products there, on AMD's it runs beside them.
    const bool is_other = isa == kIsaAvx512Other, unpacks = !is_amd();
    return avx512::kernels_of(halves_vectors() != is_other, unpacks != is_other);
  }
  if (isa == kIsaAvxVnni || (isa == kIsaBest && has_avxvnni())) return has_avxvnni() ? avxvnni::kernels() : nullptr;
  if (isa == kIsaAvx2 || (isa == kIsaBest && has_avx2())) return has_avx2() ? avx2::kernels() : nullptr;
#endif
#ifdef PG_HAVE_ARM
  const bool has_dotprod = has(Feature::dotprod), has_i8mm = has_dotprod && has(Feature::i8mm);
  if (isa == kIsaI8mm || (isa == kIsaBest && has_i8mm)) return has_i8mm ? i8mm::kernels() : nullptr;
  if (isa == kIsaDotprod || (isa == kIsaBest && has_dotprod)) return has_dotprod ? dotprod::kernels() : nullptr;
  return isa == kIsaNeon || isa == kIsaBest ? neon::kernels() : nullptr;
#elif defined(__wasm__)
  const Kernels* built = wasm::kernels();
  return isa == kIsaBest || isa == built->isa ? built : nullptr;
#else
  return isa == kIsaPortable || isa == kIsaBest ? portable::kernels() : nullptr;
#endif
}

}  // namespace pg
