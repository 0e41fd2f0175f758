#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>

#include "engine/parallel/crew.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/parallel/threads.hpp"

namespace heed {
namespace {

constexpr int kCrews = 64;  // runs at the same time; any more go without helpers

/// A crew of oneTBB's workers. Never destroyed: an invited one may come long after the run and its
/// context are gone.
struct InvitedCrew : Crew {
  std::atomic<std::int32_t> invited{0};  ///< invitations that nobody has followed yet

  void follow() {
    invited.fetch_sub(1, std::memory_order_relaxed);
    if (const std::uint32_t worker = enter()) work(worker);
  }
};

using InvitedCrews = std::array<InvitedCrew, kCrews>;

InvitedCrews& all() {
  static InvitedCrews& crews = *new InvitedCrews;
  return crews;
}

/// oneTBB counts the CPUs once, and if that fails waits for the count for ever. So whatever fails
/// before it was ever set up is not tried again.
std::atomic<bool> was_set_up{false};
std::atomic<bool> must_not_be_used{false};

/// The fork after which oneTBB was first used: its workers, and any locks that they hold, stay
/// behind in the parent of the next.
std::uint32_t first_use() {
  static const std::uint32_t at = forks();
  return at;
}

bool usable() {
  return forks() == first_use() && !must_not_be_used.load(std::memory_order_relaxed);
}

/// The threads that oneTBB allows itself. It prints a warning when asked for more.
std::uint32_t allowed_threads() {
  return static_cast<std::uint32_t>(std::max<std::size_t>(
      tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism), 1));
}

/// Starts workers from this thread, one by one, because a worker that fails to start another ends
/// the process. They are held until all have been started, lest one follows two invitations.
void start_workers(std::uint32_t count) {
  static std::mutex gate;
  const std::lock_guard<std::mutex> closed(gate);
  for (std::uint32_t i = 0; i < count; ++i) {
    tbb::task_arena for_one(1, 0);
    for_one.initialize();
    was_set_up.store(true, std::memory_order_relaxed);
    for_one.enqueue([] { const std::lock_guard<std::mutex> pass(gate); });
  }
}

/// The caller works, and oneTBB's workers are invited to help. (A tbb::parallel_for would wait for
/// ever for a task whose memory was refused.) They come from an arena of this executor: the
/// process's own arenas and limits stay as they are.
class TbbExecutor final : public Executor {
 public:
  TbbExecutor(const heed_allocator& /*allocator*/, std::uint32_t threads) {
    watch_forks();
    if (threads == 1 || !usable()) return;
    (void)all();  // throws if there is no memory
    try {
      set_up(threads);
    } catch (const std::bad_alloc&) {
      if (!was_set_up.load(std::memory_order_relaxed))
        must_not_be_used.store(true, std::memory_order_relaxed);
      throw;
    } catch (...) {  // a thread that could be started a moment ago cannot be now: do without
    }
  }
  ~TbbExecutor() override {
    if (helpers() > 0) arena_.~task_arena();
  }
  TbbExecutor(const TbbExecutor&) = delete;
  TbbExecutor& operator=(const TbbExecutor&) = delete;

  void run(std::uint32_t workers, Body body, void* argument) const override {
    const std::uint32_t most = helpers();
    InvitedCrew* const crew = most > 0 ? take_one(all()) : nullptr;
    if (crew == nullptr) return body(argument, 0);
    crew->open(workers, body, argument);
    invite(*crew, std::min(workers - 1, most));
    body(argument, 0);
    crew->close();
  }

 private:
  std::uint32_t helpers() const { return usable() ? helpers_.load(std::memory_order_relaxed) : 0; }

  void set_up(std::uint32_t threads) {
    const std::uint32_t helpers = startable_threads(std::min(threads, allowed_threads()) - 1);
    if (helpers == 0) return;
    start_workers(helpers);
    new (&arena_) tbb::task_arena(static_cast<int>(helpers), 0);
    arena_.initialize();
    helpers_.store(helpers, std::memory_order_relaxed);
  }

  void invite(InvitedCrew& crew, std::uint32_t helpers) const noexcept {
    try {
      if (allowed_threads() == 1) return;  // enqueue() would start one nevertheless
      while (crew.invited.load(std::memory_order_relaxed) < static_cast<std::int32_t>(helpers)) {
        arena_.enqueue([&crew] { crew.follow(); });
        crew.invited.fetch_add(1, std::memory_order_relaxed);
      }
    } catch (...) {
      // The arena's counters may now make the next caller wait for ever. Leave it alone.
      helpers_.store(0, std::memory_order_relaxed);
    }
  }

  mutable std::atomic<std::uint32_t> helpers_{0};
  union {
    mutable tbb::task_arena arena_;  // where there are helpers; enqueue() is thread-safe, not const
  };
};

}  // namespace

const ExecutorKind kTbbExecutor = ExecutorKind::of<TbbExecutor>("tbb");

}  // namespace heed
