// Sizes of 0: valid problems with nothing to compute. What others give, sweeps see; that tensors
// are NULL is in test_fields_refused.cpp, that their strides are never taken in test_strides.cpp.
#include "tests/api/refused.hpp"

using namespace api_test;

TEST_CASE("nothing to do", "[empty]") {
  for (const auto size : {&heed_attention_desc::batch, &heed_attention_desc::query_heads,
                          &heed_attention_desc::query_length}) {
    heed_attention_desc desc = small_desc();
    desc.*size = 0;
    const heed_attention_info info = describe(make_plan(serial(), desc));
    CHECK(info.tasks == 0);
    CHECK(info.flops == 0);
    CHECK(info.workspace_bytes == 0);
    if (desc.query_length == 0) continue;
    // Further outputs, masks and biases are NULL then, even where they are asked for.
    Form form;
    form.desc = desc;
    form.desc.weights_point = HEED_WEIGHTS_SCORES;
    form.desc.sum_columns = 1;
    form.args = HEED_ATTENTION_ARGS_INIT;
    CHECK(one_call(serial(), form) == HEED_STATUS_OK);
  }
}

TEST_CASE("no batch, packed: offsets of nothing, and rows of nobody", "[empty]") {
  const auto pack = [](Form& form) {
    form.desc = small_desc();
    form.desc.batch = 0;
    form.desc.packed_queries = form.desc.packed_keys = 5;
    form.args = HEED_ATTENTION_ARGS_INIT;
    give(form, {"query", "key", "value", "out"});
    form.args.cu_seqlens_q = form.args.cu_seqlens_k = form.cu_seqlens_q;  // 0
  };
  Form form;
  pack(form);
  CHECK(one_call(serial(), form) == HEED_STATUS_OK);
  // Tensors with elements are given, whoever the elements belong to.
  for (const std::string name : {"args.query", "args.key", "args.value", "args.out"}) {
    Form less;
    pack(less);
    set(less, name, kNull);
    check_refusal(one_call(serial(), less), HEED_STATUS_INVALID_ARGUMENT, name + " is NULL");
  }
}
