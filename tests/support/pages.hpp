// Keys and values in pages, and the same ones one after the other.
#pragma once

#include "tests/support/problem.hpp"

namespace heed_test {

/// The same problem, but for its keys: they lie in pages of a pool, in any order. Some pages are
/// nobody's; some are shared and hold what was written last, by another sequence maybe. What nobody
/// may read is NaN, and no page in the table. Its keys are not packed.
Problem paged(const Problem& p, Random& random);

/// The same problem, its keys one after the other; those past a length are NaN. What is not in
/// pages stays as it is.
Problem contiguous(const Problem& p);

}  // namespace heed_test
