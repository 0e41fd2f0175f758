// A plan of C, with what it says of itself and the memory that its runs need.
#pragma once

#include "api/python/module/context.hpp"
#include "api/python/module/gil.hpp"
#include "api/python/module/workspaces.hpp"

namespace heed::python {

/// The functions of one kind of plan.
template <class Plan, class Info, class Args>
struct PlanFunctions {
  void (*destroy)(Plan*);
  heed_status (*describe)(const Plan*, Info*);
  heed_status (*run)(const Plan*, const Args*, void*, std::size_t);
};

template <class Plan, class Info, class Args>
class CPlan {
 public:
  using Functions = PlanFunctions<Plan, Info, Args>;

  /// `create(context, &plan)` makes it.
  template <class Create>
  CPlan(const Functions& functions, nb::handle context, Create&& create)
      : functions_(functions), plan_(made(context, create)), workspaces_(info().workspace_bytes) {}
  ~CPlan() { functions_.destroy(plan_); }
  CPlan(const CPlan&) = delete;
  CPlan& operator=(const CPlan&) = delete;

  Info info() const {
    Info info{};
    info.struct_size = sizeof info;
    check(functions_.describe(plan_, &info));
    return info;
  }

  /// Raises what C refuses, but not yet what a score function raised.
  void run(const Args& args, double flops, const ScoreFunction& scores) const {
    const Workspace workspace = workspaces_.take();
    check(without_gil(flops, scores, [&] {
      return functions_.run(plan_, &args, workspace.get(), workspaces_.bytes());
    }));
  }

 private:
  template <class Create>
  static Plan* made(nb::handle context, Create& create) {
    Plan* plan = nullptr;
    check(create(hold_context(context).context, &plan));
    return plan;
  }

  Functions functions_;
  Plan* plan_;
  mutable Workspaces workspaces_;
};

}  // namespace heed::python
