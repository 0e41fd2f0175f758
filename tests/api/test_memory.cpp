// A caller's allocator: used for everything, given everything back, and free to refuse.
#include "tests/api/counting_allocator.hpp"
#include "tests/api/problems.hpp"

using namespace api_test;

namespace {

/// Refuses the first request, then the second ... until the call succeeds; how many it refused.
/// `call` returns the status, having given back what it made; nothing may stay behind.
template <class Call>
std::size_t refuse_each_request(CountingAllocator& memory, Call call) {
  const std::size_t live = memory.live();
  for (std::size_t refused = 0;; ++refused) {
    REQUIRE(refused < 100);
    CAPTURE(refused);
    memory.restart(refused);
    forget_last_error();
    const heed_status status = call();
    CHECK(memory.live() == live);
    CHECK(memory.sound());
    memory.restart();
    if (status == HEED_STATUS_OK) return refused;
    check_refusal(status, HEED_STATUS_OUT_OF_MEMORY, "the allocator returned NULL for ... bytes");
  }
}

heed_status create_context(const heed_context_options& options) {
  Object made;
  return make_object(made, heed_context_destroy, [&](heed_context** context) {
    return heed_context_create(&options, context);
  });
}

/// Calls function(kind, context, memory) for problems of every operation and every executor; all
/// memory is given back.
template <class Function>
void each_kind_and_executor(std::uint32_t threads, Function&& function) {
  const Environment quiet;
  for (const Kind& kind : kinds())
    for (const std::string& name : executors()) {
      CAPTURE(kind.name, name);
      CountingAllocator memory;
      const heed_allocator allocator = memory.get();
      heed_context_options options = serial_options(&allocator);
      options.executor_name = name.c_str();
      options.threads = threads;
      function(kind, make_context(&options), memory);
      CHECK(memory.live() == 0);
      CHECK(memory.sound());
    }
}

void check_context_asks(const heed_context_options& options, CountingAllocator& memory) {
  CHECK(refuse_each_request(memory, [&] { return create_context(options); }) > 0);
}

}  // namespace

TEST_CASE("a context that gets no memory is refused", "[allocator][threads]") {
  const Environment environment;
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  heed_context_options options = serial_options(&allocator);
  for (const std::string& name : executors()) {
    CAPTURE(name);
    options.executor_name = name.c_str();
    check_context_asks(options, memory);
  }
  options.executor_name = nullptr;
  const heed_executor executor = in_order(2);
  options.executor = &executor;
  check_context_asks(options, memory);
  // Nor is it the environment's fault.
  options.executor = nullptr;
  environment.set("HEED_PARALLEL", "serial");
  environment.set("HEED_ISA", "scalar");
  check_context_asks(options, memory);
}

TEST_CASE("a refused context gives its memory back", "[allocator]") {
  const Environment quiet;
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  heed_context_options options = serial_options(&allocator);
  options.executor_name = "foo";
  CHECK(create_context(options) == HEED_STATUS_INVALID_ARGUMENT);
  heed_executor executor = in_order(2);
  executor.run = nullptr;
  options.executor_name = nullptr;
  options.executor = &executor;
  CHECK(create_context(options) == HEED_STATUS_INVALID_ARGUMENT);
  CHECK(memory.live() == 0);
  CHECK(memory.sound());
}

TEST_CASE("graphs, matrices, plans and calls that get no memory are refused",
          "[allocator][threads]") {
  const auto check = [](const Kind& kind, const Context& context, CountingAllocator& memory) {
    const std::unique_ptr<Problem> problem = kind.problem();
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
    CHECK(refuse_each_request(memory, [&] {
            problem->forget_outputs();
            const heed_status status = problem->call(context);
            CHECK((status == HEED_STATUS_OK) == !problem->untouched());
            return status;
          }) > 0);
    const std::size_t live = memory.live();
    problem->tensors.front().point_at(nullptr);
    CHECK(problem->call(context) == HEED_STATUS_INVALID_ARGUMENT);
    CHECK(memory.live() == live);
  };
  each_kind_and_executor(2, check);
}

TEST_CASE("a matrix larger than all memory is refused", "[allocator][weights]") {
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  heed_context_options options = serial_options(&allocator);
  options.check = HEED_CHECK_OFF;  // which would read the matrix, of which there is but one number
  const Context context = make_context(&options);
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.in = desc.out = std::int64_t{1} << 27;
  desc.layout.stride_out = 1;
  const float number = 0;
  const std::size_t live = memory.live();
  Object made;
  memory.restart(1);
  CHECK(make_object(made, heed_weights_destroy, [&](heed_weights** weights) {
          return heed_weights_create(context.get(), &desc, &number, nullptr, weights);
        }) == HEED_STATUS_OUT_OF_MEMORY);
  CHECK(memory.live() == live);
}

TEST_CASE("a refused graph gives its memory back", "[allocator][graph]") {
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  const heed_context_options options = serial_options(&allocator);
  const Context context = make_context(&options);
  const std::size_t live = memory.live();
  SmallGraph form;
  Object made;
  const auto create = [&](heed_graph** graph) {
    return heed_graph_create(context.get(), &form.desc, graph);
  };
  form.sources[3] = 4;
  CHECK(make_object(made, heed_graph_destroy, create) == HEED_STATUS_INVALID_ARGUMENT);
  form.sources[3] = 0;
  form.desc.nodes = -4;
  CHECK(make_object(made, heed_graph_destroy, create) == HEED_STATUS_INVALID_ARGUMENT);
  CHECK(memory.live() == live);
  CHECK(memory.sound());
}

TEST_CASE("a run asks the allocator for nothing", "[allocator][threads]") {
  const auto check = [](const Kind& kind, const Context& context, CountingAllocator& memory) {
    const std::unique_ptr<Problem> problem = kind.problem();
    Object plan;
    REQUIRE(problem->prepare_and_create(context, plan));
    memory.restart();
    for (int i = 0; i < 3; ++i) CHECK(problem->run(plan) == HEED_STATUS_OK);
    CHECK(memory.requests() == 0);
  };
  each_kind_and_executor(4, check);
}

TEST_CASE("a caller's allocator is copied", "[allocator]") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    CountingAllocator memory;
    heed_allocator allocator = memory.get();
    const heed_context_options options = serial_options(&allocator);
    const Context context = make_context(&options);
    allocator.allocate = nullptr;
    allocator.release = nullptr;
    memory.restart();
    Object plan;
    CHECK(kind.problem()->prepare_and_create(context, plan));
    CHECK(memory.requests() > 0);
  }
}
