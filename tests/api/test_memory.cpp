// A caller's allocator: used for everything, given everything back, and free to refuse.
#include "tests/api/caches.hpp"
#include "tests/api/problems.hpp"

using namespace api_test;

TEST_CASE("a context that gets no memory is refused", "[allocator][threads]") {
  const Environment environment;
  CountingAllocator memory;
  heed_context_options options = memory.options();
  const auto check_asks = [&] {
    CHECK(refuse_each_request(memory, [&] { return try_context(options); }) > 0);
  };
  for (const std::string& name : executors()) {
    CAPTURE(name);
    options.executor_name = name.c_str();
    check_asks();
  }
  options.executor_name = nullptr;
  const heed_executor executor = in_order(2);
  options.executor = &executor;
  check_asks();
  // Nor is it the environment's fault.
  options.executor = nullptr;
  environment.set("HEED_PARALLEL", "serial");
  environment.set("HEED_ISA", "scalar");
  check_asks();
}

namespace {

void check_asks(const Kind& kind, const Context& context, CountingAllocator& memory) {
  const std::unique_ptr<Form> problem = kind.problem();
  if (problem->of.planned != nullptr) {
    const std::size_t refused = refuse_each_request(memory, [&] {
      const heed_status status = problem->prepare(context);
      problem->share(*kind.problem());  // with nothing made
      return status;
    });
    REQUIRE(problem->prepare(context) == HEED_STATUS_OK);
    CHECK((refused > 0) == (problem->graph || !problem->matrices.empty()));
    Object plan;
    CHECK(refuse_each_request(memory, [&] {
            const heed_status status = problem->create(context, plan);
            plan.reset();
            return status;
          }) > 0);
  }
  const std::size_t refused = refuse_each_request(memory, [&] {
    problem->forget_outputs();
    const heed_status status = problem->call(context);
    CHECK((status == HEED_STATUS_OK) == !problem->untouched());
    return status;
  });
  CHECK((refused > 0 || problem->of.planned == nullptr));
}

}  // namespace

TEST_CASE("whatever gets no memory is refused, of an allocator that was copied",
          "[allocator][threads]") {
  const Environment quiet;
  for (const std::vector<Kind>& all : {kinds(), unplanned_kinds()})
    for (const Kind& kind : all)
      for (const std::string& name : executors()) {
        CAPTURE(kind.name, name);
        CountingAllocator memory;
        heed_allocator allocator = memory.get();
        heed_context_options options = memory.options();
        options.allocator = &allocator;
        options.executor_name = name.c_str();
        options.threads = 2;
        Context context = make_context(&options);
        allocator.allocate = nullptr;
        allocator.release = nullptr;
        check_asks(kind, context, memory);
        context.reset();
        CHECK(memory.live() == 0);
        CHECK(memory.sound());
      }
}

TEST_CASE("a cache takes its memory at once, as much as it says", "[allocator][cache]") {
  for (const std::uint32_t dtype :
       {HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_I8, HEED_DTYPE_F8_E4M3})
    for (const std::int64_t pages : {1, 3, 1000}) {
      CAPTURE(dtype, pages);
      CountingAllocator memory;
      const heed_context_options options = memory.options();
      Context context = make_context(&options);
      const std::size_t before = memory.bytes();
      heed_cache_desc desc = two_layers();
      desc.rotary.pairs = HEED_ROTARY_HALVES;
      desc.dtype = dtype;
      desc.pages = pages;
      std::size_t told = 0;
      REQUIRE(heed_cache_bytes(&desc, &told) == HEED_STATUS_OK);
      memory.restart();
      Cache cache = make_cache(context, desc);
      CHECK(memory.requests() == 1);
      CHECK(memory.bytes() == before + told);
      const heed_cache_info info = heed_test::describe(cache);
      CHECK(info.bytes == told);
      const std::size_t row_bytes = dtype == HEED_DTYPE_F32    ? 40
                                    : dtype == HEED_DTYPE_BF16 ? 20
                                    : dtype == HEED_DTYPE_I8   ? 18
                                                               : 10;
      CHECK(info.page_bytes == 2 * 2 * 16 * row_bytes);
      CHECK(told > info.page_bytes * static_cast<std::size_t>(pages));
      CHECK(told < (info.page_bytes + 8) * static_cast<std::size_t>(pages) + 2048);
      context.reset();  // the cache holds it
      cache.reset();
      CHECK(memory.live() == 0);
      CHECK(memory.sound());
    }
}

TEST_CASE("calls of a cache that get no memory are refused and change nothing",
          "[allocator][cache]") {
  for (const bool turns : {false, true}) {
    CountingAllocator memory;
    const heed_context_options options = memory.options();
    const Context context = make_context(&options);
    Form form("cache attention", "cache.dtype = bf16, cache.(pages sequences) = 4");
    if (turns) form.apply("turn, desc.position_offset = 3");  // queries of a sequence without rows
    const auto& desc = form.at<heed_cache_desc>("cache");
    auto& call = form.at<heed_cache_attention_desc>("desc");
    CHECK(refuse_each_request(memory, [&] {
            Cache made;
            return make_object(made, [&](heed_cache** cache) {
              return heed_cache_create(context.get(), &desc, cache);
            });
          }) == 1);
    FilledCache filled(context, desc);
    heed_cache* const cache = filled.get();
    call.sequences = filled.sequences;
    heed_sequence fork = 0;  // so that a page is copied
    REQUIRE(heed_cache_fork(cache, filled.sequences[1], &fork) == HEED_STATUS_OK);
    REQUIRE(heed_cache_truncate(cache, filled.sequences[1], 4) == HEED_STATUS_OK);
    REQUIRE(heed_cache_truncate(cache, filled.sequences[0], 0) == HEED_STATUS_OK);
    filled.before = filled.state();
    heed_cache_append_desc append = HEED_CACHE_APPEND_DESC_INIT;
    append.rows = 20;
    CHECK(refuse_each_request(memory, [&] {
            const heed_status status = heed_cache_append(cache, filled.sequences[1], &append,
                                                         filled.zeros(), filled.zeros());
            CHECK((status == HEED_STATUS_OK) == (filled.state() != filled.before));
            return status;
          }) > 0);
    CHECK(refuse_each_request(memory, [&] {
            const heed_status status =
                heed_cache_attention(cache, &call, &form.at<heed_attention_args>("args"));
            CHECK((status == HEED_STATUS_OK) == !form.untouched());
            return status;
          }) > 0);
    const std::vector<std::int64_t> after = filled.state();
    std::size_t bytes = 0;
    REQUIRE(heed_cache_save_bytes(cache, fork, &bytes) == HEED_STATUS_OK);
    std::string to(bytes, 'x');
    const std::string none = to;
    CHECK(refuse_each_request(memory, [&] {
            const heed_status status = heed_cache_save(cache, fork, to.data(), bytes);
            CHECK((to != none) == (status == HEED_STATUS_OK));
            return status;
          }) > 0);
    CHECK(refuse_each_request(memory, [&] {
            heed_sequence made = 77;
            const heed_status status = heed_cache_load(cache, to.data(), bytes, &made);
            CHECK((made == 77) == (status != HEED_STATUS_OK));
            if (status == HEED_STATUS_OK) CHECK(heed_cache_free(cache, made) == HEED_STATUS_OK);
            CHECK(filled.state() == after);
            return status;
          }) > 0);
    memory.restart(0);  // these need none
    CHECK(heed_cache_truncate(cache, filled.sequences[1], 1) == HEED_STATUS_OK);
    CHECK(heed_cache_free(cache, fork) == HEED_STATUS_OK);
    CHECK(heed_cache_fork(cache, filled.sequences[1], &fork) == HEED_STATUS_OK);
  }
}
