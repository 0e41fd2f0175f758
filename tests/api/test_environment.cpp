// The HEED_* variables: what is malformed, and option before environment before automatic.
#include "tests/api/support.hpp"

using namespace api_test;

namespace {

struct Malformed {
  const char* variable;
  const char* value;
  const char* bound;
};

heed_context_options serial_options() {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor_name = "serial";
  return options;
}

/// With nothing forced, so that every variable counts.
void check_malformed(const Malformed& wrong) {
  CAPTURE(wrong.variable, wrong.value);
  const Environment environment;
  environment.set(wrong.variable, wrong.value);
  const std::string shown = std::string(wrong.variable) + " is \"" + wrong.value + "\"";
  const heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  check_context_refused(options, HEED_STATUS_INVALID_ENVIRONMENT, {shown.c_str(), wrong.bound});

  forget_last_error();
  heed_context* context = untouched<heed_context>();
  check_refusal(heed_context_create(nullptr, &context), HEED_STATUS_INVALID_ENVIRONMENT,
                {shown.c_str(), wrong.bound});
  CHECK(context == untouched<heed_context>());
}

}  // namespace

TEST_CASE("malformed numbers in the environment are refused", "[environment]") {
  for (const char* const value :
       {"abc", "0", "-1", "1e3", "99999999999", " 8", "8 ", "65537", "+8", "0x10", "8.0"}) {
    check_malformed({"HEED_TILE_Q", value, "from 1 to 65536"});
    check_malformed({"HEED_TILE_KV", value, "from 1 to 65536"});
  }
  for (const char* const value : {"-3", "0", "1025", "two", "4294967297"})
    check_malformed({"HEED_THREADS", value, "from 1 to 1024"});
  for (const char* const value : {"yes", "2", "-1", "true"})
    for (const char* const variable : {"HEED_VERBOSE", "HEED_CHECK"})
      check_malformed({variable, value, "from 0 to 1"});
}

TEST_CASE("unknown names in the environment are refused, with the choices", "[environment]") {
  check_malformed({"HEED_ISA", "avx1024", "scalar"});
  check_malformed({"HEED_ISA", "Scalar", "scalar"});
  check_malformed({"HEED_PARALLEL", "foo", "serial"});
  check_malformed({"HEED_PARALLEL", "caller", "serial"});
}

TEST_CASE("an ISA in the environment that this CPU lacks is the environment's fault",
          "[environment]") {
  for (std::size_t i = 0; i < heed_isa_count(); ++i) {
    heed_isa_info info = HEED_ISA_INFO_INIT;
    REQUIRE(heed_isa_get(i, &info) == HEED_STATUS_OK);
    if (info.usable == 0) check_malformed({"HEED_ISA", info.name, "usable here: scalar"});
  }
}

TEST_CASE("an option that is wrong is not blamed on the environment", "[environment]") {
  const Environment environment;
  environment.set("HEED_THREADS", "2");
  environment.set("HEED_TILE_Q", "8");
  environment.set("HEED_PARALLEL", "serial");
  environment.set("HEED_ISA", "scalar");
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.threads = 5000;
  check_context_refused(options, HEED_STATUS_INVALID_ARGUMENT, {"options.threads is 5000"});
  options = HEED_CONTEXT_OPTIONS_INIT;
  options.tile_q = 70000;
  check_context_refused(options, HEED_STATUS_INVALID_ARGUMENT, {"options.tile_q is 70000"});
  options = HEED_CONTEXT_OPTIONS_INIT;
  options.isa = "avx1024";
  check_context_refused(options, HEED_STATUS_INVALID_ARGUMENT, {"options.isa is \"avx1024\""});
  options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor_name = "foo";
  check_context_refused(options, HEED_STATUS_INVALID_ARGUMENT, {"options.executor_name"});
}

TEST_CASE("an empty variable is silent", "[environment]") {
  const Environment environment;
  for (const char* const name :
       {"HEED_ISA", "HEED_THREADS", "HEED_TILE_Q", "HEED_TILE_KV", "HEED_VERBOSE", "HEED_CHECK"})
    environment.set(name, "");
  environment.set("HEED_PARALLEL", "");
  const heed_context_options options = serial_options();
  CHECK(describe(make_context(&options)).isa == usable_isas().back());
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
