// The oracle of heed_merge: a mean of the parts weighted with e^lse.
#pragma once

#include <cstdint>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/dense.hpp"

namespace heed_test {

/// Both outputs and their bounds, in the order [batch, head, row, feature], of parts [batch, heads,
/// rows, features] with their log-sum-exps [batch, heads, rows, 1].
Expected expect_merge(const heed_merge_desc& desc, const std::vector<Source>& outs,
                      const std::vector<Source>& lses);

}  // namespace heed_test
