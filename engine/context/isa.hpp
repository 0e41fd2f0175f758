// This machine: which CPU it is, by its own account, its data caches, how many CPUs the process may
// use, and which of the instruction sets that are compiled in it can run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/table.hpp"

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

/// The CPUs that this process may use: all that it may run on, and no more than its quota is
/// worth, because threads beyond it would use up its time together and then all wait.
std::uint32_t usable_cpus();

/// The cache size that tiles are cut for: the L2 cache, up to a size beyond which larger tiles gain
/// nothing but larger workspaces.
inline std::size_t tile_cache(const Caches& caches) {
  constexpr std::size_t kLargest = std::size_t{1} << 20;
  return caches.l2_bytes < kLargest ? caches.l2_bytes : kLargest;
}

struct Isa {
  Kernels kernels;
  bool (*usable)();  ///< asks the CPU and the operating system, never assumes
  /// Than the ISAs before it, where it is usable; nullptr: on every CPU.
  bool (*faster)(const CpuName& cpu) = nullptr;
};

/// From the plainest to the widest; the first is always usable.
std::size_t isa_count();
const Isa& isa_at(std::size_t index);

/// The last that is usable and faster on this CPU: chosen where nobody asks for another.
std::size_t fastest_isa(const CpuName& cpu);

/// Whether the pairs of AVX512-BF16 are faster than float32 on the CPU of this name, which has
/// them. Measured: on Zen 4 they do twice the products in a cycle, on Sapphire Rapids less than
/// half. So they are on AMD's families from 25 on, where Zen 4 is the first with AVX512-BF16, and
/// nowhere else.
bool has_fast_pairs(const CpuName& cpu);

}  // namespace heed
