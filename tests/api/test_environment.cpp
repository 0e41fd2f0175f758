// The HEED_* variables: what is malformed, and option before environment before automatic.
#include "tests/api/other_forms.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

/// With nothing forced, so that every variable counts.
void check_malformed(const char* variable, std::initializer_list<const char*> values,
                     const std::string& bound) {
  std::vector<Refusal<ContextForm>> rows;
  for (const char* const value : values)
    rows.emplace_back(variable, value, bound, HEED_STATUS_INVALID_ENVIRONMENT);
  check_refused<ContextForm>(choose_nothing, rows);
  check_refused<ContextForm>(give_no_options, rows);
}

}  // namespace

TEST_CASE("malformed numbers in the environment are refused", "[environment][refused]") {
  for (const char* const tile : {"HEED_TILE_Q", "HEED_TILE_KV"})
    check_malformed(
        tile, {"abc", "0", "-1", "1e3", "99999999999", " 8", "8 ", "65537", "+8", "0x10", "8.0"},
        "must be a whole number from 1 to 65536");
  check_malformed("HEED_THREADS", {"-3", "0", "1025", "two", "4294967297"},
                  "must be a whole number from 1 to 1024");
  for (const char* const variable : {"HEED_VERBOSE", "HEED_CHECK"})
    check_malformed(variable, {"yes", "2", "-1", "true"}, "must be a whole number from 0 to 1");
}

TEST_CASE("unknown names in the environment are refused, with the choices",
          "[environment][refused]") {
  check_malformed("HEED_ISA", {"avx1024", "Scalar"},
                  "which this build does not know; usable here: scalar");
  check_malformed("HEED_PARALLEL", {"foo", "caller"}, "this build has: serial");
  check_malformed("HEED_PRODUCT", {"foo", "Heed", "heed "}, "this build has: heed");
}

TEST_CASE("an unknown precision in the environment is refused", "[environment][refused]") {
  check_malformed("HEED_PRECISION", {"Exact", "highest", "1", "default ", "bf16"},
                  "must be exact, default, high or medium");
}

TEST_CASE("precision: option > environment > default", "[environment]") {
  const Environment environment;
  heed_context_options options = serial_options();
  CHECK(describe(make_context(&options)).precision == HEED_PRECISION_DEFAULT);
  const std::pair<const char*, std::uint32_t> names[] = {{"exact", HEED_PRECISION_EXACT},
                                                         {"default", HEED_PRECISION_DEFAULT},
                                                         {"high", HEED_PRECISION_HIGH},
                                                         {"medium", HEED_PRECISION_MEDIUM}};
  for (const auto& [name, precision] : names) {
    environment.set("HEED_PRECISION", name);
    CHECK(describe(make_context(&options)).precision == precision);
  }
  options.precision = HEED_PRECISION_EXACT;
  CHECK(describe(make_context(&options)).precision == HEED_PRECISION_EXACT);
}

TEST_CASE("an option that is wrong is not blamed on the environment", "[environment][refused]") {
  check_refused<ContextForm>(
      [](ContextForm& form) {
        form.environment.set("HEED_THREADS", "2");
        form.environment.set("HEED_TILE_Q", "8");
        form.environment.set("HEED_PARALLEL", "serial");
        form.environment.set("HEED_ISA", "scalar");
        choose_nothing(form);
      },
      {{"options.threads", 5000, "must be at most 1024"},
       {"options.tile_q", 70000, "must be at most 65536"},
       {"options.isa", "avx1024", "usable here: scalar"},
       {"options.executor_name", "foo", "this build has: serial"}});
}

TEST_CASE("an empty variable is silent", "[environment]") {
  const Environment environment;
  for (const char* const name :
       {"HEED_ISA", "HEED_THREADS", "HEED_TILE_Q", "HEED_TILE_KV", "HEED_TUNING_FILE",
        "HEED_VERBOSE", "HEED_CHECK", "HEED_PRECISION"})
    environment.set(name, "");
  environment.set("HEED_PARALLEL", "");
  const heed_context_options options = serial_options();
  CHECK(describe(make_context(&options)).isa == automatic_isa());
}

TEST_CASE("ISA: option > environment > automatic", "[environment]") {
  for (const std::string& isa : usable_isas()) {
    const Environment environment;
    environment.set("HEED_ISA", isa.c_str());
    heed_context_options options = serial_options();
    CHECK(describe(make_context(&options)).isa == isa);
    options.isa = "scalar";
    CHECK(std::string(describe(make_context(&options)).isa) == "scalar");
  }
}

TEST_CASE("executor: option > environment > automatic", "[environment][threads]") {
  for (const std::string& name : executors()) {
    const Environment environment;
    environment.set("HEED_PARALLEL", name.c_str());
    CHECK(describe(make_context()).executor == name);
    const heed_context_options options = serial_options();
    CHECK(std::string(describe(make_context(&options)).executor) == "serial");
  }
}

TEST_CASE("a caller's executor wins over HEED_PARALLEL", "[environment]") {
  const Environment environment;
  environment.set("HEED_PARALLEL", "serial");
  const heed_executor executor = in_order(4);
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor = &executor;
  const heed_context_info info = describe(make_context(&options));
  CHECK(std::string(info.executor) == "caller");
  CHECK(info.threads == 4);
}

TEST_CASE("threads: option > environment > automatic", "[environment][threads]") {
  const Environment environment;
  environment.set("HEED_THREADS", "5");
  for (const std::string& name : executors()) {
    if (name == "serial") continue;
    heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
    options.executor_name = name.c_str();
    CHECK(describe(make_context(&options)).threads == 5);
    options.threads = 3;
    CHECK(describe(make_context(&options)).threads == 3);
  }
}

TEST_CASE("checked mode: option > environment > off", "[environment][check]") {
  const Environment environment;
  heed_context_options options = serial_options();
  CHECK(describe(make_context(&options)).check == HEED_CHECK_OFF);
  options.check = HEED_CHECK_ON;
  CHECK(describe(make_context(&options)).check == HEED_CHECK_ON);
  for (const char* const value : {"0", "1"}) {
    environment.set("HEED_CHECK", value);
    options.check = HEED_CHECK_DEFAULT;
    const std::uint32_t asked = *value == '1' ? HEED_CHECK_ON : HEED_CHECK_OFF;
    CHECK(describe(make_context(&options)).check == asked);
    for (const std::uint32_t option : {HEED_CHECK_ON, HEED_CHECK_OFF}) {
      options.check = option;
      CHECK(describe(make_context(&options)).check == option);
    }
  }
}

TEST_CASE("tiles: option > environment > automatic", "[environment]") {
  const Environment environment;
  Shape shape;
  shape.query_length = shape.key_length = 4000;
  const auto info = [&](const heed_context_options& options) {
    return describe(make_plan(make_context(&options), desc_of(shape)));
  };
  heed_context_options options = serial_options();
  options.tile_q = 300;
  options.tile_kv = 500;
  const heed_attention_info by_option = info(options);
  options.tile_q = 1000;
  options.tile_kv = 1500;
  const heed_attention_info by_other_option = info(options);
  REQUIRE(by_option.tile_q != by_other_option.tile_q);
  REQUIRE(by_option.tile_kv != by_other_option.tile_kv);

  environment.set("HEED_TILE_Q", "300");
  environment.set("HEED_TILE_KV", "500");
  const heed_attention_info still_option = info(options);
  CHECK(still_option.tile_q == by_other_option.tile_q);
  CHECK(still_option.tile_kv == by_other_option.tile_kv);
  const heed_attention_info by_environment = info(serial_options());
  CHECK(by_environment.tile_q == by_option.tile_q);
  CHECK(by_environment.tile_kv == by_option.tile_kv);
}

TEST_CASE("the environment is read when a context is made, never later", "[environment]") {
  const Environment environment;
  const heed_context_options options = serial_options();
  const Context context = make_context(&options);
  const heed_attention_info before = describe(make_plan(context, desc_of(Shape{})));
  environment.set("HEED_ISA", "avx1024");
  environment.set("HEED_TILE_Q", "abc");
  environment.set("HEED_THREADS", "-3");
  const heed_attention_info after = describe(make_plan(context, desc_of(Shape{})));
  CHECK(std::memcmp(&before, &after, sizeof before) == 0);
}
