// Plans of any kind: whether they may have been made, and workspaces for their runs.
#pragma once

#include <initializer_list>

#include "tests/fuzz/check.hpp"

namespace heed_test {

inline heed_status workspace_of(const heed_attention_plan* plan, std::size_t* bytes) {
  return heed_attention_plan_workspace(plan, bytes);
}
inline heed_status workspace_of(const heed_attention_backward_plan* plan, std::size_t* bytes) {
  return heed_attention_backward_plan_workspace(plan, bytes);
}
inline heed_status workspace_of(const heed_multihead_plan* plan, std::size_t* bytes) {
  return heed_multihead_plan_workspace(plan, bytes);
}
inline heed_status workspace_of(const heed_multihead_backward_plan* plan, std::size_t* bytes) {
  return heed_multihead_backward_plan_workspace(plan, bytes);
}
inline heed_status workspace_of(const heed_graph_attention_plan* plan, std::size_t* bytes) {
  return heed_graph_attention_plan_workspace(plan, bytes);
}
inline heed_status workspace_of(const heed_graph_attention_backward_plan* plan,
                                std::size_t* bytes) {
  return heed_graph_attention_backward_plan_workspace(plan, bytes);
}

/// Whether there is something made. If not, the refusal was as it should be, and there was a
/// reason.
template <class Made>
bool planned(heed_status status, const Made* made, bool damaged,
             std::initializer_list<const char*> fields) {
  demand((status == HEED_STATUS_OK) == (made != nullptr), "made or refused, but not both");
  if (status == HEED_STATUS_OK) return true;
  if (!damaged) check_accepted(status);
  check_refused(status, fields);
  return false;
}

/// The workspace of a run, seldom too small, missing or misaligned.
class RunSpace {
 public:
  template <class AnyPlan>
  RunSpace(Draw& draw, const AnyPlan* plan) : needed_(needed(plan)), memory_(needed_) {
    bytes_ = needed_;
    pointer_ = memory_.get();
    if (!draw.one_in(16) || needed_ == 0) return;
    const std::uint32_t kind = draw.choice(2);
    if (kind == 0)
      bytes_ -= static_cast<std::size_t>(draw.integer(1, static_cast<std::int64_t>(needed_)));
    if (kind == 1) pointer_ = nullptr;
    if (kind == 2) pointer_ = static_cast<unsigned char*>(pointer_) + draw.integer(1, 63);
    enough_ = false;
  }

  void* get() const { return pointer_; }
  std::size_t bytes() const { return bytes_; }
  /// Whether a run has to take it.
  bool enough() const { return enough_; }

 private:
  template <class AnyPlan>
  static std::size_t needed(const AnyPlan* plan) {
    std::size_t bytes = 0;
    require_ok(workspace_of(plan, &bytes));
    return bytes;
  }

  std::size_t needed_;
  Workspace memory_;
  std::size_t bytes_;
  void* pointer_;
  bool enough_ = true;
};

/// Whether a run was accepted. If not, the refusal was as it should be, and there was a reason:
/// something in the run that is not `valid`, or its workspace.
inline bool ran(heed_status status, const RunSpace& space, bool valid) {
  if (status == HEED_STATUS_OK) {
    demand(space.enough(), "a workspace that is too small is accepted");
    return true;
  }
  if (valid && space.enough()) check_accepted(status);
  check_refused(status, {"args.", "workspace"});
  return false;
}

}  // namespace heed_test
