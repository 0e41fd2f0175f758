#include "engine/context/isa.hpp"

#include <unistd.h>

#include <charconv>
#include <string_view>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif
#if defined(HEED_ISA_AMX) && defined(__linux__)
#include <sys/syscall.h>
#endif

namespace heed {
namespace {

bool always() { return true; }

#if defined(HEED_ISA_AVX2) || defined(HEED_ISA_AVX512)
/// The answer of CPUID for a leaf; all 0 where the CPU does not know it.
struct Answer {
  unsigned a = 0, b = 0, c = 0, d = 0;

  explicit Answer(unsigned leaf, unsigned subleaf = 0) {
    (void)__get_cpuid_count(leaf, subleaf, &a, &b, &c, &d);
  }
};

/// Not all compilers know this one's name (clang 14 does not). It has no state of its own.
bool has_f16c() { return (Answer(1).c & bit_F16C) != 0; }

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

#if defined(HEED_ISA_AVX512BF16)
/// As F16C, it has neither a state of its own nor a name that all compilers know. Every CPU that
/// has it has VNNI too, which its kernels of 8-bit rows use.
bool has_avx512bf16() {
  constexpr unsigned kBf16 = 1U << 5;   // of leaf 7, subleaf 1
  constexpr unsigned kVnni = 1U << 11;  // of leaf 7, subleaf 0
  return has_avx512() && (Answer(7).c & kVnni) != 0 && (Answer(7, 1).a & kBf16) != 0;
}
#endif

#if defined(HEED_ISA_AMX)
/// Linux gives tiles to a process that asks, from 5.16 on; a filter of system calls may refuse. Who
/// asks again gets the same answer.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequest = 0x1023;  // ARCH_REQ_XCOMP_PERM, which older headers lack
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}

bool has_amx() {
  constexpr unsigned kAmx = 1U << 22 | 1U << 24;  // AMX-BF16 and AMX-TILE, of leaf 7, subleaf 0
  return has_avx512bf16() && (Answer(7).d & kAmx) == kAmx && may_use_tiles();
}
#endif

#if defined(HEED_ISA_NEONBF16)
/// Whoever may not ask the system may not use it either.
bool has_neonbf16() {
#if defined(__linux__)
  constexpr unsigned long kBf16 = 1UL << 14;  // HWCAP2_BF16, which older headers lack
  return (getauxval(AT_HWCAP2) & kBf16) != 0;
#else
  return false;
#endif
}
#endif

// NOLINTBEGIN(bugprone-macro-parentheses): they are parts of names
#define HEED_FAMILIES(Isa, Type) k##Isa##Panels##Type, k##Isa##Rows##Type, k##Isa##Numbers##Type
/// An instruction set, and the tables that it has of float alone.
#define HEED_KERNELS(name, Isa, ...)                                                \
  {                                                                                 \
    {name, HEED_FAMILIES(Isa, F32), __VA_ARGS__}, { name, HEED_FAMILIES(Isa, F64) } \
  }
// NOLINTEND(bugprone-macro-parentheses)

constexpr Isa kIsas[] = {
    {HEED_KERNELS("scalar", Scalar, nullptr), always},
#if defined(HEED_ISA_SSE2)
    {HEED_KERNELS("sse2", Sse2, &kSse2NodesF32), always},  // part of every x86-64
#endif
#if defined(HEED_ISA_AVX2)
    {HEED_KERNELS("avx2", Avx2, &kAvx2NodesF32), has_avx2},
#endif
#if defined(HEED_ISA_AVX512)
    {HEED_KERNELS("avx512", Avx512, &kAvx512NodesF32), has_avx512},
#endif
#if defined(HEED_ISA_AVX512BF16)
    {HEED_KERNELS("avx512bf16", Avx512, &kAvx512NodesF32, &kAvx512Bf16Pairs, &kAvx512Bf16RowPairs),
     has_avx512bf16, has_fast_pairs},
#endif
#if defined(HEED_ISA_AMX)
    {HEED_KERNELS("amx", Avx512, &kAvx512NodesF32, &kAmxPairs, &kAvx512Bf16RowPairs,
                  {&kAmxTwoParts, &kAmxExactOnePart}),
     has_amx},
#endif
#if defined(HEED_ISA_NEON)
    {HEED_KERNELS("neon", Neon, &kNeonNodesF32), always},  // part of every aarch64
#endif
#if defined(HEED_ISA_NEONBF16)
    {HEED_KERNELS("neonbf16", Neon, &kNeonNodesF32, &kNeonBf16Pairs), has_neonbf16},
#endif
};

}  // namespace

std::size_t isa_count() { return sizeof kIsas / sizeof kIsas[0]; }
const Isa& isa_at(std::size_t index) { return kIsas[index]; }

bool has_fast_pairs(const CpuName& cpu) {
  constexpr std::string_view kVendor = "AuthenticAMD-";
  const std::string_view name = cpu.text;
  if (name.substr(0, kVendor.size()) != kVendor) return false;
  const std::string_view rest = name.substr(kVendor.size());
  unsigned family = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), family);
  return family >= 25;
}

std::size_t fastest_isa(const CpuName& cpu) {
  const auto is_faster = [&](const Isa& isa) {
    return isa.usable() && (isa.faster == nullptr || isa.faster(cpu));
  };
  std::size_t fastest = isa_count() - 1;
  while (!is_faster(isa_at(fastest))) --fastest;
  return fastest;
}

}  // namespace heed
