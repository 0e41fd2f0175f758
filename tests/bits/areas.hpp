// The areas that two libraries are compared in. An area and a seed make a problem, always the same.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/bits/record.hpp"
#include "tests/support/calls.hpp"

namespace heed_test {

/// What is drawn from a seed, and what the library makes of it on every instruction set.
struct Area {
  const char* name;
  const char* what;
  std::uint64_t problems;  ///< of a full comparison: the seeds from 1 on
  void (*run)(std::uint64_t seed, Contexts& contexts, Record& record);
};

const std::vector<Area>& areas();

/// Calls with something wrong in them: what they are refused with, and what they wrote.
void run_refused(std::uint64_t seed, Contexts& contexts, Record& record);

}  // namespace heed_test
