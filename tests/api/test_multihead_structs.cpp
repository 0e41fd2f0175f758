// struct_size of everything that blocks and prepared matrices take and fill.
#include <cmath>
#include <cstddef>

#include "tests/api/blocks.hpp"
#include "tests/api/struct_sizes.hpp"

using namespace api_test;

namespace {

heed_status create(const Context& context, const heed_multihead_desc* desc) {
  heed_multihead_plan* plan = untouched<heed_multihead_plan>();
  const heed_status status = heed_multihead_plan_create(context.get(), desc, &plan);
  if (status == HEED_STATUS_OK) {
    heed_multihead_plan_destroy(plan);
  } else {
    CHECK(plan == untouched<heed_multihead_plan>());
  }
  return status;
}

heed_weights_desc matrix_desc() {
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.in = 3;
  desc.out = 4;
  return desc;
}

}  // namespace

TEST_CASE("struct_size of a block's descriptor", "[struct_size][multihead]") {
  const Context context = serial();
  const BlockForm form;
  const auto call = [&](const heed_multihead_desc* desc) { return create(context, desc); };
  check_wrong_sizes(form.desc, "desc", call);
  check_every_size(form.desc, "desc", "448888LLLMMMM44", call);
  check_longer(form.desc, "desc", call);
}

TEST_CASE("struct_size of the attention inside", "[struct_size][multihead]") {
  const Context context = serial();
  const BlockForm form;
  const auto call = [&](const heed_attention_desc* attention) {
    heed_multihead_desc desc = form.desc;
    desc.attention = attention;
    return create(context, &desc);
  };
  check_wrong_sizes(form.attention, "desc.attention", call);
  check_every_size(form.attention, "desc.attention", kAttentionDesc, call);
  check_longer(form.attention, "desc.attention", call);
  heed_attention_desc shorter = form.attention;
  shorter.scale = std::nan("");  // beyond the end of the shorter struct, so never read
  shorter.struct_size = offsetof(heed_attention_desc, scale);
  CHECK(call(&shorter) == HEED_STATUS_OK);
}

TEST_CASE("a shorter descriptor of a block: what it lacks is the default",
          "[struct_size][multihead]") {
  const Context context = serial();
  BlockForm form;
  form.desc.bias_dtype = 99;
  form.desc.w_out.dtype = 99;
  form.desc.struct_size = offsetof(heed_multihead_desc, w_out);
  CHECK(create(context, &form.desc) == HEED_STATUS_OK);
}

TEST_CASE("struct_size of a block's arguments", "[struct_size][multihead]") {
  const Context context = serial();
  BlockForm form;
  const auto call = [&](const heed_multihead_args* args) {
    return heed_multihead(context.get(), &form.desc, args);
  };
  check_wrong_sizes(form.args, "args", call);
  CHECK(form.outputs_untouched());
  check_every_size(form.args, "args", "4488888888888888888", call);
  check_longer(form.args, "args", call);
  form.args.struct_size = offsetof(heed_multihead_args, out);
  forget_last_error();
  check_refusal(call(&form.args), HEED_STATUS_INVALID_ARGUMENT, {"args.out", "NULL"});
}

TEST_CASE("struct_size of the attention's arguments inside", "[struct_size][multihead]") {
  const Context context = serial();
  BlockForm form;
  const auto call = [&](const heed_attention_args* inner) {
    heed_multihead_args args = form.args;
    args.attention = inner;
    return heed_multihead(context.get(), &form.desc, &args);
  };
  check_wrong_sizes(form.inner, "args.attention", call);
  CHECK(form.outputs_untouched());
  check_every_size(form.inner, "args.attention", kAttentionArgs, call);
  check_longer(form.inner, "args.attention", call);
}

TEST_CASE("struct_size of a matrix to prepare", "[struct_size][weights]") {
  const Context context = serial();
  Bytes numbers;
  const auto call = [&](const heed_weights_desc* desc) {
    heed_weights* weights = untouched<heed_weights>();
    const heed_status status =
        heed_weights_create(context.get(), desc, numbers.at(), nullptr, &weights);
    if (status == HEED_STATUS_OK) {
      heed_weights_destroy(weights);
    } else {
      CHECK(weights == untouched<heed_weights>());
    }
    return status;
  };
  check_wrong_sizes(matrix_desc(), "desc", call);
  check_every_size(matrix_desc(), "desc", "44888M44", call);
  check_longer(matrix_desc(), "desc", call);
  heed_weights_desc shorter = matrix_desc();
  shorter.layout.dtype = 99;
  shorter.struct_size = offsetof(heed_weights_desc, layout);
  CHECK(call(&shorter) == HEED_STATUS_OK);
}

TEST_CASE("struct_size of what blocks and prepared matrices fill", "[struct_size][multihead]") {
  const Context context = serial();
  const BlockForm form;
  const MultiheadPlan plan = make_plan(context, form.desc);
  const Weights weights = prepared(context, 3, 4);
  const heed_multihead_info plan_info = HEED_MULTIHEAD_INFO_INIT;
  const heed_weights_info weights_info = HEED_WEIGHTS_INFO_INIT;
  const auto of_plan = [&](heed_multihead_info* info) {
    return heed_multihead_plan_describe(plan.get(), info);
  };
  const auto of_weights = [&](heed_weights_info* info) {
    return heed_weights_describe(weights.get(), info);
  };
  check_wrong_info_sizes(plan_info, "44888888", of_plan);
  check_info_sizes(plan_info, of_plan);
  check_wrong_info_sizes(weights_info, "44888", of_weights);
  check_info_sizes(weights_info, of_weights);
}
