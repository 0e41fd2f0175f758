// The checks around a checked run.
#pragma once

#include "engine/dense/backward/plan.hpp"
#include "engine/check/workspace.hpp"
#include "engine/dense/plan.hpp"
#include "engine/graph/backward/plan.hpp"
#include "engine/graph/plan.hpp"
#include "engine/multihead/backward/plan.hpp"
#include "engine/multihead/plan.hpp"

namespace heed {

/// Throw what is certainly wrong, and tell on stderr what looks odd.
void check_before(const heed_attention_plan& plan, const heed_attention_args& args,
                  const CheckedWorkspace& workspace);
void check_before(const heed_attention_backward_plan& plan,
                  const heed_attention_backward_args& args, const CheckedWorkspace& workspace);
void check_before(const heed_multihead_plan& plan, const heed_multihead_args& args,
                  const CheckedWorkspace& workspace);
void check_before(const heed_multihead_backward_plan& plan,
                  const heed_multihead_backward_args& args, const CheckedWorkspace& workspace);
void check_before(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
                  const CheckedWorkspace& workspace);
void check_before(const heed_graph_attention_backward_plan& plan,
                  const heed_graph_attention_backward_args& args,
                  const CheckedWorkspace& workspace);

/// Tell what looks odd about the result.
void check_after(const heed_attention_plan& plan, const heed_attention_args& args);
void check_after(const heed_attention_backward_plan& plan,
                 const heed_attention_backward_args& args);
void check_after(const heed_multihead_plan& plan, const heed_multihead_args& args);
void check_after(const heed_multihead_backward_plan& plan,
                 const heed_multihead_backward_args& args);
void check_after(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args);
void check_after(const heed_graph_attention_backward_plan& plan,
                 const heed_graph_attention_backward_args& args);

}  // namespace heed
