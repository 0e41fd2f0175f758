// Checked mode: what looks for callers' mistakes around a run, or before one.
#pragma once

#include "engine/audit/tensors.hpp"
#include "engine/audit/workspace.hpp"
#include "engine/cache/append.hpp"
#include "engine/cache/attention.hpp"
#include "engine/dense/backward/plan.hpp"
#include "engine/dense/merge.hpp"
#include "engine/dense/plan.hpp"
#include "engine/dense/rotate.hpp"
#include "engine/graph/backward/plan.hpp"
#include "engine/graph/plan.hpp"
#include "engine/multihead/backward/plan.hpp"
#include "engine/multihead/plan.hpp"
#include "engine/projection/project.hpp"

namespace heed {

/// The tensors of a run. Throws as the run does unless its arguments make sense.
Audit audit_of(const heed_attention_plan& plan, const heed_attention_args& args,
               const CheckedWorkspace& workspace);
Audit audit_of(const heed_attention_backward_plan& plan, const heed_attention_backward_args& args,
               const CheckedWorkspace& workspace);
Audit audit_of(const heed_multihead_plan& plan, const heed_multihead_args& args,
               const CheckedWorkspace& workspace);
Audit audit_of(const heed_multihead_backward_plan& plan, const heed_multihead_backward_args& args,
               const CheckedWorkspace& workspace);
Audit audit_of(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
               const CheckedWorkspace& workspace);
Audit audit_of(const heed_graph_attention_backward_plan& plan,
               const heed_graph_attention_backward_args& args, const CheckedWorkspace& workspace);

/// Before calls without a plan, whose arguments have been validated: throw what is certainly wrong,
/// and tell on stderr what looks odd.
void audit_merge(const heed_context& context, const MergeProblem& problem, const Merge& merge);
void audit_rotate(const heed_context& context, const RotateProblem& problem, const Rotate& rotate);
void audit_project(const heed_context& context, const ProjectProblem& problem,
                   const Project& project);
void audit_weights(const heed_context& context, const MatrixToPrepare& given);
void audit_append(const heed_cache& cache, const Append& append);
/// Tells of rows of a prompt that attend those after them, which is rarely meant.
void audit_cache_attention(const CacheAttention& attention);
/// Throws if int64 edges are given as int32 ones, and tells if they may be, or if numbers seem to
/// be forgotten. `desc` has the arrays that it needs.
void audit_edges(const heed_graph_desc& desc);

}  // namespace heed
