// HEED_VERBOSE=1 is one line per run on stderr; everything else is silent.
#include <algorithm>

#include "tests/api/printed.hpp"
#include "tests/oracle/dense.hpp"

using namespace api_test;

namespace {

Shape shown_shape() {
  Shape shape;
  shape.batch = 2;
  shape.query_heads = 6;
  shape.key_heads = 3;
  shape.query_length = 11;
  shape.key_length = 13;
  shape.features = 16;
  shape.value_features = 24;
  return shape;
}

/// A context, a plan and a workspace, made with the environment as it is now.
struct Ready {
  explicit Ready(const Shape& s, const char* isa = nullptr)
      : shape(s), context(make_context(isa, "serial", 1)) {}
  heed_status run() {
    const heed_attention_args args = tensors.args();
    return heed_attention_plan_run(plan.get(), &args, workspace.get(), workspace.bytes());
  }

  Shape shape;
  Context context;
  heed_attention_desc desc = desc_of(shape);
  Plan plan = make_plan(context, desc);
  Workspace workspace{describe(plan).workspace_bytes};
  Tensors tensors{shape};
};

/// Many kinds of failure, none of which may print.
void fail_in_many_ways(Ready& ready) {
  heed_context* context = nullptr;
  heed_attention_plan* plan = nullptr;
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.isa = "avx1024";
  (void)heed_context_create(&options, &context);
  heed_attention_desc desc = ready.desc;
  desc.batch = -1;
  (void)heed_attention_plan_create(ready.context.get(), &desc, &plan);
  heed_attention_args args = ready.tensors.args();
  (void)heed_attention_plan_run(ready.plan.get(), &args, nullptr, 0);
  args.query = nullptr;
  (void)heed_attention(ready.context.get(), &ready.desc, &args);
  (void)heed_attention(nullptr, nullptr, nullptr);
}

}  // namespace

TEST_CASE("HEED_VERBOSE=1 prints one line per run, which says everything", "[verbose][files]") {
  const Environment environment;
  environment.set("HEED_VERBOSE", "1");
  for (const std::string& isa : usable_isas()) {
    Ready ready(shown_shape(), isa.c_str());
    const heed_attention_info info = describe(ready.plan);
    Captured err(STDERR_FILENO);
    const heed_status status = ready.run();
    const std::string text = err.text();
    REQUIRE(status == HEED_STATUS_OK);
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
    REQUIRE_FALSE(text.empty());
    CHECK(text.back() == '\n');
    const std::string tiles =
        "tiles " + std::to_string(info.tile_q) + " x " + std::to_string(info.tile_kv);
    const std::string tasks = std::to_string(info.tasks) + " tasks";
    check_contains(
        text, {"heed: ", "B2 ", "H6 ", "Hkv3 ", "Lq11 ", "Lkv13 ", "D16 ", "Dv24 ", info.strategy,
               isa.c_str(), "serial x1", tiles.c_str(), tasks.c_str(), "GFLOP/s"});
    CHECK(text.find("causal") == std::string::npos);
  }
}

TEST_CASE("HEED_VERBOSE=1 says where results are less exact than float32", "[verbose][files]") {
  const Environment environment;
  environment.set("HEED_VERBOSE", "1");
  const Shape shape = {1, 1, 1, 60, 40, 32, 32};  // tiles of fewer features are not worth it
  Tensors tensors(shape);                         // of float32, which has room for bfloat16
  heed_attention_desc desc = desc_of(shape);
  const heed_attention_args args = tensors.args();
  for (const std::string& isa : usable_isas()) {
    const Context context = make_context(isa.c_str(), "serial", 1);
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_BF16}) {
      desc.query.dtype = desc.key.dtype = desc.value.dtype = dtype;
      Captured err(STDERR_FILENO);
      REQUIRE(heed_attention(context.get(), &desc, &args) == HEED_STATUS_OK);
      const bool rounds = heed_test::multiplies_parts(isa) ||
                          (heed_test::multiplies_pairs(isa) && dtype == HEED_DTYPE_BF16);
      check_contains(err.text(), {(isa + (rounds ? " default serial" : " serial")).c_str()});
    }
  }
}

TEST_CASE("HEED_VERBOSE=1 shows the causal offset", "[verbose][files]") {
  const Environment environment;
  environment.set("HEED_VERBOSE", "1");
  Shape shape = shown_shape();
  shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  Ready ready(shape);
  Captured err(STDERR_FILENO);
  (void)ready.run();
  check_contains(err.text(), {"causal+2"});
}

TEST_CASE("HEED_VERBOSE=1 shows the options of a run", "[verbose][files]") {
  const Environment environment;
  environment.set("HEED_VERBOSE", "1");
  const Context context = make_context(nullptr, "serial", 1);
  const Shape shape = shown_shape();
  Tensors tensors(shape);
  const std::vector<std::uint8_t> mask(std::size_t{2} * 6 * 11 * 13, 1);
  const std::vector<float> zeros(mask.size(), 0.0F);
  std::vector<float> more(mask.size());
  const std::vector<std::int32_t> lengths = {13, 9};
  heed_attention_desc desc = desc_of(shape);
  desc.softcap = 30;
  desc.temperature = 0.5;
  desc.window = 1;
  desc.window_left = 4;
  desc.window_right = 3;
  desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
  desc.weights_point = HEED_WEIGHTS_CAPPED;
  heed_attention_args args = tensors.args();
  args.mask = mask.data();
  args.bias = args.alibi_slopes = args.sinks = zeros.data();
  args.key_lengths = lengths.data();
  args.weights = more.data();
  Captured err(STDERR_FILENO);
  const heed_status status = heed_attention(context.get(), &desc, &args);
  const std::string text = err.text();
  REQUIRE(status == HEED_STATUS_OK);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  check_contains(text, {"softcap=30", "temperature=0.5", "left=4", "right=3", "offset=2", "mask",
                        "bias", "alibi", "sinks", "lengths", "weights=2"});
}

TEST_CASE("HEED_VERBOSE=1 shows each run, and nothing but runs", "[verbose][files]") {
  const Environment environment;
  environment.set("HEED_VERBOSE", "1");
  Ready ready(shown_shape());
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  {
    Captured err(STDERR_FILENO);
    for (int i = 0; i < 3; ++i) (void)ready.run();
    const heed_attention_args args = ready.tensors.args();
    (void)heed_attention(ready.context.get(), &ready.desc, &args);
    CHECK(lines(err.text()) == 4);
  }
  {
    Captured err(STDERR_FILENO);
    fail_in_many_ways(ready);
    const Ready other(shown_shape());
    CHECK(err.text().empty());
  }
  Captured err(STDERR_FILENO);
  Captured out(STDOUT_FILENO);
  (void)ready.run();
  const std::string on_err = err.text();
  CHECK(out.text().empty());
  CHECK(lines(on_err) == 1);
}

TEST_CASE("nothing is printed otherwise, not even on errors", "[verbose][files]") {
  for (const char* const value : {"", "0"}) {
    const Environment environment;
    environment.set("HEED_VERBOSE", value);
    Captured err(STDERR_FILENO);
    Captured out(STDOUT_FILENO);
    Ready ready(shown_shape());
    const heed_status status = ready.run();
    fail_in_many_ways(ready);
    environment.set("HEED_VERBOSE", "1");  // too late: the context is made
    (void)ready.run();
    const std::string printed = err.text() + out.text();
    CHECK(status == HEED_STATUS_OK);
    CHECK(printed.empty());
  }
}
