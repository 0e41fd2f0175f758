// Threads, started one by one, and forks of this process, in whose children no thread runs but the
// one that forked.
#pragma once

#include <pthread.h>  // of winpthreads on Windows

#include <cstdint>

namespace heed {

/// A thread on which none of the program's signal handlers run.
using Thread = pthread_t;
bool start_thread(Thread& thread, void* (*function)(void*), void* argument) noexcept;
void join_thread(Thread thread) noexcept;

/// How many of the wanted threads can exist beside the others; tries by starting them. libgomp
/// ends the process if it cannot start a thread, and so may oneTBB. So they are asked only for
/// threads that can be had.
std::uint32_t startable_threads(std::uint32_t wanted) noexcept;

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
