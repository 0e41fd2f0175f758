// Checked mode and workspaces: whose they are, what is written past them, and that nothing else
// changes.
#include <cstring>
#include <thread>

#include "tests/api/checked.hpp"
#include "tests/api/forms.hpp"
#include "tests/api/sample.hpp"

using namespace api_test;

namespace {

/// What a run with its own workspace gives, between bytes that are no part of it.
heed_status run_planned(const Context& context, const heed_attention_desc& desc,
                        const heed_attention_args& args, const Workspace& workspace) {
  const Plan plan = make_plan(context, desc);
  return heed_attention_plan_run(plan.get(), &args, workspace.get(), workspace.bytes());
}

std::size_t bytes_for(const Context& context, const heed_attention_desc& desc) {
  return describe(make_plan(context, desc)).workspace_bytes;
}

/// What a score function does in the middle of a run, once.
struct Within {
  std::function<void()> act;
  bool done = false;
};

void act_within(void* user, const heed_score_tile*) {
  Within& within = *static_cast<Within*>(user);
  if (within.done) return;
  within.done = true;
  within.act();
}

/// Runs the sample while `act` has its turn.
heed_status run_with(const Context& context, Sample& s, const Workspace& workspace,
                     std::function<void()> act) {
  Within within{std::move(act)};
  s.args.score_function = act_within;
  s.args.score_user = &within;
  const heed_status status = run_planned(context, s.desc, s.args, workspace);
  CHECK(within.done);
  return status;
}

}  // namespace

TEST_CASE("checked: a workspace that another run is using is refused", "[check][threads]") {
  const Context context = checked_context(HEED_CHECK_ON);
  const Context other_context = checked_context(HEED_CHECK_ON);
  Sample s;
  Sample other;
  const Workspace workspace(bytes_for(context, s.desc));
  const Workspace another(workspace.bytes());
  const auto in_another_thread = [&](const Workspace& used) {
    std::string message;
    heed_status status = HEED_STATUS_OK;
    std::thread([&] {
      status = run_planned(other_context, other.desc, other.args, used);
      message = heed_last_error();
    }).join();
    CAPTURE(message);
    CHECK((status == HEED_STATUS_OK || message.find("another run is using") != std::string::npos));
    return status;
  };
  CHECK(run_with(context, s, workspace, [&] {
          CHECK(in_another_thread(workspace) == HEED_STATUS_INVALID_WORKSPACE);
          CHECK(in_another_thread(another) == HEED_STATUS_OK);
        }) == HEED_STATUS_OK);
  CHECK(in_another_thread(workspace) == HEED_STATUS_OK);  // given back, also by who was refused
}

TEST_CASE("checked: a workspace that overlaps a tensor is refused", "[check]") {
  const Context context = checked_context(HEED_CHECK_ON);
  Sample s;
  const Workspace workspace(bytes_for(context, s.desc) + 4096);
  const auto* const inside = static_cast<const char*>(workspace.get());
  std::memset(workspace.get(), 0, workspace.bytes());
  s.args.key = inside + bytes_for(context, s.desc) - 4;
  forget_last_error();
  check_refusal(run_planned(context, s.desc, s.args, workspace), HEED_STATUS_INVALID_WORKSPACE,
                {"workspace, 0x", "overlaps args.key, 0x"});
  s.args.key = inside + bytes_for(context, s.desc);
  CHECK(run_planned(context, s.desc, s.args, workspace) == HEED_STATUS_OK);
}

TEST_CASE("checked: writes past the ends of the workspace are told", "[check]") {
  const Context context = checked_context(HEED_CHECK_ON);
  Sample s;
  const Workspace workspace(bytes_for(context, s.desc));
  auto* const bytes = static_cast<char*>(workspace.get());
  for (const std::size_t at : {std::size_t{0}, workspace.bytes() - 1}) {
    forget_last_error();
    check_refusal(run_with(context, s, workspace, [&] { bytes[at] ^= 1; }), HEED_STATUS_INTERNAL,
                  {at == 0 ? "1 bytes before" : "0 bytes before", at == 0 ? "0 after" : "1 after",
                   "args.score_function"});
  }
  CHECK(run_with(context, s, workspace, [] {}) == HEED_STATUS_OK);
}

TEST_CASE("checked: a run has the same bits, and a workspace needs some KiB more",
          "[check][files]") {
  const Captured quiet(STDERR_FILENO);
  const auto run = [](std::uint32_t check, Form& form) {
    const Context context = checked_context(check);
    const Plan plan = make_plan(context, form.desc);
    std::size_t bytes = 0;
    REQUIRE(heed_attention_plan_workspace(plan.get(), &bytes) == HEED_STATUS_OK);
    CHECK(bytes == describe(plan).workspace_bytes);
    const Workspace workspace(bytes);
    REQUIRE(heed_attention_plan_run(plan.get(), &form.args, workspace.get(), bytes) ==
            HEED_STATUS_OK);
    return bytes;
  };
  const Change changes[] = {[](Form&) {},
                            [](Form& f) { f.pack_queries(); },
                            [](Form& f) { f.pack_keys(); },
                            [](Form& f) { f.all_float64(); },
                            [](Form& f) { f.all_16_bits(); },
                            [](Form& f) { f.be_hard(); }};
  for (const Change& change : changes) {
    const auto filled = [&](Form& form) {
      change(form);
      const std::vector<float> some = numbers(256, 3);
      for (Bytes* const input : {&form.query, &form.key, &form.value, &form.bias})
        std::memcpy(input->at(), some.data(), 512);
    };
    Form plain;
    Form checked;
    filled(plain);
    filled(checked);
    const std::size_t less = run(HEED_CHECK_OFF, plain);
    const std::size_t more = run(HEED_CHECK_ON, checked);
    CHECK(more > less);
    CHECK(more < less + 4096);
    CHECK(plain.out == checked.out);
    CHECK(plain.lse == checked.lse);
    CHECK(plain.weights == checked.weights);
    CHECK(plain.column_sums == checked.column_sums);
  }
}
