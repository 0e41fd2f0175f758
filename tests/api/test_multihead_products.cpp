// What computes projections: the products that this build has, and matrices prepared for them.
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

heed_context_options options_of(const char* product) {
  heed_context_options options = serial_options();
  options.product = product;
  return options;
}

Context make_context_of(const std::string& product) {
  const heed_context_options options = options_of(product.c_str());
  return make_context(&options);
}

}  // namespace

TEST_CASE("heed's own product is there, and first", "[products]") {
  REQUIRE(heed_product_count() >= 1);
  CHECK(products()[0] == "heed");
  CHECK(heed_product_name(heed_product_count()) == nullptr);
  CHECK(heed_product_name(SIZE_MAX) == nullptr);
}

TEST_CASE("CBLAS is a product where it was built in, and refused where not", "[products]") {
  const Environment quiet;
  CHECK(products().size() == (HEED_TEST_CBLAS ? 2 : 1));
  if (HEED_TEST_CBLAS)
    CHECK(std::string(describe(make_context_of("cblas")).product) == "cblas");
  else
    check_refused("context", "options.product = \"cblas\" => ; this build has: heed");
}

TEST_CASE("CBLAS counts features with int", "[products][multihead]") {
  if (!HEED_TEST_CBLAS) return;
  const Environment quiet;
  Form form("block", "desc.width_query = 2^31");
  heed_multihead_plan* plan = untouched<heed_multihead_plan>();
  check_refusal(heed_multihead_plan_create(make_context_of("cblas").get(),
                                           &form.at<heed_multihead_desc>("desc"), &plan),
                HEED_STATUS_UNSUPPORTED,
                "desc.w_query: a product from 2147483648 features to 16; with options.product "
                "\"cblas\" both must "
                "be at most 2147483647");
  CHECK(plan == untouched<heed_multihead_plan>());
}

TEST_CASE("a block's plan says what computes its projections", "[products][multihead]") {
  const Environment quiet;
  for (const std::string& name : products()) {
    Form form("block");
    const Context context = make_context_of(name);
    CHECK(describe(make_plan(context, form.at<heed_multihead_desc>("desc"))).product == name);
  }
}

TEST_CASE("a matrix serves the product that it was prepared for", "[products][multihead]") {
  const Environment quiet;
  for (const std::string& of_weights : products())
    for (const std::string& of_plan : products()) {
      CAPTURE(of_weights, of_plan);
      const Context first = make_context_of(of_weights);
      const Context second = make_context_of(of_plan);
      const Weights weights = prepared(first, 9, 12);
      Form form("block", "args.w_value args.b_value = NULL");
      form.at<heed_multihead_args>("args").p_value = weights.get();
      const heed_status status = form.call(second);
      if (of_weights == of_plan) {
        CHECK(status == HEED_STATUS_OK);
        continue;
      }
      check_refusal(status, HEED_STATUS_INVALID_ARGUMENT,
                    "args.p_value is prepared with a context whose product is \"" + of_weights +
                        "\"; this plan's is \"" + of_plan + "\"");
      CHECK(form.untouched());
    }
}
