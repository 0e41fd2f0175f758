// A block of plain attention in a few loops over float64, as a textbook has it.
#pragma once

#include <vector>

#include "tests/multihead/block.hpp"

namespace heed_test {

using Rows = std::vector<std::vector<double>>;

/// out, [batch, row, feature]. Of the attention only sizes count.
std::vector<double> plainly(const Block& block);

}  // namespace heed_test
