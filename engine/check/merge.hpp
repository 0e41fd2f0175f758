// What checked merges look at.
#pragma once

#include "engine/dense/merge.hpp"

namespace heed {

/// Tells of sizes of 0 although there is something to merge into.
void check_empty_merge(const heed_merge_desc& desc, const Merge& merge);

/// Throws where outputs overlap what they must not, and tells on stderr what looks odd. The
/// pointers are known to be there.
void check_merge(const heed_context& context, const heed_merge_desc& desc,
                 const MergeLayouts& layouts, const Merge& merge);

}  // namespace heed
