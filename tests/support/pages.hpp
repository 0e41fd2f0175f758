// Keys and values in pages, and the same ones one after the other.
#pragma once

#include "tests/problem/attention.hpp"

namespace heed_test {

/// A block table of the problem, whose keys lie in pages: any order of those that its sequences
/// need, some of them shared if `share`, or if there are too few. What nobody may read is no page.
std::vector<std::int32_t> draw_block_table(Problem& p, bool share, std::uint64_t seed);

/// The same problem, its keys, which are not packed, in pages of a pool in any order. Some pages
/// are nobody's, and if `share` some are shared: other keys than the problem's, those that were
/// written last. What nobody may read is NaN, and no page in the table.
Problem paged(const Problem& p, Random& random, bool share);

/// The same problem, its keys one after the other; those past a length are NaN. What is not in
/// pages stays as it is.
Problem contiguous(const Problem& p);

}  // namespace heed_test
