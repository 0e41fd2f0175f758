// The oracle of heed_merge: a mean of the parts weighted with e^lse.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/reference/element.hpp"
#include "tests/support/tensor.hpp"

namespace heed_test {

/// Both outputs and their bounds, in the order [batch, head, row, feature].
struct MergeExpected {
  std::vector<Element> out, lse;
};

/// Parts [batch, heads, rows, features] with their log-sum-exps [batch, heads, rows, 1].
MergeExpected expect_merge(const std::vector<Tensor>& outs, const std::vector<Tensor>& lses,
                           std::uint32_t out_dtype, std::uint32_t lse_dtype);

}  // namespace heed_test
