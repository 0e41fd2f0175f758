#include "engine/context/caches.hpp"

#include <unistd.h>

namespace heed {
namespace {

/// sysconf(name), or `otherwise` if the answer is implausible (0 on some virtual machines and on
/// Arm).
std::size_t size_or(int name, std::size_t otherwise) {
  const long bytes = name < 0 ? 0 : sysconf(name);
  return bytes >= 4096 ? static_cast<std::size_t>(bytes) : otherwise;
}

}  // namespace

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
