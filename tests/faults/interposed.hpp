// This program's own malloc, operator new and pthread_create, before those of the system, so that
// tests can count requests and refuse them. Needs glibc, which exports its allocator under second
// names, and no sanitizer, which would replace malloc too.
#pragma once

#include <atomic>
#include <cstdint>

namespace heed_test {

enum class Resource {
  kNone,
  kNew,           ///< operator new, which throws
  kMalloc,        ///< malloc and its relatives, operator new included
  kThread,        ///< pthread_create
  kThreadsAtOnce  ///< pthread_create where that many of its threads live already
};

/// Refuses the nth request for `what` from now on, counted from 1; of kThreadsAtOnce every one that
/// would be the nth thread alive.
void refuse(Resource what, std::int64_t nth);
/// Refuses nothing from now on; whether anything was refused.
bool stop_refusing();
/// Whether this request is the one to refuse.
bool refused(Resource what);

/// Requests to malloc, its relatives and free, since the program began.
std::uint64_t memory_requests();
/// Blocks of memory that were requested and not given back.
std::int64_t live_blocks();

}  // namespace heed_test
