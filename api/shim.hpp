// Wraps every function of the C API.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
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

// ---- The functions of all plans --------------------------------------------------------------

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

/// Runs a plan in a workspace of its own, which is given back whatever happens.
template <class Plan, class Args>
void run_alone(const Plan& plan, const Args* args) {
  static_assert(HEED_WORKSPACE_ALIGNMENT <= kAlignment);
  Array<std::byte> workspace(plan.context->allocator, static_cast<std::int64_t>(lent_bytes(plan)));
  run(plan, args, workspace.data(), workspace.bytes());
}

/// The plan that a descriptor asks for; over a graph, whose pointer comes before it.
template <class Desc>
auto plan_of(const heed_context& context, const Desc* desc) {
  return make_plan(context, validate(read_struct(desc, "desc")));
}
template <class Desc>
auto plan_of(const heed_context& context, const heed_graph* given, const Desc* desc) {
  const heed_graph& graph = required(given, "graph");
  return make_plan(context, graph, validate(graph, read_struct(desc, "desc")));
}

/// Makes the plan, runs it, and keeps nothing.
template <class Args, class... Given>
heed_status run_once(const Args* args, const heed_context* context, const Given*... given) {
  return guarded([&] { run_alone(plan_of(required(context, "context"), given...), args); });
}

/// The plan then shares what it refers to.
template <class Plan, class... Given>
heed_status create_plan(Plan** plan, const heed_context* context, const Given*... given) {
  return guarded([&] {
    const heed_context& c = required(context, "context");
    Plan*& result = required(plan, "plan");
    result = make<Plan>(c.allocator, plan_of(c, given...));
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

}  // namespace heed

// NOLINTBEGIN(bugprone-macro-parentheses): they are parts of names
/// The functions of an operation's plans that are the same for all operations.
#define HEED_PLAN_FUNCTIONS(operation)                                                             \
  void operation##_plan_destroy(operation##_plan* plan) { heed::destroy_plan(plan); }              \
  heed_status operation##_plan_workspace(const operation##_plan* plan, size_t* bytes) {            \
    return heed::guarded(                                                                          \
        [&] { heed::required(bytes, "bytes") = heed::lent_bytes(heed::required(plan, "plan")); }); \
  }                                                                                                \
  heed_status operation##_plan_run(const operation##_plan* plan, const operation##_args* args,     \
                                   void* workspace, size_t workspace_bytes) {                      \
    return heed::guarded(                                                                          \
        [&] { heed::run(heed::required(plan, "plan"), args, workspace, workspace_bytes); });       \
  }
// NOLINTEND(bugprone-macro-parentheses)
