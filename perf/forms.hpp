// The forms of attention and what the project promises of their speed.
#pragma once

#include <string>
#include <vector>

#include "perf/workload.hpp"

namespace heed::perf {

/// A row for every form; what --forms runs by default.
extern const std::vector<std::string> kFormWorkloads;

/// What a form is held against: the rate of useful flops of the plain workload, or its time.
struct Target {
  double rate = 0;  ///< at least this much of it; 0: nothing is promised
  double time = 0;  ///< at most this much of it; 0: nothing is promised
};
Target target_of(const Workload& workload);

}  // namespace heed::perf
