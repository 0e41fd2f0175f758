#include "engine/context/isa.hpp"

#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif
#if !defined(_WIN32)
#include <unistd.h>
#endif

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#if defined(HEED_ISA_AMX) && defined(__linux__)
#include <sys/syscall.h>
#endif

namespace heed {
namespace {

#if defined(__x86_64__) || defined(__i386__)
/// The answer of CPUID for a leaf; all 0 where the CPU does not know it.
struct Answer {
  unsigned a = 0, b = 0, c = 0, d = 0;

  explicit Answer(unsigned leaf, unsigned subleaf = 0) {
    (void)__get_cpuid_count(leaf, subleaf, &a, &b, &c, &d);
  }
};

/// Asked once: a virtual machine takes 10 us to answer, and every choice asks the same.
template <unsigned leaf, unsigned subleaf = 0>
const Answer& answer() {
  static const Answer once(leaf, subleaf);
  return once;
}
#endif

/// The size of a data cache of level 1 or 2 in bytes; 0 where the system does not say, as some
/// virtual machines do not, and Linux on Arm.
std::size_t cache_bytes(int level) {
#if defined(_SC_LEVEL1_DCACHE_SIZE) && defined(_SC_LEVEL2_CACHE_SIZE)
  const long bytes = sysconf(level == 1 ? _SC_LEVEL1_DCACHE_SIZE : _SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
#elif defined(__APPLE__)
  std::size_t bytes = 0;
  std::size_t size = sizeof bytes;
  const char* const name = level == 1 ? "hw.l1dcachesize" : "hw.l2cachesize";
  return sysctlbyname(name, &bytes, &size, nullptr, 0) == 0 ? bytes : 0;
#elif defined(__x86_64__) || defined(__i386__)
  // A leaf of Intel's and one of AMD's describe a cache for each index, in the same bits.
  constexpr unsigned kIntel = 4, kAmd = 0x8000001D, kData = 1, kUnified = 3;
  for (const unsigned leaf : {kAmd, kIntel})
    for (unsigned i = 0; Answer(leaf, i).a % 32 != 0; ++i) {
      const Answer cache(leaf, i);
      const unsigned type = cache.a % 32;
      if ((type != kData && type != kUnified) || cache.a / 32 % 8 != static_cast<unsigned>(level))
        continue;
      const std::size_t ways = cache.b / (1U << 22) + 1,
                        partitions = cache.b / (1U << 12) % 1024 + 1;
      return ways * partitions * (cache.b % 4096 + 1) * (std::size_t{cache.c} + 1);
    }
  return 0;
#else
  (void)level;
  return 0;
#endif
}

constexpr std::size_t kLongestPath = 4096;

/// Reads the beginning of a small file; false where there is none.
template <std::size_t size>
bool read_text(char (&text)[size], const char* root, const char* folder, const char* group,
               const char* name) {
  char path[kLongestPath];
  const int length = std::snprintf(path, sizeof path, "%s%s%s%s", root, folder, group, name);
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof path) return false;
  std::FILE* const file = std::fopen(path, "re");
  if (file == nullptr) return false;
  text[std::fread(text, 1, size - 1, file)] = '\0';
  (void)std::fclose(file);
  return true;
}

/// A quota over its period as CPUs, rounded up; a quota of "max" or -1 is none.
std::uint32_t to_cpus(const char* quota, const char* period) {
  const double microseconds = std::strtod(quota, nullptr);
  const double of = std::strtod(period, nullptr);
  if (!(microseconds > 0) || !(of > 0)) return UINT32_MAX;
  return static_cast<std::uint32_t>(std::ceil(std::min(microseconds / of, 1e9)));
}

/// The share that one group of version 2, or of version 1, allows its processes.
std::uint32_t cpus_of_group(const char* root, const char* group, bool version_1) {
  char quota[64];
  char period[64];
  if (version_1)
    return read_text(quota, root, "/sys/fs/cgroup/cpu", group, "/cpu.cfs_quota_us") &&
                   read_text(period, root, "/sys/fs/cgroup/cpu", group, "/cpu.cfs_period_us")
               ? to_cpus(quota, period)
               : UINT32_MAX;
  if (!read_text(quota, root, "/sys/fs/cgroup", group, "/cpu.max")) return UINT32_MAX;
  const char* const blank = std::strchr(quota, ' ');
  return blank == nullptr ? UINT32_MAX : to_cpus(quota, blank);
}

/// Whether a list of controllers, as "cpu,cpuacct", has the one of CPU time.
bool names_cpu(const char* controllers) {
  for (const char* name = controllers;;) {
    const std::size_t length = std::strcspn(name, ",");
    if (length == 3 && std::memcmp(name, "cpu", 3) == 0) return true;
    if (name[length] == '\0') return false;
    name += length + 1;
  }
}

/// The path of this process's group in a line "1:cpu,cpuacct:/path" or, of version 2, "0::/path";
/// nullptr where the line is about something else.
char* group_of_line(char* line, bool& version_1) {
  char* const controllers = std::strchr(line, ':');
  char* const path = controllers == nullptr ? nullptr : std::strchr(controllers + 1, ':');
  if (path == nullptr) return nullptr;
  *path = '\0';
  version_1 = controllers[1] != '\0';
  return !version_1 || names_cpu(controllers + 1) ? path + 1 : nullptr;
}

}  // namespace

CpuName cpu_name() {
  CpuName name = {"unknown"};
#if defined(__x86_64__) || defined(__i386__)
  const Answer first(0);
  const unsigned vendor[3] = {first.b, first.d, first.c};
  const unsigned version = answer<1>().a;
  if (version == 0) return name;
  char letters[13] = "";
  std::memcpy(letters, vendor, 12);
  for (char& letter : letters)
    if (letter != '\0' && std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  const unsigned family = version >> 8 & 15;
  const unsigned model = version >> 4 & 15;
  const bool extended_model = family == 6 || family == 15;
  (void)std::snprintf(name.text, sizeof name.text, "%s-%u-%u-%u", letters,
                      family == 15 ? family + (version >> 20 & 255) : family,
                      extended_model ? model + (version >> 16 & 15) * 16 : model, version & 15);
#elif defined(__aarch64__) && defined(__linux__)
  if ((getauxval(AT_HWCAP) & HWCAP_CPUID) == 0) return name;  // the instruction would be illegal
  std::uint64_t midr = 0;
  asm("mrs %0, MIDR_EL1" : "=r"(midr));
  const auto bits = [midr](unsigned from, unsigned count) {
    return static_cast<unsigned>(midr >> from) & ((1U << count) - 1);
  };
  (void)std::snprintf(name.text, sizeof name.text, "arm-%02x-%03x-%x-%x", bits(24, 8), bits(4, 12),
                      bits(20, 4), bits(0, 4));
#endif
  return name;
}

std::uint32_t quota_cpus(const char* root) {
  std::uint32_t fewest = UINT32_MAX;
  char lines[kLongestPath];
  if (!read_text(lines, root, "/proc/self/cgroup", "", "")) return fewest;
  for (char* line = lines; line != nullptr && *line != '\0';) {
    char* const end = std::strchr(line, '\n');
    if (end != nullptr) *end = '\0';
    bool version_1 = false;
    // Each group limits the groups below it. A container may see its own group as the topmost.
    if (char* const group = group_of_line(line, version_1))
      for (char* cut = group + std::strlen(group); cut != nullptr; cut = std::strrchr(group, '/')) {
        *cut = '\0';
        fewest = std::min(fewest, cpus_of_group(root, group, version_1));
      }
    line = end == nullptr ? nullptr : end + 1;
  }
  return std::max(fewest, 1U);
}

std::uint32_t usable_cpus() {
  const std::uint32_t runs_on = std::thread::hardware_concurrency();  // 0: nobody knows
  return std::min(std::max(runs_on, 1U), quota_cpus());
}

Caches read_caches() {
  constexpr std::size_t kImplausible = 4096;
  const std::size_t l1 = cache_bytes(1), l2 = cache_bytes(2);
  return {l1 < kImplausible ? std::size_t{32} << 10 : l1,
          l2 < kImplausible ? std::size_t{512} << 10 : l2};
}

// ---- Instruction sets ---------------------------------------------------------------------------

namespace {

bool always() { return true; }

#if defined(HEED_ISA_AVX2) || defined(HEED_ISA_AVX512)
// CPUID is asked here, because __builtin_cpu_supports knows names that depend on the compiler's
// version, and answers "no" to all where Zig links its own runtime.

/// Whether the system saves registers when it changes threads: `kinds` are bits of XCR0.
bool saves(unsigned kinds) {
  if ((answer<1>().c & bit_OSXSAVE) == 0) return false;
  unsigned low = 0;
  unsigned high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kinds) == kinds;
}

bool has_avx2() {
  constexpr unsigned kWith = bit_FMA | bit_F16C;
  constexpr unsigned kXmmYmm = 0x6;
  return (answer<1>().c & kWith) == kWith && (answer<7>().b & bit_AVX2) != 0 && saves(kXmmYmm);
}
#endif

#if defined(HEED_ISA_AVX512)
bool has_avx512() {
  constexpr unsigned kSets = bit_AVX512F | bit_AVX512CD | bit_AVX512DQ | bit_AVX512BW;
#if defined(__APPLE__)
  constexpr unsigned kZmm = 0;  // Darwin saves them from their first use on, and sets bits then
#else
  constexpr unsigned kZmm = 0xE0;
#endif
  return has_avx2() && (answer<7>().b & kSets) == kSets && saves(kZmm);
}
#endif

#if defined(HEED_ISA_AVX512BF16)
/// It has no state of its own. Its kernels of 8-bit rows use VNNI, which every CPU has that has it,
/// and VBMI, which all but Cooper Lake have.
bool has_avx512bf16() {
  constexpr unsigned kBf16 = 1U << 5;              // of leaf 7, subleaf 1
  constexpr unsigned kBytes = 1U << 11 | 1U << 1;  // VNNI and VBMI, of leaf 7, subleaf 0
  return has_avx512() && (answer<7>().c & kBytes) == kBytes && (answer<7, 1>().a & kBf16) != 0;
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
  return has_avx512bf16() && (answer<7>().d & kAmx) == kAmx && may_use_tiles();
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
