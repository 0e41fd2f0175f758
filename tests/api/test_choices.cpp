// ISA, executor, threads and tiles given as options: what is refused and what is taken.
#include "tests/api/other_forms.hpp"
#include "tests/api/refused.hpp"
#include "tests/oracle/dense.hpp"

using namespace api_test;

namespace {

void use_executor(ContextForm& form) {
  form.options.executor_name = nullptr;
  form.options.executor = &form.executor;
}

}  // namespace

TEST_CASE("unknown names are refused, with the choices, and not printed without end",
          "[choices][refused]") {
  const std::string longer(100000, 'x');
  const char* const unknown = "which this build does not know; usable here: scalar";
  const char* const choices = "this build has: serial";
  check_refused<ContextForm>({{"options.isa", "avx1024", unknown},
                              {"options.isa", "AVX2", unknown},
                              {"options.isa", "", unknown},
                              {"options.isa", "scalar ", unknown},
                              {"options.isa", longer.c_str(), unknown},
                              {"options.executor_name", "foo", choices},
                              {"options.executor_name", "TBB", choices},
                              {"options.executor_name", "", choices},
                              {"options.executor_name", longer.c_str(), choices}});
}

TEST_CASE("an ISA that this CPU lacks is unsupported", "[choices][refused]") {
  for (std::size_t i = 0; i < heed_isa_count(); ++i) {
    heed_isa_info info = HEED_ISA_INFO_INIT;
    REQUIRE(heed_isa_get(i, &info) == HEED_STATUS_OK);
    if (info.usable == 1) continue;
    const char* const lacks = "which this CPU or operating system lacks; usable here: scalar";
    check_refused<ContextForm>({{"options.isa", info.name, lacks, HEED_STATUS_UNSUPPORTED}});
    check_refused<ContextForm>({{"HEED_ISA", info.name, lacks, HEED_STATUS_INVALID_ENVIRONMENT}});
  }
}

TEST_CASE("a caller's executor has a function and threads, and no name", "[choices][refused]") {
  check_refused<ContextForm>(
      use_executor,
      {{"options.executor_name", "serial", "and options.executor is set; give one of them"},
       {[](ContextForm& form) { form.executor.run = nullptr; },
        "options.executor.run is NULL; it must be a function"},
       {"options.executor.threads", 0, "must be 1 to 1024"},
       {"options.executor.threads", 1025, "must be 1 to 1024"},
       {"options.executor.threads", 0xffffffffU, "must be 1 to 1024"}});
}

TEST_CASE("a caller's allocator has both functions", "[choices][refused]") {
  check_refused<ContextForm>({{"options.allocator.reserved", 7, "must be 0"},
                              {[](ContextForm& form) { form.allocator.allocate = nullptr; },
                               "options.allocator.allocate is NULL; it must be a function"},
                              {[](ContextForm& form) { form.allocator.release = nullptr; },
                               "options.allocator.release is NULL; it must be a function"}});
}

TEST_CASE("threads past 1024 and tiles past 65536 are refused", "[choices][refused]") {
  for (const ChangeOf<ContextForm>& make :
       {ChangeOf<ContextForm>(unchanged<ContextForm>), ChangeOf<ContextForm>(use_executor),
        ChangeOf<ContextForm>(choose_nothing)})
    check_refused<ContextForm>(make, {{"options.threads", 1025, "must be at most 1024"},
                                      {"options.threads", 0xffffffffU, "must be at most 1024"}});
  check_refused<ContextForm>({{"options.tile_q", 65537, "must be at most 65536"},
                              {"options.tile_q", 0xffffffffU, "must be at most 65536"},
                              {"options.tile_kv", 65537, "must be at most 65536"},
                              {"options.tile_kv", 0xffffffffU, "must be at most 65536"},
                              {"options.check", 3, "must be a heed_check, 0 to 2"},
                              {"options.check", 0xffffffffU, "must be a heed_check, 0 to 2"},
                              {"options.precision", 5, "must be a heed_precision, 0 to 4"},
                              {"options.precision", 0xffffffffU, "must be a heed_precision"}});
}

TEST_CASE("the largest threads and tiles are taken", "[choices][threads]") {
  const Environment quiet;
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  const heed_executor executor = in_order(1024);
  options.executor = &executor;
  options.tile_q = options.tile_kv = 65536;
  const Context context = make_context(&options);
  CHECK(describe(context).threads == 1024);
  const heed_attention_info info = describe(make_plan(context, desc_of(Shape{})));
  CHECK(info.tile_q >= 65536);
  CHECK(info.tile_kv >= 65536);
}

TEST_CASE("forcing an ISA shows in what context and plan say", "[choices]") {
  const Environment quiet;
  for (const std::string& isa : usable_isas()) {
    const Context context = make_context(isa.c_str(), "serial", 0);
    CHECK(describe(context).isa == isa);
    CHECK(describe(make_plan(context, desc_of(Shape{}))).isa == isa);
  }
}

TEST_CASE("the automatic ISA is the widest usable one, with pairs where they are faster",
          "[choices]") {
  const Environment quiet;
  const heed_context_options options = serial_options();
  CHECK(describe(make_context(&options)).isa == automatic_isa());
}

TEST_CASE("the precision is what is asked for, and plans say what is in effect", "[choices]") {
  const Environment quiet;
  for (const std::string& isa : usable_isas())
    for (const std::uint32_t asked :
         {HEED_PRECISION_AUTOMATIC, HEED_PRECISION_EXACT, HEED_PRECISION_DEFAULT,
          HEED_PRECISION_HIGH, HEED_PRECISION_MEDIUM}) {
      INFO(isa << ", precision " << asked);
      heed_context_options options = serial_options();
      options.isa = isa.c_str();
      options.precision = asked;
      const Context context = make_context(&options);
      const bool automatic = asked == HEED_PRECISION_AUTOMATIC;
      CHECK(describe(context).precision ==
            (automatic ? std::uint32_t{HEED_PRECISION_DEFAULT} : asked));
      heed_attention_desc desc = desc_of(Shape{1, 2, 2, 100, 100, 32});
      const bool rounds_all = heed_test::multiplies_pairs(isa) && asked == HEED_PRECISION_MEDIUM;
      const bool parts = heed_test::multiplies_parts(isa) && asked != HEED_PRECISION_EXACT;
      const heed_precision by_parts = parts ? HEED_PRECISION_DEFAULT : HEED_PRECISION_EXACT;
      CHECK(describe(make_plan(context, desc)).precision == (rounds_all ? HEED_PRECISION_MEDIUM
                                                             : parts && asked == HEED_PRECISION_HIGH
                                                                 ? HEED_PRECISION_HIGH
                                                                 : by_parts));
      desc.query.dtype = desc.key.dtype = desc.value.dtype = HEED_DTYPE_F16;
      CHECK(describe(make_plan(context, desc)).precision == by_parts);
      desc.query.dtype = desc.key.dtype = desc.value.dtype = HEED_DTYPE_BF16;
      const bool rounds = heed_test::multiplies_pairs(isa) && asked != HEED_PRECISION_EXACT;
      CHECK(describe(make_plan(context, desc)).precision ==
            (rounds ? HEED_PRECISION_DEFAULT : HEED_PRECISION_EXACT));
      desc.query_length = 2;  // decoded
      CHECK(describe(make_plan(context, desc)).precision ==
            (rounds ? HEED_PRECISION_DEFAULT : HEED_PRECISION_EXACT));
      desc.query.dtype = HEED_DTYPE_F32;
      desc.key.dtype = desc.value.dtype = HEED_DTYPE_I8;
      CHECK(describe(make_plan(context, desc)).precision ==
            (rounds ? HEED_PRECISION_DEFAULT : HEED_PRECISION_EXACT));
      desc.query_length = 1;  // as slow as memory: as exact as ever
      CHECK(describe(make_plan(context, desc)).precision == HEED_PRECISION_EXACT);
    }
}

TEST_CASE("the automatic executor is tbb, else openmp, else serial", "[choices][threads]") {
  const Environment quiet;
  std::string best = "serial";
  for (const std::string& name : executors())
    if (name == "tbb" || (name == "openmp" && best != "tbb")) best = name;
  const heed_context_info info = describe(make_context());
  CHECK(info.executor == best);
  CHECK(info.threads >= 1);
}

TEST_CASE("forcing an executor and its threads shows", "[choices][threads]") {
  const Environment quiet;
  for (const std::string& name : executors()) {
    const heed_context_info info = describe(make_context(nullptr, name.c_str(), 3));
    CHECK(info.executor == name);
    CHECK(info.threads == (name == "serial" ? 1 : 3));
  }
}

TEST_CASE("a caller's executor is called caller, with its own threads", "[choices]") {
  const Environment quiet;
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
  const heed_context_info info = describe(make_context(nullptr, "serial", 0));
  CHECK(info.struct_size == sizeof info);
  CHECK(info.l1_bytes >= 4096);
  CHECK(info.l2_bytes >= 4096);
  CHECK(info.threads == 1);
}

TEST_CASE("what a plan says fits the problem", "[choices]") {
  const Environment quiet;
  const Context context = make_context(nullptr, "serial", 0);
  Shape shape;
  shape.batch = 2;
  shape.query_heads = 6;
  shape.key_heads = 3;
  shape.query_length = 10;
  shape.key_length = 20;
  const heed_attention_info info = describe(make_plan(context, desc_of(shape)));
  CHECK(info.struct_size == sizeof info);
  CHECK(info.threads == 1);
  CHECK(std::string(info.executor) == "serial");
  CHECK(info.tasks >= 6);  // a key head is one task at least
  CHECK(info.tile_q >= 1);
  CHECK(info.tile_kv >= 1);
  CHECK(info.workspace_bytes > 0);
  CHECK(info.flops == 2.0 * (8 + 6) * 2 * 6 * 10 * 20);
  shape.causal = HEED_CAUSAL_TOP_LEFT;
  CHECK(describe(make_plan(context, desc_of(shape))).flops == 2.0 * (8 + 6) * 2 * 6 * 55);
  shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  CHECK(describe(make_plan(context, desc_of(shape))).flops == 2.0 * (8 + 6) * 2 * 6 * 155);
}

TEST_CASE("a problem too small to share runs on one thread", "[choices]") {
  const Environment quiet;
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  const heed_executor executor = in_order(8);
  options.executor = &executor;
  const Context context = make_context(&options);
  CHECK(describe(make_plan(context, desc_of(Shape{}))).threads == 1);
}

TEST_CASE("tiles are rounded up and shown", "[choices]") {
  const Environment quiet;
  Shape shape;
  shape.query_length = shape.key_length = 1000;
  for (const std::string& isa : usable_isas()) {
    CAPTURE(isa);
    for (const std::uint32_t tile : {1U, 33U, 500U}) {
      heed_context_options options = serial_options();
      options.isa = isa.c_str();
      options.tile_q = options.tile_kv = tile;
      const heed_attention_info info = describe(make_plan(make_context(&options), desc_of(shape)));
      CHECK(info.tile_q >= tile);
      CHECK(info.tile_q < tile + 64);
      CHECK(info.tile_kv >= tile);
      CHECK(info.tile_kv < tile + 512);
      CHECK(info.tasks == (1000 + info.tile_q - 1) / info.tile_q);
    }
  }
}
