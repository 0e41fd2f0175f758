// struct_size: how programs and libraries of different versions meet, for every struct of the API.
#include <cstddef>

#include "tests/api/cache_forms.hpp"
#include "tests/api/counting_allocator.hpp"
#include "tests/api/functions.hpp"
#include "tests/api/other_forms.hpp"
#include "tests/api/problems.hpp"
#include "tests/api/struct_sizes.hpp"

using namespace api_test;

namespace {

/// Makes an object and destroys it.
template <class T, class Create>
heed_status make(void (*destroy)(T*), Create create) {
  Object made;
  return make_object(made, destroy, create);
}

heed_status make(const heed_context_options& options) {
  return make(heed_context_destroy,
              [&](heed_context** context) { return heed_context_create(&options, context); });
}

/// Outputs are written by a call that succeeds, and by no other.
template <class Call>
heed_status writes(const std::vector<Bytes*>& outputs, Call call) {
  for (Bytes* const output : outputs) *output = Bytes(kPattern);
  const heed_status status = call();
  for (const Bytes* const output : outputs)
    if (status != HEED_STATUS_OK) CHECK(output->all_are(kPattern));
  if (status == HEED_STATUS_OK) CHECK_FALSE(outputs.front()->all_are(kPattern));
  return status;
}

/// Makes a plan from a descriptor, and destroys it.
template <class AForm>
heed_status make_plan_of(const AForm& form, const decltype(AForm::desc)* desc) {
  using Api = Functions<AForm>;
  const Context context = serial();
  const Graph graph = graph_of(context, form);
  return make(Api::destroy, [&](typename Api::Plan** plan) {
    return Api::create(context.get(), graph.get(), desc, plan);
  });
}

/// The descriptor and the arguments of an operation, which writes these outputs.
template <class AForm>
void check_operation(const char* desc_widths, const char* args_widths, AForm& form,
                     const std::vector<Bytes*>& outputs) {
  check_taken(given("desc", desc_widths, form.desc,
                    [&](const auto* desc) { return make_plan_of(form, desc); }));
  const Context context = serial();
  const Graph graph = graph_of(context, form);
  check_taken(given("args", args_widths, form.args, [&](const auto* args) {
    return writes(outputs, [&] {
      return Functions<AForm>::call(context.get(), graph.get(), &form.desc, args);
    });
  }));
}

constexpr const char* kAttentionDesc = "448888888LLLL8888448884444888SSLLL888LL";
constexpr const char* kAttentionArgs = "4488888888888888888888";

}  // namespace

TEST_CASE("struct_size of contexts, executors and allocators", "[struct_size]") {
  const Environment quiet;
  check_taken(given("options", "448888448448", serial_options(),
                    [](const heed_context_options* options) { return make(*options); }));
  check_taken(given("options.executor", "4488", in_order(1), [](const heed_executor* executor) {
    heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
    options.executor = executor;
    return make(options);
  }));
  CountingAllocator memory;
  check_taken(
      given("options.allocator", "44888", memory.get(),
            [](const heed_allocator* allocator) { return make(serial_options(allocator)); }));
  CHECK(memory.live() == 0);
}

TEST_CASE("struct_size of dense attention", "[struct_size]") {
  Form form;
  check_operation(kAttentionDesc, kAttentionArgs, form,
                  {&form.out, &form.lse, &form.weights, &form.column_sums});
}

TEST_CASE("struct_size of blocks, and of the attention inside", "[struct_size][multihead]") {
  BlockForm form;
  const std::vector<Bytes*> outputs = {&form.out, &form.lse, &form.weights};
  check_operation("448888LLLMMMM44", "448888888888888888888", form, outputs);
  check_taken(given("desc.attention", kAttentionDesc, form.attention,
                    [&](const heed_attention_desc* attention) {
                      heed_multihead_desc desc = form.desc;
                      desc.attention = attention;
                      return make_plan_of(form, &desc);
                    }));
  check_taken(
      given("args.attention", kAttentionArgs, form.inner, [&](const heed_attention_args* inner) {
        form.args.attention = inner;
        return writes(outputs, [&] { return one_call(serial(), form); });
      }));
}

TEST_CASE("struct_size of gradients, and of the attention inside", "[struct_size][backward]") {
  BackwardForm form;
  const auto writes_nothing_refused = [&](const heed_attention_backward_args& args) {
    for (Bytes& grad : form.grads) grad = Bytes(kPattern);
    const heed_status status = heed_attention_backward(serial().get(), &form.desc, &args);
    // What a shorter struct lacks is not wanted.
    const bool wanted = args.struct_size >= offsetof(heed_attention_backward_args, grad_key) &&
                        args.grad_query != nullptr;
    CHECK(form.outputs_untouched() == (status != HEED_STATUS_OK || !wanted));
    return status;
  };
  check_taken(given("desc", "448LLLLLS", form.desc, [&](const heed_attention_backward_desc* desc) {
    return make_plan_of(form, desc);
  }));
  check_taken(given("args", "44888888888888", form.args,
                    [&](const auto* args) { return writes_nothing_refused(*args); }));
  check_taken(given("desc.attention", kAttentionDesc, form.attention,
                    [&](const heed_attention_desc* attention) {
                      heed_attention_backward_desc desc = form.desc;
                      desc.attention = attention;
                      return make_plan_of(form, &desc);
                    }));
  check_taken(
      given("args.attention", kAttentionArgs, form.inner, [&](const heed_attention_args* inner) {
        heed_attention_backward_args args = form.args;
        args.attention = inner;
        return writes_nothing_refused(args);
      }));
}

TEST_CASE("struct_size of the gradients of blocks, and of the block inside",
          "[struct_size][backward]") {
  BlockBackwardForm form;
  const auto writes_nothing_refused = [&](const heed_multihead_backward_args& args) {
    for (Bytes& grad : form.grads) grad = Bytes(kPattern);
    const heed_status status = heed_multihead_backward(serial().get(), &form.desc, &args);
    // What a shorter struct lacks is not wanted.
    const bool wanted =
        args.struct_size >= offsetof(heed_multihead_backward_args, grad_input_key) &&
        args.grad_input_query != nullptr;
    CHECK(form.outputs_untouched() == (status != HEED_STATUS_OK || !wanted));
    return status;
  };
  check_taken(given("desc", "448LLLLMMMMS44", form.desc,
                    [&](const auto* desc) { return make_plan_of(form, desc); }));
  check_taken(given("args", "4488888888888888888888", form.args,
                    [&](const auto* args) { return writes_nothing_refused(*args); }));
  check_taken(given("desc.block", "448888LLLMMMM44", form.block.desc,
                    [&](const heed_multihead_desc* block) {
                      heed_multihead_backward_desc desc = form.desc;
                      desc.block = block;
                      return make_plan_of(form, &desc);
                    }));
  check_taken(given("args.block", "448888888888888888888", form.block.args,
                    [&](const heed_multihead_args* block) {
                      heed_multihead_backward_args args = form.args;
                      args.block = block;
                      return writes_nothing_refused(args);
                    }));
}

TEST_CASE("struct_size of graphs", "[struct_size][graph]") {
  const Context context = serial();
  GraphForm form;
  check_taken(given("desc", "4488888448", form.graph.desc, [&](const heed_graph_desc* desc) {
    return make(heed_graph_destroy,
                [&](heed_graph** graph) { return heed_graph_create(context.get(), desc, graph); });
  }));
  check_operation("448888888884444LLLLLLLLLMMMMM", "44888888888888888888888", form,
                  {&form.out, &form.lse, &form.weights});
}

TEST_CASE("struct_size of gradients over graphs, and of the attention inside",
          "[struct_size][backward][graph]") {
  GraphBackwardForm form;
  const Context context = serial();
  const Graph graph = make_graph(context, form.graph.desc);
  const auto plan_of = [&](const heed_graph_attention_backward_desc* desc) {
    return make(
        heed_graph_attention_backward_plan_destroy, [&](heed_graph_attention_backward_plan** plan) {
          return heed_graph_attention_backward_plan_create(context.get(), graph.get(), desc, plan);
        });
  };
  const auto writes_nothing_refused = [&](const heed_graph_attention_backward_args& args) {
    for (Bytes& grad : form.grads) grad = Bytes(kPattern);
    const heed_status status =
        heed_graph_attention_backward(context.get(), graph.get(), &form.desc, &args);
    const bool wanted =
        args.struct_size >= offsetof(heed_graph_attention_backward_args, grad_key) &&
        args.grad_query != nullptr;
    CHECK(form.outputs_untouched() == (status != HEED_STATUS_OK || !wanted));
    return status;
  };
  check_taken(given("desc", "448LLLLLLLLMMMMM", form.desc, plan_of));
  check_taken(given("args", "44888888888888888888", form.args,
                    [&](const auto* args) { return writes_nothing_refused(*args); }));
}

TEST_CASE("struct_size of merges and of matrices to prepare", "[struct_size]") {
  const Context context = serial();
  const float part = 3;
  float out = 0;
  const void* const parts[] = {&part};
  heed_merge_desc merge = HEED_MERGE_DESC_INIT;
  merge.batch = merge.heads = merge.rows = merge.features = 1;
  check_taken(given("desc", "448888LLLL", merge, [&](const heed_merge_desc* desc) {
    out = 0;
    const heed_status status = heed_merge(context.get(), desc, 1, parts, parts, &out, nullptr);
    CHECK((out == 0 || (out == 3 && status == HEED_STATUS_OK)));
    return status;
  }));
  CHECK(out == 0);
  Bytes numbers;
  heed_weights_desc matrix = HEED_WEIGHTS_DESC_INIT;
  matrix.in = 3;
  matrix.out = 4;
  check_taken(given("desc", "44888M44", matrix, [&](const heed_weights_desc* desc) {
    return make(heed_weights_destroy, [&](heed_weights** weights) {
      return heed_weights_create(context.get(), desc, numbers.at(), nullptr, weights);
    });
  }));
}

TEST_CASE("struct_size of a projection", "[struct_size][weights]") {
  const Context context = serial();
  ProjectForm form;
  check_taken(given("desc", "4488LL", form.desc, [&](const heed_project_desc* desc) {
    form.out = Bytes(kPattern);
    const heed_status status = heed_project(context.get(), desc, form.weights, form.x, form.y);
    // What a shorter struct lacks is 0, without which there are no rows.
    const bool rows = desc->struct_size >= offsetof(heed_project_desc, x) && desc->rows > 0;
    CHECK(form.outputs_untouched() == (status != HEED_STATUS_OK || !rows));
    return status;
  }));
}

TEST_CASE("struct_size of a rotation", "[struct_size][rotate]") {
  const Context context = serial();
  RotateForm form;
  form.desc.position = 3;
  check_taken(given("desc", "448888LLR8", form.desc, [&](const heed_rotate_desc* desc) {
    form.out = Bytes(kPattern);
    const heed_status status = heed_rotate(context.get(), desc, form.from, nullptr, form.to);
    CHECK(form.outputs_untouched() == (status != HEED_STATUS_OK));
    return status;
  }));
}

TEST_CASE("struct_size of caches, of rows to append and of attention over a cache",
          "[struct_size][cache]") {
  CacheAttentionForm form;
  form.make();
  check_taken(given("desc", "44888888888R", form.desc, [&](const heed_cache_desc* desc) {
    std::size_t bytes = 0;
    const heed_status told = heed_cache_bytes(desc, &bytes);
    const heed_status status = make(heed_cache_destroy, [&](heed_cache** cache) {
      return heed_cache_create(form.context.get(), desc, cache);
    });
    CHECK(told == status);
    return status;
  }));
  heed_cache_append_desc append = HEED_CACHE_APPEND_DESC_INIT;
  append.rows = 2;
  check_taken(given("desc", "4488LL88", append, [&](const heed_cache_append_desc* desc) {
    heed_cache* const cache = form.cache.get();
    REQUIRE(heed_cache_truncate(cache, form.sequences[1], 5) == HEED_STATUS_OK);
    return heed_cache_append(cache, form.sequences[1], desc, form.numbers.at(), form.numbers.at());
  }));
  const auto attends = [&](const heed_cache_attention_desc* desc, const heed_attention_args* args) {
    return writes({&form.out, &form.lse},
                  [&] { return heed_cache_attention(form.cache.get(), desc, args); });
  };
  check_taken(given("desc", "4488888", form.call, [&](const heed_cache_attention_desc* desc) {
    return attends(desc, &form.args);
  }));
  check_taken(given(
      "desc.attention", kAttentionDesc, form.attention, [&](const heed_attention_desc* attention) {
        heed_cache_attention_desc desc = form.call;
        desc.attention = attention;
        form.out = Bytes(kPattern);
        const heed_status status = heed_cache_attention(form.cache.get(), &desc, &form.args);
        CHECK((status == HEED_STATUS_OK || form.out.all_are(kPattern)));
        return status;
      }));
  check_taken(given("args", kAttentionArgs, form.args,
                    [&](const heed_attention_args* args) { return attends(&form.call, args); }));
}

TEST_CASE("struct_size of what the library fills", "[struct_size]") {
  const Context context = serial();
  const GraphForm form;
  const Plan plan = make_plan(context, desc_of(Shape{}));
  const MultiheadPlan block = make_plan(context, BlockForm().desc);
  const Graph graph = make_graph(context, form.graph.desc);
  const GraphPlan over_graph = make_plan(context, graph, form.desc);
  const Weights weights = prepared(context, 3, 4);
  const Cache cache = make_cache(context, CacheForm().desc);
  const auto check = [](const char* widths, auto init, auto describe, const auto* object) {
    using Info = decltype(init);
    check_filled(given("info", widths, init, [=](Info* info) { return describe(object, info); }));
  };
  check_filled(given("info", "44844", heed_isa_info(HEED_ISA_INFO_INIT),
                     [](heed_isa_info* info) { return heed_isa_get(0, info); }));
  check("44888884488", heed_context_info(HEED_CONTEXT_INFO_INIT), heed_context_describe,
        context.get());
  check("448844888844", heed_attention_info(HEED_ATTENTION_INFO_INIT), heed_attention_plan_describe,
        plan.get());
  check("44888888844", heed_multihead_info(HEED_MULTIHEAD_INFO_INIT), heed_multihead_plan_describe,
        block.get());
  check("44888", heed_weights_info(HEED_WEIGHTS_INFO_INIT), heed_weights_describe, weights.get());
  check("448888888", heed_graph_info(HEED_GRAPH_INFO_INIT), heed_graph_describe, graph.get());
  check("448888888", heed_cache_info(HEED_CACHE_INFO_INIT), heed_cache_describe, cache.get());
  check("4488888", heed_graph_attention_info(HEED_GRAPH_ATTENTION_INFO_INIT),
        heed_graph_attention_plan_describe, over_graph.get());
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

}  // namespace

TEST_CASE("a program compiled with the first header still works", "[struct_size]") {
  const Context context = serial();
  const Shape shape = {1, 4, 2, 5, 150, 8, 6, HEED_CAUSAL_OFFSET, 120};
  Tensors tensors(shape);
  const FirstDesc first_desc = {sizeof(FirstDesc),
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
  const FirstArgs first_args = {sizeof(FirstArgs),    0,
                                tensors.query.data(), tensors.key.data(),
                                tensors.value.data(), tensors.out.data()};
  Bytes old_desc(0xee);  // what may lie behind them on an old program's stack is not to be read
  Bytes old_args(0xee);
  std::memcpy(old_desc.at(), &first_desc, sizeof first_desc);
  std::memcpy(old_args.at(), &first_args, sizeof first_args);
  const auto* const desc = static_cast<const heed_attention_desc*>(old_desc.at());
  const auto* const args = static_cast<const heed_attention_args*>(old_args.at());
  const std::vector<float> want = run(context, shape, Tensors(shape));
  REQUIRE(heed_attention(context.get(), desc, args) == HEED_STATUS_OK);
  CHECK(same_bits(tensors.out, want));

  std::fill(tensors.out.begin(), tensors.out.end(), Tensors::kUntouched);
  const Plan plan = make_plan(context, *desc);
  const Workspace workspace(describe(plan).workspace_bytes);
  REQUIRE(heed_attention_plan_run(plan.get(), args, workspace.get(), workspace.bytes()) ==
          HEED_STATUS_OK);
  CHECK(same_bits(tensors.out, want));
}
