// Random problems, each from a seed of its own.
#pragma once

#include <cstdint>

#include "tests/support/checks.hpp"

namespace heed_test {

/// Calls check(problem, seed) for the problems that draw(seed) draws; check says whether there was
/// something to see, which `at_least` so many of the full number must have.
template <class Draws, class Check>
void check_drawn(std::size_t full, std::size_t at_least, Draws&& draw, Check&& check) {
  std::size_t seen = 0;
  for (std::uint64_t seed = 1; seed <= count(full); ++seed) {
    auto problem = draw(seed);
    INFO("seed " << seed << ": " << line_of(problem));
    seen += check(problem, seed) ? 1 : 0;
  }
  CHECK((small() || seen >= at_least));
}

}  // namespace heed_test
