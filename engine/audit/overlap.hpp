// Whether tensors share memory, whatever their strides.
#pragma once

#include <cstddef>

#include "engine/audit/tensors.hpp"

namespace heed {

/// Whether a byte belongs to both. Exact for the layouts that occur. Only where a search would take
/// too long is the answer no without proof.
bool overlap(const GivenTensor& a, const GivenTensor& b);

/// Throws if an output overlaps another tensor, or the workspace, which may be nullptr, any.
void refuse_overlaps(const GivenTensor* begin, const GivenTensor* end,
                     const GivenTensor* workspace);

}  // namespace heed
