#include "engine/context/isa.hpp"

#include <cstring>

#include "engine/runtime/error.hpp"
#include "engine/runtime/text.hpp"

#if defined(HEED_ISA_AVX2)
#include <cpuid.h>
#endif

namespace heed {
namespace {

bool always() { return true; }

#if defined(HEED_ISA_AVX2)
/// Not all compilers know this one's name (clang 14 does not). It has no state of its own.
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

// __builtin_cpu_supports also checks that the operating system saves the registers (XCR0).
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
#endif

#if defined(HEED_ISA_AVX512)
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
}
#endif

constexpr Isa kIsas[] = {
    {&kScalarKernels, always},
#if defined(HEED_ISA_SSE2)
    {&kSse2Kernels, always},  // part of every x86-64
#endif
#if defined(HEED_ISA_AVX2)
    {&kAvx2Kernels, has_avx2},
#endif
#if defined(HEED_ISA_AVX512)
    {&kAvx512Kernels, has_avx512},
#endif
#if defined(HEED_ISA_NEON)
    {&kNeonKernels, always},  // part of every aarch64
#endif
};

}  // namespace

std::size_t isa_count() { return sizeof kIsas / sizeof kIsas[0]; }
const Isa& isa_at(std::size_t index) { return kIsas[index]; }

const Kernels& choose_isa(const char* name, const char* source) {
  const Kernels* widest = nullptr;
  Text usable;
  bool compiled = false;
  for (const Isa& isa : kIsas) {
    const bool named = name != nullptr && std::strcmp(name, isa.kernels->f32.isa) == 0;
    compiled = compiled || named;
    if (!isa.usable()) continue;
    if (named) return *isa.kernels;
    widest = isa.kernels;
    usable.add_item(isa.kernels->f32.isa);
  }
  if (name == nullptr) return *widest;
  const heed_status status = compiled ? HEED_STATUS_UNSUPPORTED : HEED_STATUS_INVALID_ARGUMENT;
  fail(status, "%s is \"%.40s\", %s; usable here: %s", source, name,
       compiled ? "which this CPU or operating system lacks" : "which this build does not know",
       usable.c_str());
}

}  // namespace heed
