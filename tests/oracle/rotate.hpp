// The oracle of heed_rotate: pairs of features times a rotation.
#pragma once

#include <cstdint>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/element.hpp"
#include "tests/oracle/inputs.hpp"

namespace heed_test {

/// The result and its bounds, in the order [batch, head, row, feature]. positions is [batch, row]
/// or nullptr.
std::vector<Element> expect_rotate(const heed_rotate_desc& desc, const Source& from,
                                   const std::int64_t* positions);

}  // namespace heed_test
