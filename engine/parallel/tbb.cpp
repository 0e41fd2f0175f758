#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "engine/parallel/crew.hpp"
#include "engine/parallel/executor.hpp"
#include "engine/parallel/threads.hpp"
#include "engine/runtime/allocator.hpp"

namespace heed {
namespace {

/// Set where an exception leaves counters or flags of oneTBB's behind that the next to come would
/// wait for. From then on heed leaves oneTBB alone, in this process.
std::atomic<bool> broken{false};

/// When oneTBB was first used: its workers, and its locks if they held any, stay behind a fork().
std::uint32_t first_use() {
  static const std::uint32_t at = forks();
  return at;
}

bool usable() { return forks() == first_use() && !broken.load(std::memory_order_relaxed); }

/// The threads that oneTBB allows itself. To ask for more makes it print a warning.
std::uint32_t allowed_threads() {
  return static_cast<std::uint32_t>(std::max<std::size_t>(
      tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism), 1));
}

/// Whether oneTBB has ever been set up. What fails before is not tried again: oneTBB counts the
/// CPUs once, and where that failed it waits for the count for ever.
std::atomic<bool> was_set_up{false};

/// The caller works, and oneTBB's workers are invited to help. (A tbb::parallel_for would wait for
/// tasks whose memory could not be had, for ever.) They come from an arena of its own: the
/// process's own arenas and limits stay as they are.
class TbbExecutor final : public Executor {
 public:
  explicit TbbExecutor(std::uint32_t threads) {
    Crew::prepare();
    if (threads == 1 || !usable()) return;
    try {
      set_up(threads);
    } catch (...) {
      if (!was_set_up.load(std::memory_order_relaxed))
        broken.store(true, std::memory_order_relaxed);
      throw;
    }
  }
  ~TbbExecutor() override {
    if (helpers_ > 0 && usable()) arena_.~task_arena();
  }
  TbbExecutor(const TbbExecutor&) = delete;
  TbbExecutor& operator=(const TbbExecutor&) = delete;

  void run(std::uint32_t workers, Body body, void* argument) const override {
    Crew* const crew = helpers_ > 0 && usable() ? Crew::find() : nullptr;
    if (crew == nullptr) return body(argument, 0);
    crew->open(workers, body, argument);
    invite(*crew, std::min(workers - 1, helpers_));
    body(argument, 0);
    crew->close();
  }

 private:
  void set_up(std::uint32_t threads) {
    const std::uint32_t helpers = startable_threads(std::min(threads, allowed_threads()) - 1);
    if (helpers == 0) return;
    new (&arena_) tbb::task_arena(static_cast<int>(helpers), 0);
    arena_.initialize();
    was_set_up.store(true, std::memory_order_relaxed);
    helpers_ = helpers;
  }

  /// Where that fails the run goes on with those who come.
  void invite(Crew& crew, std::uint32_t helpers) const noexcept {
    try {
      if (allowed_threads() == 1) return;  // enqueue() would start one in spite of that
      while (crew.invited.load(std::memory_order_relaxed) < static_cast<std::int32_t>(helpers)) {
        arena_.enqueue([&crew] { crew.help(); });
        crew.invited.fetch_add(1, std::memory_order_relaxed);
      }
    } catch (const std::bad_alloc&) {
      return;
    } catch (...) {  // a thread that could not be started
      broken.store(true, std::memory_order_relaxed);
    }
  }

  std::uint32_t helpers_ = 0;
  union {
    mutable tbb::task_arena arena_;  // where there are helpers; enqueue() is thread-safe, not const
  };
};

}  // namespace

const ExecutorKind kTbbExecutor = {
    "tbb",
    [](const heed_allocator& allocator, std::uint32_t threads) -> Executor* {
      watch_forks();
      return make<TbbExecutor>(allocator, threads);
    },
    [](const heed_allocator& allocator, Executor* executor) {
      destroy(allocator, static_cast<TbbExecutor*>(executor));
    }};

}  // namespace heed
