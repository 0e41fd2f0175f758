// Contexts, plans, graphs and prepared matrices are immutable: many threads use the same ones at
// once, and each lives as long as somebody needs it.
#include <thread>

#include "tests/api/problems.hpp"

using namespace api_test;

namespace {

int repeats(int full) { return heed_test::brief() ? 1 : full; }

}  // namespace

TEST_CASE("all is made, run and destroyed on many threads, of own and of shared things",
          "[concurrency][threads]") {
  const auto check = [](const Kind& kind, const std::vector<unsigned char>& want,
                        const Context& context) {
    const std::unique_ptr<Form> shared = kind.problem();
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
        const std::unique_ptr<Form> own = kind.problem();
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
  };
  const Environment quiet;
  for (const Kind& kind : kinds()) {
    const std::vector<unsigned char> want = expected(kind);
    for (const std::string& name : executors()) {
      CAPTURE(kind.name, name);
      check(kind, want, make_context(nullptr, {name.c_str(), 2}));
    }
  }
}

TEST_CASE("errors on many threads do not mix", "[concurrency][threads]") {
  const auto refuse = [](int index) {
    heed_isa_info info = HEED_ISA_INFO_INIT;
    const heed_status status = heed_isa_get(static_cast<std::size_t>(index), &info);
    return status == HEED_STATUS_INVALID_ARGUMENT &&
           std::string(heed_last_error()).find("index is " + std::to_string(index) + ";") == 0;
  };
  REQUIRE(refuse(999));
  CHECK(on_all_threads([&](int t) {
    if (heed_last_error()[0] != '\0') return false;
    for (int repeat = 0; repeat < 1000; ++repeat)
      if (!refuse(1000 + t)) return false;
    return true;
  }));
  CHECK(std::string(heed_last_error()).find("index is 999;") == 0);
}

TEST_CASE("what is made outlives what it was made of, and the last of all takes the context along",
          "[concurrency][threads]") {
  const Environment quiet;
  for (const Kind& kind : kinds()) {
    const std::vector<unsigned char> want = expected(kind);
    for (const std::string& name : executors())
      for (const bool plans_first : {false, true}) {
        CAPTURE(kind.name, name, plans_first);
        CountingAllocator memory;  // not for threads itself: all is made and destroyed in turn
        heed_context_options options = memory.options();
        Context maker = make_context(&options);
        options.executor_name = name.c_str();
        options.threads = 2;
        Context context = make_context(&options);
        const std::unique_ptr<Form> problem = kind.problem();
        std::vector<Object> all(2);
        REQUIRE(problem->prepare(maker) == HEED_STATUS_OK);
        maker.reset();
        for (Object& plan : all) REQUIRE(problem->create(context, plan) == HEED_STATUS_OK);
        context.reset();
        if (!plans_first) problem->graph.reset();
        CHECK(problem->describe(all[0]).executor == name);
        for (const Object& plan : all) CHECK(problem->gives(plan, want));
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
}
