// Sizes of 0: valid problems whose result is nothing, or zeros. That their tensors are NULL is in
// tests/api/test_fields_refused.cpp, that their strides are never taken in test_strides.cpp.
#include <limits>

#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

bool all_are(const Bytes& numbers, std::size_t count, float x) {
  for (std::size_t i = 0; i < count; ++i)
    if (std::memcmp(numbers.at(i * sizeof x), &x, sizeof x) != 0) return false;
  return true;
}

}  // namespace

TEST_CASE("nothing to do", "[empty]") {
  Shape none;
  none.batch = none.query_heads = none.key_heads = none.query_length = none.key_length = 0;
  Shape no_batch, no_heads, no_rows;
  no_batch.batch = no_heads.query_heads = no_heads.key_heads = no_rows.query_length = 0;
  for (const Shape& shape : {none, no_batch, no_heads, no_rows}) {
    const heed_attention_info info = describe(make_plan(serial(), desc_of(shape)));
    CHECK(info.tasks == 0);
    CHECK(info.flops == 0);
    CHECK(info.workspace_bytes == 0);
  }
  // Further outputs, masks and biases are NULL then, even where they are asked for.
  for (const Shape& shape : {none, no_batch, no_heads}) {
    Form form;
    form.desc = desc_of(shape);
    form.desc.weights_point = HEED_WEIGHTS_SCORES;
    form.desc.sum_columns = 1;
    form.args = HEED_ATTENTION_ARGS_INIT;
    CHECK(one_call(serial(), form) == HEED_STATUS_OK);
  }
}

TEST_CASE("no keys: rows are 0 and log-sum-exps -inf; no rows: column sums are 0", "[empty]") {
  for (const std::uint32_t causal :
       {HEED_CAUSAL_NONE, HEED_CAUSAL_TOP_LEFT, HEED_CAUSAL_BOTTOM_RIGHT})
    for (const bool keys : {false, true})
      for (const std::string& isa : usable_isas()) {
        CAPTURE(isa, causal, keys);
        Form form;
        form.desc.alignment = HEED_ALIGNMENT_DEFAULT;
        form.desc.causal = causal;
        (keys ? form.desc.query_length : form.desc.key_length) = form.desc.weight_rows = 0;
        form.args.weight_rows = nullptr;
        form.args.key_lengths = nullptr;
        form.args.alibi_slopes = form.args.sinks = nullptr;
        for (const Tensor& tensor : tensors_of(form))
          if (tensor.elements == 0) tensor.point_at(nullptr);
        REQUIRE(one_call(make_context(isa.c_str(), "serial", 1), form) == HEED_STATUS_OK);
        CHECK(all_are(form.out, keys ? 0 : 2 * 4 * 3 * 6, 0));
        CHECK(all_are(form.lse, keys ? 0 : 2 * 4 * 3, -std::numeric_limits<float>::infinity()));
        CHECK(all_are(form.column_sums, keys ? 2 * 4 * 5 : 0, 0));
      }
}

TEST_CASE("no batch, packed: offsets of nothing, and rows of nobody", "[empty]") {
  const auto pack = [](Form& form) {
    form.desc = desc_of(Shape{});
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
