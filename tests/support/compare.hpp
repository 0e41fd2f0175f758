// Outputs beside the oracle's, for whoever tells of the difference.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tests/oracle/dense.hpp"
#include "tests/problem/attention.hpp"

namespace heed_test {

/// Whether a test may meet elements that nobody can bound; by accident none does.
enum class Unspecified { kForbidden, kAllowed };

/// How an output compares with the oracle.
struct Comparison {
  double ratio;       ///< the worst error / bound
  std::string wrong;  ///< what is wrong, in words; empty: nothing
};

/// Compares an output of this shape, element by element; `what` begins the words.
Comparison compare_elements(const std::string& what, const Axes& shape, const Numbers& got,
                            const std::vector<Element>& want, Unspecified unspecified);

/// What out should be, with the rows that hard attention seems to have chosen.
std::vector<Element> chosen(const Numbers& got, const Expected& expected);

/// The worst error / bound of every output; 0 where it is not asked for.
struct Ratios {
  double out = 0;
  double lse = 0;
  double weights = 0;
  double column_sums = 0;

  double worst() const { return std::max({out, lse, weights, column_sums}); }
};

}  // namespace heed_test
