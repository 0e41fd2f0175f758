// Workspaces: what is refused, that what is asked for suffices, and what checked mode finds.
#include <thread>

#include "tests/api/files.hpp"
#include "tests/api/problems.hpp"
#include "tests/problem/graph_attention.hpp"

using namespace api_test;

namespace {

struct Ready {
  Ready(const Kind& kind, const Context& context) : problem(kind.problem()) {
    REQUIRE(problem->prepare_and_create(context, plan));
    bytes = problem->describe(plan).workspace_bytes;
    std::size_t asked_for = 0;
    CHECK(problem->of.planned->workspace(plan.get(), &asked_for) == HEED_STATUS_OK);
    CHECK(asked_for == bytes);
  }
  void check_refused(const void* workspace, std::size_t given, heed_status expected,
                     const std::string& words) {
    forget_last_error();
    problem->forget_outputs();
    check_refusal(problem->run(plan, const_cast<void*>(workspace), given), expected, words);
    CHECK((expected == HEED_STATUS_INTERNAL || problem->untouched()));
  }
  std::unique_ptr<Form> problem;
  Object plan;
  std::size_t bytes;
};

}  // namespace

TEST_CASE("a workspace that cannot be used is refused", "[workspace]") {
  constexpr auto kInvalid = HEED_STATUS_INVALID_WORKSPACE;
  const Context context = serial();
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    Ready ready(kind, context);
    const std::size_t bytes = ready.bytes;
    REQUIRE(bytes > 0);
    const std::string needed = "needs " + std::to_string(bytes);
    const Workspace workspace(bytes + HEED_WORKSPACE_ALIGNMENT);
    ready.check_refused(nullptr, bytes, kInvalid, "workspace is NULL; this plan " + needed);
    for (const std::size_t given : {std::size_t{0}, std::size_t{1}, bytes - 1}) {
      const std::string value = "workspace_bytes is " + std::to_string(given);
      ready.check_refused(workspace.get(), given, kInvalid, value + "; this plan " + needed);
    }
    for (const int shift : {1, 4, 16, 32, 63})
      ready.check_refused(static_cast<char*>(workspace.get()) + shift, bytes, kInvalid,
                          "workspace is 0x ... must be a multiple of 64");
    CHECK(ready.problem->run(ready.plan, workspace.get(), bytes) == HEED_STATUS_OK);
  }
}

TEST_CASE("checked: a run has the same bits, and a workspace needs some KiB more",
          "[check][files]") {
  const Captured quiet(STDERR_FILENO);
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    const Context context = checked_context(HEED_CHECK_ON);
    Ready plain(kind, checked_context(HEED_CHECK_OFF));
    Ready checked(kind, context);
    CHECK(checked.bytes > plain.bytes);
    CHECK(checked.bytes < plain.bytes + 4096);
    CHECK(checked.problem->run(checked.plan) == HEED_STATUS_OK);
    CHECK(plain.problem->gives(plain.plan, checked.problem->outputs()));
  }
}

TEST_CASE("checked: a workspace that overlaps a tensor is refused", "[check][files]") {
  const Captured quiet(STDERR_FILENO);
  const Context context = checked_context(HEED_CHECK_ON);
  for (const Kind& kind : kinds()) {
    const std::vector<Tensor> tensors = kind.problem()->given_tensors();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].content == Tensor::kGiven) continue;
      CAPTURE(kind.name, tensors[i].name);
      Ready ready(kind, context);
      const Workspace workspace(ready.bytes + tensors[i].bytes());
      std::memset(workspace.get(), 0, workspace.bytes());
      const char* const end = static_cast<char*>(workspace.get()) + ready.bytes;
      const std::string overlaps = "overlaps " + tensors[i].name + ", 0x";
      const Tensor tensor = ready.problem->given_tensors()[i];
      tensor.point_at(end - 8);
      forget_last_error();
      check_refusal(ready.problem->run(ready.plan, workspace.get(), ready.bytes),
                    HEED_STATUS_INVALID_WORKSPACE, "workspace, 0x ... " + overlaps);
      tensor.point_at(end);
      CHECK(ready.problem->run(ready.plan, workspace.get(), ready.bytes) == HEED_STATUS_OK);
    }
  }
}

namespace {

/// What a score function does in the middle of a run, once.
struct Within {
  std::function<void()> act;
  bool done = false;
};

void act_within(void* user, const heed_score_tile*) {
  Within& within = *static_cast<Within*>(user);
  if (!std::exchange(within.done, true)) within.act();
}

/// Problems of the operations that have score functions.
std::vector<Kind> kinds_with(Within& within) {
  const auto act_in = [&within](const char* called) {
    return [&within, called](Form& form) {
      auto& args = form.at<heed_attention_args>(called);
      args.score_function = act_within;
      args.score_user = &within;
    };
  };
  return {{"dense", "dense", act_in("args")}, {"block", "block", act_in("args.attention")}};
}

}  // namespace

TEST_CASE("checked: a workspace that another run is using is refused", "[check][threads][files]") {
  const Captured quiet(STDERR_FILENO);
  Within within;
  for (const Kind& kind : kinds_with(within)) {
    CAPTURE(kind.name);
    const Context context = checked_context(HEED_CHECK_ON);
    const Context other_context = checked_context(HEED_CHECK_ON);
    Ready ready(kind, context);
    Ready other(kind, other_context);
    const Workspace workspace(ready.bytes);
    const Workspace another(ready.bytes);
    const auto in_another_thread = [&](const Workspace& used) {
      std::string message;
      heed_status status = HEED_STATUS_OK;
      std::thread([&] {
        status = other.problem->run(other.plan, used.get(), used.bytes());
        message = heed_last_error();
      }).join();
      CAPTURE(message);
      CHECK(
          (status == HEED_STATUS_OK || message.find("another run is using") != std::string::npos));
      return status;
    };
    within = {[&] {
      CHECK(in_another_thread(workspace) == HEED_STATUS_INVALID_WORKSPACE);
      CHECK(in_another_thread(another) == HEED_STATUS_OK);
    }};
    CHECK(ready.problem->run(ready.plan, workspace.get(), ready.bytes) == HEED_STATUS_OK);
    CHECK(within.done);
    CHECK(in_another_thread(workspace) == HEED_STATUS_OK);  // given back, also by who was refused
  }
}

TEST_CASE("checked: writes past the ends of the workspace are told", "[check][files]") {
  const Captured quiet(STDERR_FILENO);
  Within within;
  for (const Kind& kind : kinds_with(within)) {
    CAPTURE(kind.name);
    Ready ready(kind, checked_context(HEED_CHECK_ON));
    const Workspace workspace(ready.bytes);
    auto* const bytes = static_cast<char*>(workspace.get());
    for (const std::size_t at : {std::size_t{0}, workspace.bytes() - 1}) {
      within = {[&] { bytes[at] ^= 1; }};
      ready.check_refused(bytes, workspace.bytes(), HEED_STATUS_INTERNAL,
                          at == 0 ? "1 bytes before ... and 0 after ... score_function"
                                  : "0 bytes before ... and 1 after ... score_function");
      CHECK(within.done);
    }
    within = {[] {}};
    CHECK(ready.problem->run(ready.plan, bytes, workspace.bytes()) == HEED_STATUS_OK);
  }
}
