// Whether tensors share memory, whatever their strides.
#pragma once

#include <cstddef>

#include "engine/check/operands.hpp"

namespace heed {

/// Whether a byte belongs to both. Exact for the layouts that occur: where a search would take too
/// long, and for those alone, the answer is that none does.
bool overlap(const Operand& a, const Operand& b);

/// Throws where an output overlaps another operand, or the workspace any of them.
void refuse_overlaps(const Operands& all, const void* workspace, std::size_t bytes);

}  // namespace heed
