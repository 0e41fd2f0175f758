// Contexts, plans, graphs and prepared matrices are immutable: many threads use the same ones at
// once, and each lives as long as somebody needs it.
#include <thread>

#include "tests/api/problems.hpp"
#include "tests/api/threads.hpp"

using namespace api_test;

namespace {

int repeats(int full) { return heed_test::brief() ? 1 : full; }

/// Calls function(kind, expected, context) for problems of every operation and every executor.
template <class Function>
void each_kind_and_executor(Function&& function) {
  const Environment quiet;
  for (const Kind& kind : kinds()) {
    const std::vector<unsigned char> want = expected(kind);
    for (const std::string& name : executors()) {
      CAPTURE(kind.name, name);
      function(kind, want, make_context(nullptr, name.c_str(), 2));
    }
  }
}

}  // namespace

TEST_CASE("all is made, run and destroyed on many threads, of own and of shared things",
          "[concurrency][threads]") {
  each_kind_and_executor([](const Kind& kind, const auto& want, const Context& context) {
    const std::unique_ptr<Problem> shared = kind.problem();
    Object shared_plan;
    REQUIRE(shared->prepare_and_create(context, shared_plan));
    const std::string name = describe(context).executor;
    CHECK(on_all_threads([&](int t) {
      for (int repeat = 0; repeat < repeats(kind.large ? 3 : 10); ++repeat) {
        const int owned = (t + repeat) % 4;  // nothing, a plan, what it is made of, its context
        heed_context* made = nullptr;
        heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
        options.executor_name = name.c_str();
        options.threads = 2;
        if (owned == 3 && heed_context_create(&options, &made) != HEED_STATUS_OK) return false;
        const Context own_context(made);
        const Context& maker = owned == 3 ? own_context : context;
        const std::unique_ptr<Problem> own = kind.problem();
        if (owned < 2) own->share(*shared);
        if (owned >= 2 && own->prepare(maker) != HEED_STATUS_OK) return false;
        if (owned == 3) {
          if (own->call(maker) != HEED_STATUS_OK || own->outputs() != want) return false;
        }
        Object plan = owned == 0 ? shared_plan : nullptr;
        if (owned > 0 && own->create(maker, plan) != HEED_STATUS_OK) return false;
        if (!own->gives(plan, want)) return false;
      }
      return true;
    }));
  });
}

TEST_CASE("errors on many threads do not mix", "[concurrency][threads]") {
  CHECK(on_all_threads([](int t) {
    const std::string value = "index is " + std::to_string(1000 + t) + ";";
    for (int repeat = 0; repeat < 1000; ++repeat) {
      heed_isa_info info = HEED_ISA_INFO_INIT;
      if (heed_isa_get(static_cast<std::size_t>(1000 + t), &info) != HEED_STATUS_INVALID_ARGUMENT)
        return false;
      if (std::string(heed_last_error()).find(value) != 0) return false;
    }
    return true;
  }));
}

TEST_CASE("plans and prepared matrices outlive graphs and contexts, whatever executes them",
          "[concurrency][threads]") {
  const Environment quiet;
  for (const Kind& kind : kinds()) {
    const std::vector<unsigned char> want = expected(kind);
    for (const std::string& name : executors()) {
      CAPTURE(kind.name, name);
      Context maker = serial();
      Context context = make_context(nullptr, name.c_str(), 2);
      const std::unique_ptr<Problem> problem = kind.problem();
      Object plan, other;
      REQUIRE(problem->prepare(maker) == HEED_STATUS_OK);
      maker.reset();
      REQUIRE(problem->create(context, plan) == HEED_STATUS_OK);
      REQUIRE(problem->create(context, other) == HEED_STATUS_OK);
      context.reset();
      problem->graph.reset();
      CHECK(problem->describe(plan).executor == name);
      CHECK(problem->gives(plan, want));
      plan.reset();
      CHECK(problem->gives(other, want));
      other.reset();
      for (const Object& matrix : problem->matrices) {
        heed_weights_info info = HEED_WEIGHTS_INFO_INIT;
        const auto* const weights = static_cast<const heed_weights*>(matrix.get());
        CHECK(heed_weights_describe(weights, &info) == HEED_STATUS_OK);
        CHECK(info.in > 0);
      }
    }
  }
}

TEST_CASE("the last of all that was made, on whatever thread, takes the context along",
          "[concurrency][threads]") {
  const Environment quiet;
  for (const Kind& kind : kinds())
    for (const bool plans_first : {false, true}) {
      CAPTURE(kind.name, plans_first);
      CountingAllocator memory;  // not for threads itself: all is made and destroyed in turn
      const heed_context_options options = memory.options();
      Context context = make_context(&options);
      const std::unique_ptr<Problem> problem = kind.problem();
      std::vector<Object> all(2);
      REQUIRE(problem->prepare_and_create(context, all[0]));
      REQUIRE(problem->create(context, all[1]) == HEED_STATUS_OK);
      context.reset();
      all.insert(all.end(), problem->matrices.begin(), problem->matrices.end());
      if (problem->graph) all.push_back(problem->graph);
      problem->matrices.clear();
      problem->graph.reset();
      if (plans_first) std::reverse(all.begin(), all.end());
      while (!all.empty()) {
        CHECK(memory.live() > 0);
        std::thread([&] { all.pop_back(); }).join();
      }
      CHECK(memory.live() == 0);
      CHECK(memory.sound());
    }
}
