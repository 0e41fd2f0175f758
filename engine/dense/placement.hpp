// Queries and results in panels, for callers within heed (Placement::kPanels):
// [batch][panel][width][pitch] as in projection/rows.hpp, the features of the heads one after the
// other. Queries are scaled already, and 0 in lanes without a row.
#pragma once

#include <cstdint>

#include "engine/dense/plan.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {

/// The part [features][pitch] of such panels that holds the rows of `panel` and the features of its
/// head.
template <class Real>
Real* of_head(Real* panels, const heed_attention_plan& plan, const Panel<Real>& panel,
              std::int64_t batch, std::int64_t features) {
  const std::int64_t lanes = kernels_of<Real>(*plan.context->kernels).panels.lanes;
  const std::int64_t width =
      round_up(plan.problem.query_heads * features, PanelGeometry::row_padding);
  const std::int64_t before = batch * round_up(plan.problem.query_length, lanes) + panel.first;
  return panels + before * width +
         panel.pack->head * features * static_cast<std::int64_t>(panel.pitch);
}

}  // namespace heed
