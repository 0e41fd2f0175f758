// What must be known of this process before a threading runtime is asked for threads.
#pragma once

#include <cstdint>

namespace heed {

/// How many threads, of as many as wanted, can exist beside those that do: tried by starting them.
/// libgomp ends the process where it cannot start a thread, and so may oneTBB; so they are asked
/// only for what can be had.
std::uint32_t startable_threads(std::uint32_t wanted) noexcept;

/// How often the process has become another by fork() since watch_forks(): the threads of a
/// runtime, and who holds its locks, stayed behind.
std::uint32_t forks() noexcept;

/// Must have been called before what forks() is about. Throws where there is no memory.
void watch_forks();

}  // namespace heed
