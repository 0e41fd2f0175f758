// Threads, started one by one.
#pragma once

#include <pthread.h>  // of winpthreads on Windows

#include <cstdint>

namespace heed {

/// A thread on which none of the program's signal handlers run.
using Thread = pthread_t;
bool start_thread(Thread& thread, void* (*function)(void*), void* argument) noexcept;
void join_thread(Thread thread) noexcept;

/// How many of the wanted threads can exist beside those that do; tries by starting them. libgomp
/// ends the process if it cannot start a thread, and so may oneTBB. So they are asked only for
/// threads that can be had.
std::uint32_t startable_threads(std::uint32_t wanted) noexcept;

/// In the child of a fork: another thread's trial stayed in the parent, with its locks.
void abandon_trials() noexcept;

}  // namespace heed
