// What the tests of edges share.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/dense/kinds.hpp"

namespace heed_test {

using Index = std::int64_t;

Sizes sizes_of(Index queries, Index keys, const Types& types = {});

/// Compares all outputs with the oracle on every instruction set.
void check_all(Problem& p, Report* report = nullptr,
               Unspecified unspecified = Unspecified::kForbidden);

bool all_are(const Numbers& numbers, double x);

/// Gives a problem of one feature these scores.
void set_scores(Problem& p, const std::vector<double>& scores);

/// A problem whose weights show themselves: one feature, scale 1, scores as given.
Problem scored(const std::vector<double>& scores, Index queries, const Types& types = {});

/// n scores, small and different.
std::vector<double> mild(std::size_t n);

}  // namespace heed_test
