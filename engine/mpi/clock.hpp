// Where the time of a run goes.
#pragma once

#include <chrono>

namespace heed::mpi {

/// Seconds that one thing took.
class Clock {
 public:
  template <class Function>
  void time(Function&& function) {
    const auto start = std::chrono::steady_clock::now();
    function();
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  double seconds() const { return seconds_; }

 private:
  double seconds_ = 0;
};

}  // namespace heed::mpi
