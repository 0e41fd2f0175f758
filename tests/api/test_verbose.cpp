// HEED_VERBOSE=1 is one line per run on stderr; everything else is silent.
#include <algorithm>

#include "tests/api/files.hpp"
#include "tests/api/problems.hpp"
#include "tests/oracle/dense.hpp"

using namespace api_test;

namespace {

/// The lines on stderr while function runs; nothing goes to stdout.
template <class Function>
std::string printed(const Function& function) {
  Captured err(STDERR_FILENO);
  Captured out(STDOUT_FILENO);
  function();
  const std::string on_out = out.text();
  const std::string on_err = err.text();
  CHECK(on_out.empty());
  return on_err;
}

bool is_one_line(const std::string& text) {
  return text.rfind("heed: ", 0) == 0 && text.find('\n') == text.size() - 1;
}

/// A context, a plan and a run, each of them wrong.
void fail_in_many_ways(const Context& context) {
  heed_context* made = nullptr;
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.isa = "avx1024";
  (void)heed_context_create(&options, &made);
  heed_attention_plan* plan = nullptr;
  heed_attention_desc desc = small_desc();
  desc.batch = -1;
  (void)heed_attention_plan_create(context.get(), &desc, &plan);
  (void)heed_attention(nullptr, nullptr, nullptr);
}

}  // namespace

TEST_CASE("HEED_VERBOSE=1 prints one line per run of every operation, and nothing else is printed",
          "[verbose][files]") {
  for (const std::string value : {"", "0", "1"}) {
    const Environment environment;
    for (const Kind& kind : kinds()) {
      CAPTURE(value, kind.name);
      environment.set("HEED_VERBOSE", value.c_str());
      const Context context = serial();
      environment.set("HEED_VERBOSE", value == "1" ? "0" : "1");  // too late: the context is made
      const std::unique_ptr<Form> problem = kind.problem();
      Object plan;
      bool made = false, ran = false;
      const std::string silent = printed([&] {
        made = problem->prepare_and_create(context, plan);
        (void)problem->run(plan, nullptr, 0);
        fail_in_many_ways(context);
      });
      REQUIRE(made);
      CHECK(silent.empty());
      for (const bool planned : {true, false}) {
        const std::string text = printed([&] {
          ran = (planned ? problem->run(plan) : problem->call(context)) == HEED_STATUS_OK;
        });
        CAPTURE(text);
        CHECK(ran);
        CHECK((value == "1" ? is_one_line(text) : text.empty()));
      }
    }
  }
}

TEST_CASE("HEED_VERBOSE=1 says everything of a run", "[verbose][files]") {
  const Environment environment;
  environment.set("HEED_VERBOSE", "1");
  const struct {
    const char* change;
    std::vector<std::string> words;
  } rows[] = {{"args.mask = NULL",
               {"B2 ", "H4 ", "Hkv2 ", "Lq3 ", "Lkv5 ", "D4 ", "Dv6 ", "serial x1", "GFLOP/s"}},
              {"desc.alignment = 0, desc.causal = 2", {"causal+2"}},
              {"additive", {"score=2 act=2"}},
              {"desc.softcap = 30, desc.temperature = 0.5, desc.window = 1, desc.window_left = 4, "
               "desc.window_right = 3, args.first_keys = {1 0}",
               {"softcap=30", "temperature=0.5", "left=4", "right=3", "offset=2", "mask", "bias",
                "alibi", "sinks", "lengths", "first_keys", "weights=4"}}};
  for (const std::string& isa : usable_isas())
    for (const auto& row : rows) {
      const Context context = make_context(isa.c_str());
      Form form("dense", row.change);
      const auto& desc = form.at<heed_attention_desc>("desc");
      const heed_attention_info info = describe(make_plan(context, desc));
      const std::string text = printed([&] { REQUIRE(form.call(context) == HEED_STATUS_OK); });
      CHECK(is_one_line(text));
      const std::string work = "tiles " + std::to_string(info.tile_q) + " x " +
                               std::to_string(info.tile_kv) + ", " + std::to_string(info.tasks) +
                               " tasks";
      check_contains(text, row.words);
      check_contains(text, {work, isa, info.strategy});
      CHECK((text.find("causal") != std::string::npos) == (desc.causal != 0));
      CHECK((text.find("mask") != std::string::npos) ==
            (form.tensor("args.mask").memory() != nullptr));
    }
}

TEST_CASE("HEED_VERBOSE=1 says where results are less exact than float32", "[verbose][files]") {
  const Environment environment;
  environment.set("HEED_VERBOSE", "1");
  heed_attention_desc desc = small_desc(60, 40, 32, 32);  // tiles of fewer are not worth it
  for (const std::string& isa : usable_isas()) {
    const Context context = make_context(isa.c_str());
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_BF16}) {
      desc.query.dtype = desc.key.dtype = desc.value.dtype = dtype;
      Captured err(STDERR_FILENO);
      (void)run(context, desc);
      const bool rounds = heed_test::multiplies_pairs(isa) && dtype == HEED_DTYPE_BF16;
      check_contains(err.text(), {isa + (rounds ? " default serial" : " serial")});
    }
  }
}
