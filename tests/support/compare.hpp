// Outputs beside the oracle's, for whoever tells of the difference.
#pragma once

#include <string>
#include <vector>

#include "tests/oracle/dense.hpp"
#include "tests/support/tensor.hpp"

namespace heed_test {

/// Whether a test may meet elements that nobody can bound; by accident none does.
enum class Unspecified { kForbidden, kAllowed };

/// How an output compares with the oracle.
struct Comparison {
  double ratio;       ///< the worst error / bound
  std::string wrong;  ///< what is wrong, in words; empty: nothing
};

/// Compares an output, element by element; `what` begins the words.
Comparison compare_elements(const std::string& what, const Numbers& got,
                            const std::vector<Element>& want, Unspecified unspecified);

/// What out should be, with the rows that hard attention seems to have chosen.
std::vector<Element> chosen(const Numbers& got, const Expected& expected);

}  // namespace heed_test
