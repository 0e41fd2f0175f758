// Checked mode: what looks for callers' mistakes around a run, or before one.
#pragma once

#include <cstddef>

#include "engine/audit/tensors.hpp"
#include "engine/cache/attention.hpp"
#include "engine/cache/sequences.hpp"
#include "engine/context/context.hpp"
#include "engine/dense/backward/plan.hpp"
#include "engine/dense/merge.hpp"
#include "engine/dense/plan.hpp"
#include "engine/dense/rotate.hpp"
#include "engine/graph/backward/plan.hpp"
#include "engine/graph/plan.hpp"
#include "engine/multihead/backward/plan.hpp"
#include "engine/multihead/plan.hpp"
#include "engine/projection/matmul.hpp"

namespace heed {

/// Bytes of canaries on either side of what a run uses; a multiple of HEED_WORKSPACE_ALIGNMENT.
inline constexpr std::size_t kCanaryBytes = 1024;

/// The bytes that callers must bring for a run that uses this many.
inline std::size_t with_canaries(const heed_context& context, std::size_t used) {
  return context.checked && used > 0 ? used + 2 * kCanaryBytes : used;
}

/// Memory that no other run may use while this object lives.
class CheckedWorkspace {
 public:
  /// Throws unless the memory is large enough, aligned, and not in use.
  CheckedWorkspace(std::size_t used, void* memory, std::size_t bytes);
  ~CheckedWorkspace();
  CheckedWorkspace(const CheckedWorkspace&) = delete;
  CheckedWorkspace& operator=(const CheckedWorkspace&) = delete;

  /// The memory that the run may use.
  std::byte* get() const { return canaries_ == 0 ? nullptr : begin_ + canaries_; }
  /// With the canaries.
  const void* begin() const { return begin_; }
  std::size_t bytes() const { return used_ + 2 * canaries_; }

  void place_canaries() const;
  /// Throws if a canary has changed since.
  void check_canaries() const;

 private:
  bool shares_memory_with(const CheckedWorkspace& other) const {
    return begin_ < other.begin_ + other.bytes() && other.begin_ < begin_ + bytes();
  }

  const std::size_t used_;
  const std::size_t canaries_;
  std::byte* const begin_;
  CheckedWorkspace* next_ = nullptr;  ///< in the list of workspaces in use
};

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
