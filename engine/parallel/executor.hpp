// Running a body on several threads, behind one interface: serial, heed's own threads, oneTBB's,
// OpenMP's or the caller's. Executors hand out worker indices, nothing else; which worker does
// which task is decided in parallel_for.cpp.
#pragma once

#include <cstdint>

#include "api/heed.h"
#include "engine/runtime/allocator.hpp"

namespace heed {

using Body = void (*)(void* argument, std::uint32_t worker);

/// The most threads that anything may use.
inline constexpr std::uint32_t kMaxThreads = 1024;

class Executor {
 public:
  virtual ~Executor() = default;
  /// Calls body(argument, w) at most once for each w < workers, concurrently where it can, and
  /// returns when all have returned. A worker that comes claims tasks until there are none, so not
  /// all need to come; worker 0 must. May be called from several threads at once.
  virtual void run(std::uint32_t workers, Body body, void* argument) const = 0;
};

template <class Kind>
void destroy_executor(const heed_allocator& allocator, Executor* executor) {
  destroy(allocator, static_cast<Kind*>(executor));
}

/// The caller's.
class CallerExecutor final : public Executor {
 public:
  explicit CallerExecutor(const heed_executor& given) : given_(given) {}
  void run(std::uint32_t workers, Body body, void* argument) const override {
    given_.run(given_.user, workers, body, argument);
  }

 private:
  heed_executor given_;
};

/// A kind of executor that was compiled in.
struct ExecutorKind {
  const char* name;
  Executor* (*create)(const heed_allocator& allocator, std::uint32_t threads);
  void (*destroy)(const heed_allocator& allocator, Executor* executor);
};

extern const ExecutorKind kSerialExecutor;
extern const ExecutorKind kThreadsExecutor;
extern const ExecutorKind kTbbExecutor;     // where HEED_WITH_TBB
extern const ExecutorKind kOpenMpExecutor;  // where HEED_WITH_OPENMP

/// The preferred kind comes last.
std::size_t executor_count();
const ExecutorKind& executor_at(std::size_t index);

}  // namespace heed
