// struct_size: how programs and libraries of different versions meet.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "tests/api/struct_sizes.hpp"
#include "tests/api/support.hpp"

using namespace api_test;

namespace {

/// Calls that make something; what they made is destroyed, what they refused is untouched.
heed_status create(const heed_context_options* options) {
  heed_context* context = untouched<heed_context>();
  const heed_status status = heed_context_create(options, &context);
  if (status == HEED_STATUS_OK) {
    heed_context_destroy(context);
  } else {
    CHECK(context == untouched<heed_context>());
  }
  return status;
}

heed_status create(const heed_executor* executor) {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor = executor;
  return create(&options);
}

heed_status create(const heed_allocator* allocator) {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor_name = "serial";
  options.allocator = allocator;
  return create(&options);
}

heed_status create(const Context& context, const heed_attention_desc* desc) {
  heed_attention_plan* plan = untouched<heed_attention_plan>();
  const heed_status status = heed_attention_plan_create(context.get(), desc, &plan);
  if (status == HEED_STATUS_OK) {
    heed_attention_plan_destroy(plan);
  } else {
    CHECK(plan == untouched<heed_attention_plan>());
  }
  return status;
}

heed_executor in_order() {
  heed_executor executor = HEED_EXECUTOR_INIT;
  executor.threads = 1;
  executor.run = [](void*, std::uint32_t count, void (*body)(void*, std::uint32_t),
                    void* argument) {
    for (std::uint32_t i = 0; i < count; ++i) body(argument, i);
  };
  return executor;
}

heed_context_options serial_options() {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor_name = "serial";
  return options;
}

}  // namespace

TEST_CASE("struct_size of options", "[struct_size]") {
  const Environment quiet;
  const auto call = [](const heed_context_options* options) { return create(options); };
  check_wrong_sizes(serial_options(), "options", call);
  check_every_size(serial_options(), "options", "448888448", call);
  check_longer(serial_options(), "options", call);
}

TEST_CASE("shorter options: what they lack is the default", "[struct_size]") {
  const Environment quiet;
  heed_context_options options = serial_options();
  options.tile_q = 99999999;  // beyond the end of the shorter struct, so never read
  options.struct_size = offsetof(heed_context_options, tile_q);
  CHECK(create(&options) == HEED_STATUS_OK);
  options.struct_size = 2 * sizeof(std::uint32_t);
  CHECK(create(&options) == HEED_STATUS_OK);
}

TEST_CASE("struct_size of a caller's executor", "[struct_size]") {
  const Environment quiet;
  const auto call = [](const heed_executor* executor) { return create(executor); };
  check_wrong_sizes(in_order(), "options.executor", call);
  check_every_size(in_order(), "options.executor", "4488", call);
  check_longer(in_order(), "options.executor", call);
  heed_executor shorter = in_order();
  shorter.struct_size = offsetof(heed_executor, run);
  forget_last_error();
  check_refusal(create(&shorter), HEED_STATUS_INVALID_ARGUMENT, {"options.executor.run", "NULL"});
}

TEST_CASE("struct_size of a caller's allocator", "[struct_size]") {
  const Environment quiet;
  CountingAllocator memory;
  const auto call = [](const heed_allocator* allocator) { return create(allocator); };
  check_wrong_sizes(memory.get(), "options.allocator", call);
  check_every_size(memory.get(), "options.allocator", "44888", call);
  check_longer(memory.get(), "options.allocator", call);
  heed_allocator shorter = memory.get();
  shorter.struct_size = offsetof(heed_allocator, release);
  forget_last_error();
  check_refusal(create(&shorter), HEED_STATUS_INVALID_ARGUMENT,
                {"options.allocator.release", "NULL"});
  CHECK(memory.live() == 0);
}

TEST_CASE("struct_size of a descriptor", "[struct_size]") {
  const Context context = make_context(nullptr, "serial", 1);
  const auto call = [&](const heed_attention_desc* desc) { return create(context, desc); };
  check_wrong_sizes(desc_of(Shape{}), "desc", call);
  check_every_size(desc_of(Shape{}), "desc", kAttentionDesc, call);
  check_longer(desc_of(Shape{}), "desc", call);
}

TEST_CASE("a shorter descriptor: what it lacks is the default", "[struct_size]") {
  const Context context = make_context(nullptr, "serial", 1);
  heed_attention_desc desc = desc_of(Shape{});
  desc.scale = std::nan("");
  desc.causal_offset = 3;
  desc.struct_size = offsetof(heed_attention_desc, scale);
  CHECK(create(context, &desc) == HEED_STATUS_OK);
}

TEST_CASE("struct_size of arguments", "[struct_size]") {
  const Context context = make_context(nullptr, "serial", 1);
  const heed_attention_desc desc = desc_of(Shape{});
  Tensors tensors{Shape{}};
  const auto call = [&](const heed_attention_args* args) {
    return heed_attention(context.get(), &desc, args);
  };
  check_wrong_sizes(tensors.args(), "args", call);
  CHECK(tensors.out_untouched());
  check_every_size(tensors.args(), "args", kAttentionArgs, call);
  check_longer(tensors.args(), "args", call);

  heed_attention_args shorter = tensors.args();
  shorter.struct_size = offsetof(heed_attention_args, out);
  forget_last_error();
  check_refusal(call(&shorter), HEED_STATUS_INVALID_ARGUMENT, {"args.out", "NULL"});
}

TEST_CASE("struct_size of what the library fills", "[struct_size]") {
  const Context context = make_context(nullptr, "serial", 1);
  const Plan plan = make_plan(context, desc_of(Shape{}));
  const auto isa = [](heed_isa_info* info) { return heed_isa_get(0, info); };
  const auto of_context = [&](heed_context_info* info) {
    return heed_context_describe(context.get(), info);
  };
  const auto of_plan = [&](heed_attention_info* info) {
    return heed_attention_plan_describe(plan.get(), info);
  };
  const heed_isa_info isa_info = HEED_ISA_INFO_INIT;
  const heed_context_info context_info = HEED_CONTEXT_INFO_INIT;
  const heed_attention_info plan_info = HEED_ATTENTION_INFO_INIT;
  check_wrong_info_sizes(isa_info, "44844", isa);
  check_wrong_info_sizes(context_info, "4488888", of_context);
  check_wrong_info_sizes(plan_info, "448844888", of_plan);
  check_info_sizes(isa_info, isa);
  check_info_sizes(context_info, of_context);
  check_info_sizes(plan_info, of_plan);
}

TEST_CASE("struct_size of a merge", "[struct_size]") {
  const Context context = make_context(nullptr, "serial", 1);
  heed_merge_desc desc = HEED_MERGE_DESC_INIT;
  desc.batch = desc.heads = desc.rows = desc.features = 1;
  const float part = 3;
  float out = 0;
  const void* const parts[] = {&part};
  const auto call = [&](const heed_merge_desc* given) {
    return heed_merge(context.get(), given, 1, parts, parts, &out, nullptr);
  };
  check_wrong_sizes(desc, "desc", call);
  CHECK(out == 0);
  check_every_size(desc, "desc", "448888LLLL", call);
  check_longer(desc, "desc", call);
  CHECK(out == 3);
  desc.lse.dtype = 99;  // beyond the end of a shorter struct, so never read
  desc.struct_size = offsetof(heed_merge_desc, lse);
  CHECK(call(&desc) == HEED_STATUS_OK);
}

namespace {

/// What programs were compiled with before there were masks: these two structs never change.
struct FirstDesc {
  std::uint32_t struct_size;
  std::uint32_t causal;
  std::int64_t batch;
  std::int64_t query_heads;
  std::int64_t key_heads;
  std::int64_t query_length;
  std::int64_t key_length;
  std::int64_t features;
  std::int64_t value_features;
  heed_layout query;
  heed_layout key;
  heed_layout value;
  heed_layout out;
  double scale;
  std::int64_t causal_offset;
};

struct FirstArgs {
  std::uint32_t struct_size;
  std::uint32_t reserved;
  const void* query;
  const void* key;
  const void* value;
  void* out;
};

static_assert(sizeof(FirstDesc) == offsetof(heed_attention_desc, softcap));
static_assert(offsetof(FirstDesc, causal_offset) == offsetof(heed_attention_desc, causal_offset));
static_assert(offsetof(FirstDesc, out) == offsetof(heed_attention_desc, out));
static_assert(sizeof(FirstArgs) == offsetof(heed_attention_args, mask));
static_assert(offsetof(FirstArgs, out) == offsetof(heed_attention_args, out));

/// A struct with what may lie behind it on an old program's stack: nothing that is to be read.
template <class T>
struct OnTheStack {
  T known;
  unsigned char behind[sizeof(heed_attention_desc)];
};

template <class T>
OnTheStack<T> on_the_stack(const T& known) {
  OnTheStack<T> result;
  std::memset(static_cast<void*>(&result), 0xee, sizeof result);
  result.known = known;
  return result;
}

}  // namespace

TEST_CASE("a program compiled with the first header still works", "[struct_size]") {
  Shape shape;
  shape.query_heads = 4;
  shape.key_heads = 2;
  shape.key_length = 150;
  shape.causal = HEED_CAUSAL_OFFSET;
  shape.causal_offset = 120;
  const FirstDesc first = {sizeof(FirstDesc),
                           HEED_CAUSAL_OFFSET,
                           1,
                           4,
                           2,
                           5,
                           150,
                           8,
                           6,
                           HEED_LAYOUT_INIT,
                           HEED_LAYOUT_INIT,
                           HEED_LAYOUT_INIT,
                           HEED_LAYOUT_INIT,
                           0,
                           120};
  const auto old_desc = on_the_stack(first);
  const auto* const desc = reinterpret_cast<const heed_attention_desc*>(&old_desc);
  Tensors tensors(shape);
  const auto old_args =
      on_the_stack(FirstArgs{sizeof(FirstArgs), 0, tensors.query.data(), tensors.key.data(),
                             tensors.value.data(), tensors.out.data()});
  const auto* const args = reinterpret_cast<const heed_attention_args*>(&old_args);
  for (const std::string& isa : usable_isas()) {
    INFO(isa);
    const Context context = make_context(isa.c_str(), "serial", 1);
    const std::vector<float> want = run(context, shape, Tensors(shape));
    REQUIRE(heed_attention(context.get(), desc, args) == HEED_STATUS_OK);
    CHECK(same_bits(tensors.out, want));

    std::fill(tensors.out.begin(), tensors.out.end(), Tensors::kUntouched);
    heed_attention_plan* made = nullptr;
    REQUIRE(heed_attention_plan_create(context.get(), desc, &made) == HEED_STATUS_OK);
    const Plan plan(made);
    const Workspace workspace(describe(plan).workspace_bytes);
    REQUIRE(heed_attention_plan_run(plan.get(), args, workspace.get(), workspace.bytes()) ==
            HEED_STATUS_OK);
    CHECK(same_bits(tensors.out, want));
  }
}
