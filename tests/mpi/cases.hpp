// Problems that tests split over ranks: every option of attention alone.
#pragma once

#include <vector>

#include "tests/mpi/ranks.hpp"

namespace heed_test {

struct Case {
  const char* name;
  Sizes sizes;
  void (*set)(Problem&) = [](Problem&) {};
};

Sizes causal(Sizes sizes, heed_causal causal, std::int64_t offset = 0);

const std::vector<Case>& cases();

/// Filled, and with lse.
Problem made(const Case& c, std::uint64_t seed);

/// Two sequences in packed rows, in two words: as rows whose mask keeps sequences apart, and as
/// such a batch with the rest of the mask. With a bias.
struct TwoWords {
  Problem masked, packed;
};
TwoWords packed_and_masked(std::uint64_t seed);

/// Whether so many ranks next to each other may share the heads of a problem.
bool heads_may_be_shared(const Problem& p, std::int64_t by);

}  // namespace heed_test
