// Time on a shared machine.
#pragma once

#include <ctime>

namespace heed::perf {

/// The time of the calling thread on its CPU where it works alone, so that what other programs do
/// meanwhile counts for nothing; real time where a problem is shared between threads.
class Stopwatch {
 public:
  explicit Stopwatch(bool alone) : clock_(alone ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC) {}

  void start() { start_ = now(); }
  double seconds() const { return now() - start_; }

 private:
  double now() const {
    timespec t{};
    clock_gettime(clock_, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  clockid_t clock_;
  double start_ = 0;
};

}  // namespace heed::perf
