// Wraps every function of the C API.
#pragma once

#include <chrono>
#include <type_traits>

#include "api/heed.h"
#include "engine/audit/audit.hpp"
#include "engine/context/context.hpp"
#include "engine/dense/backward/plan.hpp"
#include "engine/dense/plan.hpp"
#include "engine/graph/backward/plan.hpp"
#include "engine/graph/plan.hpp"
#include "engine/multihead/backward/plan.hpp"
#include "engine/multihead/plan.hpp"
#include "engine/runtime/allocator.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/structs.hpp"

namespace heed {

// ---- What the functions of all plans do ------------------------------------------------------

/// The bytes of workspace that callers must bring.
template <class Plan>
std::size_t lent_bytes(const Plan& plan) {
  return with_canaries(*plan.context, plan.workspace_bytes());
}

/// Runs a plan: in a checked context between the audits of engine/audit, in a verbose one with a
/// line on stderr.
template <class Plan, class Args>
void run(const Plan& plan, const Args* args, void* workspace, std::size_t bytes) {
  const Args known = read_struct(args, "args");
  const auto run_and_tell = [&](void* memory, std::size_t size) {
    const auto start = std::chrono::steady_clock::now();
    run_plan(plan, known, memory, size);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    print_run(plan, known, elapsed.count());
  };
  const auto run_once = [&](void* memory, std::size_t size) {
    plan.context->verbose ? run_and_tell(memory, size) : run_plan(plan, known, memory, size);
  };
  if (!plan.context->checked) return run_once(workspace, bytes);
  const CheckedWorkspace lent(plan.workspace_bytes(), workspace, bytes);
  const Audit audit = audit_of(plan, known, lent);
  audit.before(lent.begin(), lent.bytes());
  lent.place_canaries();
  run_once(lent.get(), plan.workspace_bytes());
  lent.check_canaries();
  audit.after();
}

/// Whether plans of this type hold a graph.
template <class Plan>
inline constexpr bool kHoldsGraph = std::is_same_v<Plan, heed_graph_attention_plan> ||
                                    std::is_same_v<Plan, heed_graph_attention_backward_plan>;

/// The workspace of a one-call run, given back whatever happens.
template <class Plan>
class OwnedWorkspace {
 public:
  explicit OwnedWorkspace(const Plan& plan)
      : allocator_(plan.context->allocator),
        bytes_(lent_bytes(plan)),
        memory_(bytes_ == 0 ? nullptr : allocate(allocator_, bytes_, HEED_WORKSPACE_ALIGNMENT)) {}
  ~OwnedWorkspace() {
    if (memory_ != nullptr) allocator_.release(allocator_.user, memory_, bytes_);
  }
  OwnedWorkspace(const OwnedWorkspace&) = delete;
  OwnedWorkspace& operator=(const OwnedWorkspace&) = delete;
  void* get() const { return memory_; }
  std::size_t bytes() const { return bytes_; }

 private:
  const heed_allocator& allocator_;
  const std::size_t bytes_;
  void* const memory_;
};

/// `plan_of(context)` makes the plan, which then shares what it refers to.
template <class Plan, class PlanOf>
heed_status create_plan(const heed_context* context, Plan** plan, PlanOf&& plan_of) {
  return guarded([&] {
    const heed_context& c = required(context, "context");
    Plan*& result = required(plan, "plan");
    result = make<Plan>(c.allocator, plan_of(c));
    share(c);
    if constexpr (kHoldsGraph<Plan>) share(*result->graph);
  });
}

template <class Plan>
void destroy_plan(Plan* plan) {
  if (plan == nullptr) return;
  const heed_context* const context = plan->context;
  [[maybe_unused]] const heed_graph* graph = nullptr;
  if constexpr (kHoldsGraph<Plan>) graph = plan->graph;
  destroy(context->allocator, plan);
  if constexpr (kHoldsGraph<Plan>) release(graph);
  release(context);
}

/// Fills in what the infos of all plans have.
template <class Plan, class Info>
void describe_plan(const Plan& plan, Info& info) {
  info.isa = plan.context->kernels->f32.isa;
  info.executor = plan.context->threads.name;
  info.workspace_bytes = lent_bytes(plan);
}

template <class Plan>
heed_status tell_workspace(const Plan* plan, std::size_t* bytes) {
  return guarded([&] { required(bytes, "bytes") = lent_bytes(required(plan, "plan")); });
}

}  // namespace heed
