// heed's own threads: a context's, started with it and joined at its end. They look for work a
// little while after a run, as the next often follows at once, and then sleep.
#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <thread>

#include "engine/parallel/crew.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/parallel/threads.hpp"
#include "engine/runtime/allocator.hpp"

namespace heed {
namespace {

constexpr std::size_t kCrews = 8;  // runs of a context at the same time; more go without helpers

/// Looks before a thread sleeps, with a yield between them: some 0.1 ms, more than a program needs
/// between two calls in a row, less than anybody would notice of a busy CPU.
constexpr int kLooks = 256;

/// Sleepers that one thread wakes. Waking takes microseconds: many threads are woken by each other.
constexpr std::uint32_t kWakes = 2;

/// The threads that wait for runs, and the state that both share.
class Pool {
 public:
  /// Starts as many of the `count` threads as can be had.
  void start(Array<Thread>& threads, std::uint32_t count) {
    while (started_ < count && start_thread(threads[started_], serve, this)) ++started_;
  }
  /// No run is under way or follows.
  void stop(const Array<Thread>& threads) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
    }
    awake_.notify_all();
    for (std::uint32_t i = 0; i < started_; ++i) join_thread(threads[i]);
  }

  void run(std::uint32_t workers, Body body, void* argument) {
    Crew* const crew = started_ > 0 ? take_one(crews_) : nullptr;
    if (crew == nullptr) return body(argument, 0);
    crew->open(workers, body, argument);
    runs_.fetch_add(1);
    wake(*crew);
    body(argument, 0);
    crew->close();
  }

 private:
  static void* serve(void* pool) {
    static_cast<Pool*>(pool)->serve();
    return nullptr;
  }

  void serve() {
    std::uint32_t seen = 0;
    do {
      for (int looks = 0; looks < kLooks; ++looks) {
        const std::uint32_t now = runs_.load(std::memory_order_acquire);
        if (now == seen) {
          std::this_thread::yield();
          continue;
        }
        seen = now;
        for (Crew& crew : crews_) help(crew);
        looks = 0;
      }
    } while (sleep(seen));
  }

  void help(Crew& crew) {
    while (const std::uint32_t worker = crew.enter()) {
      wake(crew);
      crew.work(worker);
    }
  }

  /// Wakes sleepers for a crew that lacks helpers. A thread goes to sleep by counting itself and
  /// then looking for runs; whoever runs counts the run and then looks for sleepers. So one of them
  /// sees the other.
  void wake(const Crew& crew) {
    for (std::uint32_t i = 0; i < kWakes && sleepers_.load() > 0 && crew.has_seats(); ++i) {
      { const std::lock_guard<std::mutex> lock(mutex_); }
      awake_.notify_one();
    }
  }

  /// Sleeps until there are other runs than the ones seen; false at the end.
  bool sleep(std::uint32_t seen) {
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);
    awake_.wait(lock, [&] { return ending_ || runs_.load() != seen; });
    sleepers_.fetch_sub(1);
    return !ending_;
  }

  std::array<Crew, kCrews> crews_;
  std::atomic<std::uint32_t> runs_{0};
  std::atomic<std::uint32_t> sleepers_{0};
  std::uint32_t started_ = 0;
  bool ending_ = false;
  std::mutex mutex_;
  std::condition_variable awake_;
};

/// The calling thread works, and the pool's threads come to help. In the child of a fork the first
/// run begins a pool of its own, as the parent's threads stayed behind, and its locks as they were.
class ThreadsExecutor final : public Executor {
 public:
  ThreadsExecutor(const heed_allocator& allocator, std::uint32_t threads)
      : threads_(allocator, threads - 1) {
    watch_forks();
    begin(forks());
  }
  ~ThreadsExecutor() override {
    if (begun_.load(std::memory_order_acquire) != forks()) return;
    pool_.stop(threads_);
    pool_.~Pool();
  }
  ThreadsExecutor(const ThreadsExecutor&) = delete;
  ThreadsExecutor& operator=(const ThreadsExecutor&) = delete;

  void run(std::uint32_t workers, Body body, void* argument) const override {
    if (!has_pool()) return body(argument, 0);
    pool_.run(workers, body, argument);
  }

 private:
  /// Whether this process has its pool; another thread may be about to begin it.
  bool has_pool() const {
    const std::uint32_t now = forks();
    if (begun_.load(std::memory_order_acquire) == now) return true;
    std::uint32_t claimed = claimed_.load(std::memory_order_relaxed);
    if (claimed == now || !claimed_.compare_exchange_strong(claimed, now)) return false;
    begin(now);
    return true;
  }

  void begin(std::uint32_t now) const {
    new (&pool_) Pool;
    pool_.start(threads_, static_cast<std::uint32_t>(threads_.size()));
    begun_.store(now, std::memory_order_release);
  }

  mutable Array<Thread> threads_;
  mutable std::atomic<std::uint32_t> claimed_{0};  ///< the fork after which somebody begins a pool
  mutable std::atomic<std::uint32_t> begun_{0};    ///< and has begun it
  union {
    mutable Pool pool_;
  };
};

}  // namespace

const ExecutorKind kThreadsExecutor = ExecutorKind::of<ThreadsExecutor>("threads");

}  // namespace heed
