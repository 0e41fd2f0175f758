// Contexts and plans of the C API, owned, and what runs a plan.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/heed.h"
#include "perf/options.hpp"
#include "tests/support/calls.hpp"

namespace heed::perf {

namespace oracle = heed_test;

using oracle::Workspace;
using Context = std::shared_ptr<const oracle::Context>;

/// An empty isa is automatic, and so are 0 threads. Throws std::runtime_error.
Context make_context(const Options& options, const std::string& isa, unsigned threads);
heed_context_info describe(const Context& context);

/// What the library takes when it is left to choose: the CPUs of this process, or HEED_THREADS.
unsigned automatic_threads();

/// Calls heed; owns all that a call needs. Throws std::runtime_error.
using Runner = std::function<void()>;

/// A plan, and what it tells.
template <class Desc>
class MadePlan {
  using Plan = typename oracle::PlanOf<Desc>::Plan;
  using Functions = oracle::Functions<Plan>;

 public:
  using Args = typename Functions::Args;
  using Info = typename Functions::Info;

  explicit MadePlan(oracle::Owned<Plan> plan)
      : info_(oracle::describe(plan)), plan_(std::move(plan)) {}

  const Info& info() const { return info_; }

  /// Runs it with each of these arguments, in one workspace. `owner` holds what they point at.
  Runner runner(std::vector<Args> all, std::shared_ptr<const void> owner) const {
    const auto workspace = std::make_shared<Workspace>(info_.workspace_bytes);
    return [plan = plan_, workspace, owner = std::move(owner), all = std::move(all)] {
      for (const Args& args : all)
        oracle::require_ok(Functions::run(plan.get(), &args, workspace->get(), workspace->bytes()));
    };
  }

 private:
  Info info_;
  std::shared_ptr<Plan> plan_;
};

template <class Desc>
MadePlan<Desc> planned(const Context& context, const Desc& desc) {
  return MadePlan<Desc>(oracle::make_plan(*context, desc));
}
/// It holds the graph.
template <class Desc>
MadePlan<Desc> planned(const Context& context, const oracle::Graph& graph, const Desc& desc) {
  return MadePlan<Desc>(oracle::make_plan(*context, graph, desc));
}

}  // namespace heed::perf
