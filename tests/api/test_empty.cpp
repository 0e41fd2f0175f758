// Sizes of 0: valid problems whose result is nothing, or zeros.
#include "tests/api/support.hpp"

using namespace api_test;

namespace {

Context serial() { return make_context(nullptr, "serial", 1); }

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

TEST_CASE("no keys: every row is 0", "[empty]") {
  for (const std::uint32_t causal :
       {HEED_CAUSAL_NONE, HEED_CAUSAL_TOP_LEFT, HEED_CAUSAL_BOTTOM_RIGHT}) {
    Shape shape;
    shape.key_length = 0;
    shape.causal = causal;
    for (const std::string& isa : usable_isas()) {
      CAPTURE(isa, causal);
      const Context context = make_context(isa.c_str(), "serial", 1);
      const heed_attention_desc desc = desc_of(shape);
      Tensors tensors(shape);
      heed_attention_args args = tensors.args();
      args.key = args.value = nullptr;
      REQUIRE(heed_attention(context.get(), &desc, &args) == HEED_STATUS_OK);
      CHECK(same_bits(tensors.out, std::vector<float>(tensors.out.size(), 0.0F)));
    }
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
