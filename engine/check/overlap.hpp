// Whether tensors share memory, whatever their strides.
#pragma once

#include <cstddef>

#include "engine/check/operands.hpp"

namespace heed {

/// Whether a byte belongs to both. Exact for the layouts that occur. Only where a search would take
/// too long is the answer no without proof.
bool overlap(const Operand& a, const Operand& b);

/// Throws if an output overlaps another operand, or the workspace overlaps any.
void refuse_overlaps(const Operands& all, const void* workspace, std::size_t bytes);

}  // namespace heed
