// The same function on many threads at once.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace api_test {

inline constexpr int kThreads = 8;

/// Runs function(t) on kThreads threads at once. Catch's assertions are not for threads:
/// the functions return what they saw, and false fails the test.
template <class Function>
bool on_all_threads(Function function) {
  std::atomic<bool> go{false};
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      while (!go.load()) std::this_thread::yield();
      if (!function(t)) ++bad;
    });
  go = true;
  for (std::thread& thread : threads) thread.join();
  return bad == 0;
}

}  // namespace api_test
