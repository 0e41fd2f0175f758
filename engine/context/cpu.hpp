// Which CPU this is, by its own account, its data caches, and how many CPUs the process may use.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heed {

/// As "AuthenticAMD-25-17-1", the vendor, family, model and stepping of x86, or "arm-41-d0c-3-1",
/// the implementer, part, variant and revision of 64-bit Arm in hexadecimal, of the core that this
/// thread runs on; "unknown" where the system does not let a program ask. Letters, digits and
/// "-_" alone.
struct CpuName {
  char text[40];
};
CpuName cpu_name();

/// The data caches that tiles are sized by.
struct Caches {
  std::size_t l1_bytes;  ///< per core
  std::size_t l2_bytes;  ///< per core
};

/// Asks the operating system; sizes that it does not know are taken to be 32 KiB and 512 KiB.
Caches read_caches();

/// The CPUs' worth of time that control groups of Linux leave this process, as a container's limit
/// is set, rounded up; UINT32_MAX where nothing limits it. Files are looked for below `root`.
std::uint32_t quota_cpus(const char* root = "");

/// The CPUs that this process may use: those that it may run on, and no more than its quota is
/// worth, because threads beyond it would use up its time together and then all wait.
std::uint32_t usable_cpus();

/// The cache size that tiles are cut for: the L2 cache, up to a size beyond which larger tiles gain
/// nothing but larger workspaces.
inline std::size_t tile_cache(const Caches& caches) {
  constexpr std::size_t kLargest = std::size_t{1} << 20;
  return caches.l2_bytes < kLargest ? caches.l2_bytes : kLargest;
}

}  // namespace heed
