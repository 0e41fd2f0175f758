#include "engine/context/cpu.hpp"

#include <unistd.h>

#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstring>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace heed {
namespace {

/// sysconf(name), or `otherwise` if the answer is implausible (0 on some virtual machines and on
/// Arm).
std::size_t size_or(int name, std::size_t otherwise) {
  const long bytes = name < 0 ? 0 : sysconf(name);
  return bytes >= 4096 ? static_cast<std::size_t>(bytes) : otherwise;
}

}  // namespace

CpuName cpu_name() {
  CpuName name = {"unknown"};
#if defined(__x86_64__) || defined(__i386__)
  unsigned most = 0;
  unsigned vendor[3] = {};
  unsigned version = 0;
  unsigned unused = 0;
  if (__get_cpuid(0, &most, &vendor[0], &vendor[2], &vendor[1]) == 0 ||
      __get_cpuid(1, &version, &unused, &unused, &unused) == 0)
    return name;
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

Caches read_caches() {
#if defined(_SC_LEVEL1_DCACHE_SIZE) && defined(_SC_LEVEL2_CACHE_SIZE)
  const int l1 = _SC_LEVEL1_DCACHE_SIZE;
  const int l2 = _SC_LEVEL2_CACHE_SIZE;
#else
  const int l1 = -1;
  const int l2 = -1;
#endif
  return {size_or(l1, std::size_t{32} << 10), size_or(l2, std::size_t{512} << 10)};
}

}  // namespace heed
