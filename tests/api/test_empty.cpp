// Sizes of 0: valid problems whose result is nothing, or zeros.
#include <limits>

#include "tests/api/support.hpp"

using namespace api_test;

namespace {

/// Runs with the given tensors both ways; every pointer may be NULL, the workspace too if none
/// is needed.
void check_runs(const Shape& shape, const heed_attention_args& args) {
  const Context context = serial();
  const heed_attention_desc desc = desc_of(shape);
  const Plan plan = make_plan(context, desc);
  const Workspace workspace(describe(plan).workspace_bytes);
  const heed_status planned = heed_attention_plan_run(
      plan.get(), &args, workspace.bytes() == 0 ? nullptr : workspace.get(), workspace.bytes());
  INFO(heed_last_error());
  CHECK(planned == HEED_STATUS_OK);
  CHECK(heed_attention(context.get(), &desc, &args) == HEED_STATUS_OK);
}

/// Further outputs of a shape, of a pattern that no result is.
struct Further {
  explicit Further(const Shape& s)
      : lse(Tensors::count(s.batch, s.query_heads, s.query_length, 1), Tensors::kUntouched),
        weights(Tensors::count(s.batch, s.query_heads, s.query_length, s.key_length),
                Tensors::kUntouched),
        column_sums(Tensors::count(s.batch, s.query_heads, s.key_length, 1), Tensors::kUntouched) {}
  void ask(heed_attention_desc& desc, heed_attention_args& args) {
    desc.weights_point = HEED_WEIGHTS_PROBABILITIES;
    desc.sum_columns = 1;
    args.lse = lse.data();
    args.weights = weights.data();
    args.column_sums = column_sums.data();
  }
  std::vector<float> lse, weights, column_sums;
};

bool all_are(const std::vector<float>& numbers, float x) {
  return same_bits(numbers, std::vector<float>(numbers.size(), x));
}

heed_attention_args no_tensors() { return HEED_ATTENTION_ARGS_INIT; }

}  // namespace

TEST_CASE("no batch, no heads: nothing to do", "[empty]") {
  Shape no_batch;
  no_batch.batch = 0;
  check_runs(no_batch, no_tensors());
  Shape no_heads;
  no_heads.query_heads = no_heads.key_heads = 0;
  check_runs(no_heads, no_tensors());
  CHECK(describe(make_plan(serial(), desc_of(no_batch))).tasks == 0);
  CHECK(describe(make_plan(serial(), desc_of(no_heads))).workspace_bytes == 0);
}

TEST_CASE("no query heads, but key heads", "[empty]") {
  Shape shape;
  shape.query_heads = 0;
  shape.key_heads = 3;
  const Tensors tensors(shape);
  heed_attention_args args = no_tensors();
  args.key = tensors.key.data();
  args.value = tensors.value.data();
  check_runs(shape, args);
}

TEST_CASE("no query rows: nothing to do", "[empty]") {
  Shape shape;
  shape.query_length = 0;
  const Tensors tensors(shape);
  heed_attention_args args = no_tensors();
  args.key = tensors.key.data();
  args.value = tensors.value.data();
  for (const std::uint32_t causal :
       {HEED_CAUSAL_NONE, HEED_CAUSAL_TOP_LEFT, HEED_CAUSAL_BOTTOM_RIGHT}) {
    shape.causal = causal;
    check_runs(shape, args);
    CHECK(describe(make_plan(serial(), desc_of(shape))).flops == 0);
  }
}

TEST_CASE("nothing at all", "[empty]") {
  Shape shape;
  shape.batch = shape.query_heads = shape.key_heads = shape.query_length = shape.key_length = 0;
  check_runs(shape, no_tensors());
}

TEST_CASE("an empty out needs no stride that keeps it apart", "[empty]") {
  Shape shape;
  shape.query_length = 0;
  heed_attention_desc desc = desc_of(shape);
  desc.out.stride_feature = 1;
  CHECK(describe(make_plan(serial(), desc)).tasks == 0);
}

TEST_CASE("no keys: every row is 0, every log-sum-exp -inf", "[empty]") {
  for (const std::uint32_t causal :
       {HEED_CAUSAL_NONE, HEED_CAUSAL_TOP_LEFT, HEED_CAUSAL_BOTTOM_RIGHT})
    for (const bool asked : {false, true})
      for (const std::string& isa : usable_isas()) {
        CAPTURE(isa, causal, asked);
        Shape shape;
        shape.key_length = 0;
        shape.causal = causal;
        const Context context = make_context(isa.c_str(), "serial", 1);
        heed_attention_desc desc = desc_of(shape);
        Tensors tensors(shape);
        heed_attention_args args = tensors.args();
        args.key = args.value = nullptr;
        Further further(shape);
        if (asked) further.ask(desc, args);
        REQUIRE(heed_attention(context.get(), &desc, &args) == HEED_STATUS_OK);
        CHECK(all_are(tensors.out, 0));
        CHECK(all_are(further.lse,
                      asked ? -std::numeric_limits<float>::infinity() : Tensors::kUntouched));
      }
}

TEST_CASE("no query rows: every column sum is 0", "[empty]") {
  Shape shape;
  shape.query_length = 0;
  for (const std::string& isa : usable_isas()) {
    CAPTURE(isa);
    const Context context = make_context(isa.c_str(), "serial", 1);
    heed_attention_desc desc = desc_of(shape);
    Tensors tensors(shape);
    heed_attention_args args = tensors.args();
    args.query = nullptr;
    args.out = nullptr;
    Further further(shape);
    further.ask(desc, args);
    args.lse = args.weights = nullptr;
    const heed_status status = heed_attention(context.get(), &desc, &args);
    INFO(heed_last_error());
    REQUIRE(status == HEED_STATUS_OK);
    CHECK(all_are(further.column_sums, 0));
  }
}

TEST_CASE("no batch, no heads: masks, biases and further outputs may all be NULL", "[empty]") {
  for (std::int64_t Shape::*const size : {&Shape::batch, &Shape::query_heads}) {
    Shape shape;
    shape.*size = 0;
    if (size == &Shape::query_heads) shape.key_heads = 0;
    heed_attention_desc desc = desc_of(shape);
    desc.weights_point = HEED_WEIGHTS_SCORES;
    desc.sum_columns = 1;
    const heed_attention_args args = no_tensors();
    CHECK(heed_attention(serial().get(), &desc, &args) == HEED_STATUS_OK);
  }
}

TEST_CASE("no batch, packed: offsets of nothing, and rows of nobody", "[empty]") {
  Shape shape;
  shape.batch = 0;
  heed_attention_desc desc = desc_of(shape);
  desc.packed_queries = desc.packed_keys = 5;
  const std::int32_t offsets[] = {0};
  std::vector<float> rows(64);
  const auto with = [&](bool query, bool key, bool value, bool out) {
    heed_attention_args args = no_tensors();
    args.cu_seqlens_q = args.cu_seqlens_k = offsets;
    if (query) args.query = rows.data();
    if (key) args.key = rows.data();
    if (value) args.value = rows.data();
    if (out) args.out = rows.data();
    forget_last_error();
    return heed_attention(serial().get(), &desc, &args);
  };
  CHECK(with(true, true, true, true) == HEED_STATUS_OK);
  // Tensors with elements are given, whoever the elements belong to.
  check_refusal(with(false, true, true, true), HEED_STATUS_INVALID_ARGUMENT, "args.query is NULL");
  check_refusal(with(true, false, true, true), HEED_STATUS_INVALID_ARGUMENT, "args.key is NULL");
  check_refusal(with(true, true, false, true), HEED_STATUS_INVALID_ARGUMENT, "args.value is NULL");
  check_refusal(with(true, true, true, false), HEED_STATUS_INVALID_ARGUMENT, "args.out is NULL");
}
