// Sizes of 0: valid problems with nothing to compute. What others give, sweeps see; that tensors
// are NULL is in test_fields_refused.cpp, that their strides are never taken in test_strides.cpp.
#include "tests/api/refused.hpp"

using namespace api_test;

TEST_CASE("nothing to do", "[empty]") {
  for (const auto size : {&heed_attention_desc::batch, &heed_attention_desc::query_heads,
                          &heed_attention_desc::query_length}) {
    heed_attention_desc desc = small_desc();
    desc.*size = 0;
    const Plan plan = make_plan(serial(), desc);
    const heed_attention_info info = describe(plan);
    CHECK(info.tasks == 0);
    CHECK(info.flops == 0);
    CHECK(info.workspace_bytes == 0);
    std::size_t bytes = 77;
    CHECK(heed_attention_plan_workspace(plan.get(), &bytes) == HEED_STATUS_OK);
    CHECK(bytes == 0);
    if (desc.query_length == 0) continue;
    // Further outputs, masks and biases are NULL then, even where they are asked for.
    desc.weights_point = HEED_WEIGHTS_SCORES;
    desc.sum_columns = 1;
    const heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
    CHECK(heed_attention(serial().get(), &desc, &args) == HEED_STATUS_OK);
  }
}

TEST_CASE("no batch, packed: offsets of nothing, and rows of nobody", "[empty]") {
  const std::string packed =
      "desc.batch desc.weights_point desc.weight_rows desc.sum_columns = 0, "
      "desc.packed_queries desc.packed_keys = 5, args.cu_seqlens_q args.cu_seqlens_k = {0}, "
      "args.mask args.bias args.key_lengths args.alibi_slopes args.sinks args.weight_rows args.lse "
      "args.weights args.column_sums = NULL";
  CHECK(Form("dense", packed).call(serial()) == HEED_STATUS_OK);
  // Tensors with elements are given, whoever the elements belong to.
  for (const std::string name : {"args.query", "args.key", "args.value", "args.out"})
    check_refusal(Form("dense", packed + ", " + name + " = NULL").call(serial()),
                  HEED_STATUS_INVALID_ARGUMENT, name + " is NULL");
}
