// The workspace of a run: what is refused, and that what is asked for suffices.
#include "tests/api/support.hpp"

using namespace api_test;

TEST_CASE("a workspace that cannot be used is refused", "[workspace]") {
  const Context context = make_context(nullptr, "serial", 1);
  const Plan plan = make_plan(context, desc_of(Shape{}));
  std::size_t bytes = 0;
  REQUIRE(heed_attention_plan_workspace(plan.get(), &bytes) == HEED_STATUS_OK);
  REQUIRE(bytes > 0);
  const std::string needed = "needs " + std::to_string(bytes);
  const Workspace workspace(bytes + HEED_WORKSPACE_ALIGNMENT);
  Tensors tensors{Shape{}};
  const heed_attention_args args = tensors.args();

  forget_last_error();
  check_refusal(heed_attention_plan_run(plan.get(), &args, nullptr, bytes),
                HEED_STATUS_INVALID_WORKSPACE, {"workspace is NULL", needed.c_str()});
  for (const std::size_t given : {std::size_t{0}, std::size_t{1}, bytes - 1}) {
    const std::string value = "workspace_bytes is " + std::to_string(given);
    forget_last_error();
    check_refusal(heed_attention_plan_run(plan.get(), &args, workspace.get(), given),
                  HEED_STATUS_INVALID_WORKSPACE, {value.c_str(), needed.c_str()});
  }
  for (const int shift : {1, 4, 16, 32, 63}) {
    forget_last_error();
    check_refusal(heed_attention_plan_run(plan.get(), &args,
                                          static_cast<char*>(workspace.get()) + shift, bytes),
                  HEED_STATUS_INVALID_WORKSPACE, {"workspace is 0x", "multiple of 64"});
  }
  CHECK(tensors.out_untouched());
  CHECK(heed_attention_plan_run(plan.get(), &args, workspace.get(), bytes) == HEED_STATUS_OK);
}

TEST_CASE("workspace and description agree on its size", "[workspace]") {
  const Context context = make_context(nullptr, "serial", 1);
  for (const std::int64_t length : {0, 1, 50, 3000}) {
    Shape shape;
    shape.query_length = shape.key_length = length;
    const Plan plan = make_plan(context, desc_of(shape));
    std::size_t bytes = 1;
    REQUIRE(heed_attention_plan_workspace(plan.get(), &bytes) == HEED_STATUS_OK);
    CHECK(bytes == describe(plan).workspace_bytes);
    CHECK((bytes == 0) == (length == 0));
  }
}

TEST_CASE("a run writes nothing past its workspace, whatever was in it", "[workspace]") {
  Shape shape;
  shape.query_heads = 4;
  shape.key_heads = 2;
  shape.query_length = 45;
  shape.key_length = 83;
  shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  for (const std::string& isa : usable_isas()) {
    CAPTURE(isa);
    const Context context = make_context(isa.c_str(), "serial", 1);
    const Plan plan = make_plan(context, desc_of(shape));
    const std::size_t bytes = describe(plan).workspace_bytes;
    const Workspace workspace(bytes + 256);
    std::vector<std::vector<float>> results;
    for (const int fill : {0x00, 0xff, 0x7f}) {  // 0xff.. is a NaN, 0x7f7f7f7f is large
      std::memset(workspace.get(), fill, bytes + 256);
      Tensors tensors(shape);
      const heed_attention_args args = tensors.args();
      REQUIRE(heed_attention_plan_run(plan.get(), &args, workspace.get(), bytes) == HEED_STATUS_OK);
      const auto* const end = static_cast<const unsigned char*>(workspace.get()) + bytes;
      for (int i = 0; i < 256; ++i) REQUIRE(end[i] == fill);
      results.push_back(tensors.out);
    }
    CHECK(same_bits(results[0], results[1]));
    CHECK(same_bits(results[0], results[2]));
  }
}
