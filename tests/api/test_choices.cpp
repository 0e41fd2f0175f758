// ISA, executor, threads and tiles given as options: what is refused and what is taken.
#include "tests/api/support.hpp"

using namespace api_test;

namespace {

template <class Change>
void check_refused(Change change, heed_status expected, std::initializer_list<const char*> parts) {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  change(options);
  check_context_refused(options, expected, parts);
}

}  // namespace

TEST_CASE("an unknown ISA is refused, with the choices", "[choices]") {
  const Environment quiet;
  for (const char* const name : {"avx1024", "AVX2", "", "scalar "}) {
    const std::string value = "options.isa is \"" + std::string(name) + "\"";
    check_refused([&](heed_context_options& options) { options.isa = name; },
                  HEED_STATUS_INVALID_ARGUMENT, {value.c_str(), "scalar"});
  }
}

TEST_CASE("an ISA that this CPU lacks is unsupported", "[choices]") {
  const Environment quiet;
  for (std::size_t i = 0; i < heed_isa_count(); ++i) {
    heed_isa_info info = HEED_ISA_INFO_INIT;
    REQUIRE(heed_isa_get(i, &info) == HEED_STATUS_OK);
    if (info.usable == 1) continue;
    check_refused([&](heed_context_options& options) { options.isa = info.name; },
                  HEED_STATUS_UNSUPPORTED, {"options.isa", info.name, "lacks", "scalar"});
  }
}

TEST_CASE("a long name is cut in the message, not in memory", "[choices]") {
  const Environment quiet;
  const std::string name(100000, 'x');
  check_refused([&](heed_context_options& options) { options.isa = name.c_str(); },
                HEED_STATUS_INVALID_ARGUMENT, {"options.isa", "xxxx", "scalar"});
  check_refused([&](heed_context_options& options) { options.executor_name = name.c_str(); },
                HEED_STATUS_INVALID_ARGUMENT, {"options.executor_name", "xxxx", "serial"});
}

TEST_CASE("an unknown executor is refused, with the choices", "[choices]") {
  const Environment quiet;
  for (const char* const name : {"foo", "TBB", ""}) {
    const std::string value = "options.executor_name is \"" + std::string(name) + "\"";
    check_refused([&](heed_context_options& options) { options.executor_name = name; },
                  HEED_STATUS_INVALID_ARGUMENT, {value.c_str(), "serial"});
  }
}

TEST_CASE("an executor and a name for one are too many", "[choices]") {
  const Environment quiet;
  const heed_executor executor = in_order(2);
  check_refused(
      [&](heed_context_options& options) {
        options.executor = &executor;
        options.executor_name = "serial";
      },
      HEED_STATUS_INVALID_ARGUMENT,
      {"options.executor_name is \"serial\"", "options.executor is set"});
}

TEST_CASE("a caller's executor has a function and threads", "[choices]") {
  const Environment quiet;
  heed_executor executor = in_order(2);
  executor.run = nullptr;
  check_refused([&](heed_context_options& options) { options.executor = &executor; },
                HEED_STATUS_INVALID_ARGUMENT, {"options.executor.run", "NULL"});
  for (const std::uint32_t threads : {0U, 1025U, 0xffffffffU}) {
    executor = in_order(threads);
    const std::string value = "options.executor.threads is " + std::to_string(threads);
    check_refused([&](heed_context_options& options) { options.executor = &executor; },
                  HEED_STATUS_INVALID_ARGUMENT, {value.c_str(), "1 to 1024"});
  }
}

TEST_CASE("a caller's allocator has both functions", "[choices]") {
  const Environment quiet;
  CountingAllocator memory;
  heed_allocator allocator = memory.get();
  allocator.allocate = nullptr;
  const auto give = [&](heed_context_options& options) { options.allocator = &allocator; };
  check_refused(give, HEED_STATUS_INVALID_ARGUMENT, {"options.allocator.allocate", "NULL"});
  allocator = memory.get();
  allocator.release = nullptr;
  check_refused(give, HEED_STATUS_INVALID_ARGUMENT, {"options.allocator.release", "NULL"});
  CHECK(memory.live() == 0);
}

TEST_CASE("a caller's allocator has a reserved word of 0", "[choices]") {
  const Environment quiet;
  CountingAllocator memory;
  heed_allocator allocator = memory.get();
  allocator.reserved = 7;
  check_refused([&](heed_context_options& options) { options.allocator = &allocator; },
                HEED_STATUS_INVALID_ARGUMENT, {"options.allocator.reserved is 7", "must be 0"});
  CHECK(memory.live() == 0);
}

TEST_CASE("threads past 1024 are refused", "[choices]") {
  const Environment quiet;
  const heed_executor executor = in_order(2);
  for (const std::uint32_t threads : {1025U, 0xffffffffU}) {
    const std::string value = "options.threads is " + std::to_string(threads);
    check_refused([&](heed_context_options& options) { options.threads = threads; },
                  HEED_STATUS_INVALID_ARGUMENT, {value.c_str(), "1024"});
    check_refused(
        [&](heed_context_options& options) {
          options.threads = threads;
          options.executor_name = "serial";
        },
        HEED_STATUS_INVALID_ARGUMENT, {value.c_str(), "1024"});
    check_refused(
        [&](heed_context_options& options) {
          options.threads = threads;
          options.executor = &executor;
        },
        HEED_STATUS_INVALID_ARGUMENT, {value.c_str(), "1024"});
  }
}

TEST_CASE("tiles past 65536 are refused", "[choices]") {
  const Environment quiet;
  for (const std::uint32_t tile : {65537U, 0xffffffffU}) {
    const std::string value = " is " + std::to_string(tile);
    check_refused([&](heed_context_options& options) { options.tile_q = tile; },
                  HEED_STATUS_INVALID_ARGUMENT, {"options.tile_q", value.c_str(), "65536"});
    check_refused([&](heed_context_options& options) { options.tile_kv = tile; },
                  HEED_STATUS_INVALID_ARGUMENT, {"options.tile_kv", value.c_str(), "65536"});
  }
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

TEST_CASE("the automatic ISA is the widest usable one", "[choices]") {
  const Environment quiet;
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor_name = "serial";
  CHECK(describe(make_context(&options)).isa == usable_isas().back());
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
  executor.run = in_order(5).run;
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
      heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
      options.isa = isa.c_str();
      options.executor_name = "serial";
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
