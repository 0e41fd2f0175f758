// What heed must know of the process before it asks a threading runtime for threads.
#pragma once

#include <cstdint>

namespace heed {

/// How many of the wanted threads can exist beside those that do; tries by starting them. libgomp
/// ends the process if it cannot start a thread, and so may oneTBB. So they are asked only for
/// threads that can be had.
std::uint32_t startable_threads(std::uint32_t wanted) noexcept;

/// How many forks lie between this process and watch_forks(). A runtime's threads, and the holders
/// of its locks, stayed behind each.
std::uint32_t forks() noexcept;

/// Call this before the forks that forks() shall count. Throws if there is no memory.
void watch_forks();

}  // namespace heed
