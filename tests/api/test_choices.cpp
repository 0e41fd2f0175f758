// ISA, executor, threads, product, precision, checks and tiles, given as options or by HEED_*
// variables: what is refused, what is taken, and option before environment before automatic.
#include "tests/api/refused.hpp"
#include "tests/oracle/dense.hpp"

using namespace api_test;

namespace {

/// With nothing forced, so that every variable counts, and with no options at all.
void check_malformed(const std::string& rows) {
  check_refused("context", "with nothing chosen:\n" + rows + "with options = NULL:\n" + rows);
}

constexpr const char* kPrecisions[] = {"", "exact", "default", "high", "medium"};

/// What a context may be told by an option, by a variable or not at all.
struct Choice {
  const char* variable;
  std::vector<std::string> values;
  std::function<void(heed_context_options&, const std::string&)> choose;
  std::function<std::string(const Context&)> chosen;
  std::string automatic;
};

template <class Field>
Choice named(const char* variable, const std::vector<std::string>& values,
             const char* heed_context_options::*option, Field heed_context_info::*field,
             const std::string& automatic) {
  return {variable, values,
          [=](heed_context_options& o, const std::string& value) { o.*option = value.c_str(); },
          [=](const Context& context) { return describe(context).*field; }, automatic};
}

Choice tile(const char* variable, const std::vector<std::string>& values,
            std::uint32_t heed_context_options::*option,
            std::uint32_t heed_attention_info::*field) {
  const auto chosen = [=](const Context& context) {
    return std::to_string(describe(make_plan(context, small_desc(4000, 4000))).*field);
  };
  return {variable, values,
          [=](heed_context_options& o, const std::string& value) {
            o.*option = static_cast<std::uint32_t>(std::stoul(value));
          },
          chosen, chosen(make_context("scalar"))};
}

/// Chosen where nobody asks: TBB before OpenMP before heed's own threads.
std::string automatic_executor() {
  std::string best = "threads";
  for (const std::string& name : executors())
    if (name == "tbb" || (name == "openmp" && best != "tbb")) best = name;
  return best;
}

std::vector<Choice> choices() {
  return {
      named("HEED_ISA", usable_isas(), &heed_context_options::isa, &heed_context_info::isa,
            automatic_isa()),
      named("HEED_PARALLEL", executors(), &heed_context_options::executor_name,
            &heed_context_info::executor, automatic_executor()),
      named("HEED_PRODUCT", products(), &heed_context_options::product, &heed_context_info::product,
            "heed"),
      {"HEED_PRECISION",
       {"exact", "default", "high", "medium"},
       [](heed_context_options& o, const std::string& value) {
         while (kPrecisions[o.precision] != value) ++o.precision;
       },
       [](const Context& c) { return kPrecisions[describe(c).precision]; },
       "default"},
      {"HEED_CHECK",
       {"0", "1"},
       [](heed_context_options& o, const std::string& value) {
         o.check = value == "1" ? HEED_CHECK_ON : HEED_CHECK_OFF;
       },
       [](const Context& c) { return describe(c).check == HEED_CHECK_ON ? "1" : "0"; },
       "0"},
      tile("HEED_TILE_Q", {"48", "96"}, &heed_context_options::tile_q,
           &heed_attention_info::tile_q),
      tile("HEED_TILE_KV", {"256", "640"}, &heed_context_options::tile_kv,
           &heed_attention_info::tile_kv),
  };
}

}  // namespace

TEST_CASE("option > environment > automatic", "[choices][environment][threads]") {
  const Environment environment;
  for (const Choice& choice : choices()) {
    const auto made = [&](const std::string& option) {
      heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
      if (std::string(choice.variable).rfind("HEED_TILE", 0) == 0) options.isa = "scalar";
      if (!option.empty()) choice.choose(options, option);
      return choice.chosen(make_context(&options));
    };
    environment.set(choice.variable, "");
    CAPTURE(choice.variable);
    CHECK(made("") == choice.automatic);
    for (const std::string& variable : choice.values) {
      environment.set(choice.variable, variable.c_str());
      CHECK(made("") == variable);
      for (const std::string& option : choice.values) CHECK(made(option) == option);
    }
    environment.set(choice.variable, "");
  }
}

TEST_CASE("threads: option > environment > automatic", "[choices][environment][threads]") {
  const Environment environment;
  environment.set("HEED_THREADS", "5");
  for (const std::string& name : executors()) {
    const bool serial = name == "serial";
    CHECK(describe(make_context(nullptr, {name.c_str(), 0})).threads == (serial ? 1 : 5));
    CHECK(describe(make_context(nullptr, {name.c_str(), 3})).threads == (serial ? 1 : 3));
    environment.set("HEED_THREADS", "");
    CHECK(describe(make_context(nullptr, {name.c_str(), 0})).threads >= 1);
    environment.set("HEED_THREADS", "5");
  }
}

TEST_CASE("unknown names are refused, with the choices, and not printed without end",
          "[choices][environment][refused]") {
  const std::string names =
      R"("foo" | "AVX2" | "TBB" | "Heed" | "scalar " | "" | ")" + std::string(100000, 'x') + '"';
  const std::string isas = " => , which this build does not know; usable here: scalar ...\n";
  const std::string executors = " => ; this build has: serial ...\n";
  const std::string products = " => ; this build has: heed ...\n";
  check_refused("context", "options.isa = " + names + isas + "options.executor_name = " + names +
                               executors + "options.product = " + names + products);
  const auto of_environment = [](std::string row) {
    return row.insert(row.find("=> ") + 3, "(environment) ");
  };
  check_malformed(of_environment(R"(HEED_ISA = "avx1024" | "Scalar")" + isas) +
                  of_environment(R"(HEED_PARALLEL = "foo" | "caller")" + executors) +
                  of_environment(R"(HEED_PRODUCT = "foo" | "Heed" | "heed ")" + products) +
                  R"(HEED_PRECISION = "Exact" | "highest" | "1" | "default " | "bf16" => )"
                  "(environment) must be exact, default, high or medium\n");
}

TEST_CASE("an ISA that this CPU lacks is unsupported", "[choices][refused]") {
  for (std::size_t i = 0; i < heed_isa_count(); ++i) {
    heed_isa_info info = HEED_ISA_INFO_INIT;
    REQUIRE(heed_isa_get(i, &info) == HEED_STATUS_OK);
    if (info.usable == 1) continue;
    const std::string is = " = \"" + std::string(info.name) + "\" => ";
    const char* const lacks =
        ", which this CPU or operating system lacks; usable here: scalar ...\n";
    check_refused("context", "options.isa" + is + "(unsupported) " + lacks + "HEED_ISA" + is +
                                 "(environment) " + lacks);
  }
}

TEST_CASE("what a context is given beside names has bounds", "[choices][refused]") {
  check_refused("context", R"(
    options.threads = 1025 | 4294967295 => must be at most 1024
    options.tile_q | options.tile_kv = 65537 | 4294967295 => must be at most 65536
    options.check = 3 | 4294967295 => must be a heed_check, 0 to 2
    options.precision = 5 | 4294967295 => must be a heed_precision, 0 to 4
    options.allocator.reserved = 7 => must be 0
    options.allocator.allocate | options.allocator.release = NULL => ; it must be a function
    with nothing chosen:
    options.threads = 1025 | 4294967295 => must be at most 1024
    with executor:
    options.threads = 1025 | 4294967295 => must be at most 1024
    options.executor_name = "serial" => and options.executor is set; give one of them
    options.executor.run = NULL => ; it must be a function
    options.executor.threads = 0 | 1025 | 4294967295 => must be 1 to 1024
  )");
}

TEST_CASE("malformed numbers in the environment are refused", "[environment][refused]") {
  std::string rows;
  for (const std::string tile : {"HEED_TILE_Q", "HEED_TILE_KV"})
    rows += tile + R"( = "abc" | "0" | "-1" | "1e3" | "99999999999" | " 8" | "8 " | "65537" | "+8")"
                   R"( | "0x10" | "8.0" => (environment) must be a whole number from 1 to 65536)"
                   "\n";
  rows += R"(HEED_THREADS = "-3" | "0" | "1025" | "two" | "4294967297")"
          " => (environment) must be a whole number from 1 to 1024\n";
  for (const std::string variable : {"HEED_VERBOSE", "HEED_CHECK"})
    rows += variable + R"( = "yes" | "2" | "-1" | "true")"
                       " => (environment) must be a whole number from 0 to 1\n";
  check_malformed(rows);
}

TEST_CASE("an option that is wrong is not blamed on the environment", "[environment][refused]") {
  check_refused("context", R"(
    with HEED_THREADS = "2", HEED_TILE_Q = "8", HEED_PARALLEL = "serial", HEED_ISA = "scalar",
      nothing chosen:
    options.threads = 5000 => must be at most 1024
    options.tile_q = 70000 => must be at most 65536
    options.isa = "avx1024" => , which this build does not know; usable here: scalar ...
    options.executor_name = "foo" => ; this build has: serial ...
  )");
}

TEST_CASE("the largest threads and tiles are taken", "[choices][threads]") {
  const Environment quiet;
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  const heed_executor executor = in_order(1024);
  options.executor = &executor;
  options.tile_q = options.tile_kv = 65536;
  const Context context = make_context(&options);
  CHECK(describe(context).threads == 1024);
  const heed_attention_info info = describe(make_plan(context, small_desc()));
  CHECK(info.tile_q >= 65536);
  CHECK(info.tile_kv >= 65536);
}

TEST_CASE("a caller's executor is called caller, with its own threads", "[choices]") {
  const Environment environment;
  environment.set("HEED_PARALLEL", "serial");  // which counts where there is no executor
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  heed_executor executor = in_order(5);
  options.executor = &executor;
  const Context context = make_context(&options);
  executor.run = nullptr;  // copied: what happens to the original no longer matters
  const heed_context_info info = describe(context);
  CHECK(std::string(info.executor) == "caller");
  CHECK(info.threads == 5);
  options.threads = 2;
  executor.run = in_order(2).run;
  CHECK(describe(make_context(&options)).threads == 2);
}

TEST_CASE("what a context says about caches is plausible", "[choices]") {
  const Environment quiet;
  const heed_context_info info = describe(make_context(nullptr, {"serial", 0}));
  CHECK(info.struct_size == sizeof info);
  CHECK(info.l1_bytes >= 4096);
  CHECK(info.l2_bytes >= 4096);
  CHECK(info.threads == 1);
}

TEST_CASE("the environment is read when a context is made, never later", "[environment]") {
  const Environment environment;
  const heed_context_options options = serial_options();
  const Context context = make_context(&options);
  const heed_attention_info before = describe(make_plan(context, small_desc()));
  environment.set("HEED_ISA", "avx1024");
  environment.set("HEED_TILE_Q", "abc");
  environment.set("HEED_THREADS", "-3");
  const heed_attention_info after = describe(make_plan(context, small_desc()));
  CHECK(std::memcmp(&before, &after, sizeof before) == 0);
}
