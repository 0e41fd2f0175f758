// Forks of this process, in whose children no thread runs but the one that forked.
#pragma once

#include <cstdint>

namespace heed {

/// How many forks lie between this process and watch_forks(). A runtime's threads, and the holders
/// of its locks, stayed behind each.
std::uint32_t forks() noexcept;

/// Whether the pool of threads that a runtime may keep for this thread stayed behind in the parent
/// of a fork, so that a region would wait for them for ever. Anybody may have used the runtime,
/// before the fork and before heed was loaded; so this is true wherever the parent had other
/// threads.
bool lost_its_threads() noexcept;

/// Call this before the forks that forks() shall count; done once as heed is loaded. Throws if
/// there is no memory.
void watch_forks();

}  // namespace heed
