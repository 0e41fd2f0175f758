// Refusals of multi-head blocks, and of gradients of attention and of blocks, that are not of every
// field of a kind: attention inside, widths, combiners, what is kept, products that matrices are
// prepared for, what is not differentiable.
#include "tests/api/refused.hpp"

using namespace api_test;

// ---- Blocks ----

TEST_CASE("what dense calls refuse, a block refuses of the attention inside",
          "[refused][multihead]") {
  check_refused("block", R"(
    desc.width_query = -1 | 0 | least | 2^40+1 | most => must be 1 to 2^40
    desc.width_key | desc.width_out = -1 | least | 2^40+1 | most => must be 0 to 2^40
    desc.combine = 6 | 99 | 4294967295 => must be a heed_combine, 0 to 5
    desc.keep = 2 | 99 | 4294967295 => must be a switch, 0 to 1
    desc.attention: desc.features = -1 | 0 | 2^40+1 => must be 1 to 2^40
    desc.attention: desc.weights_point = 5 | 99 => must be a heed_weights_point, 0 to 4
    desc.attention: desc.scale = nan => must be finite
    desc.attention: desc.key_heads = 3
      => desc.attention: desc.query_heads is 4; it must be a multiple of desc.key_heads, 3
    desc.attention->query_heads desc.attention->key_heads = 0
      => desc.attention->query_heads is 0; it must be 1 to 2^40
    desc.attention->(batch query_length key_length key_heads) = 1, desc.attention->weights_point = 0,
      desc.attention->query_heads = 2^19, desc.attention->value_features = 2^39
      => desc.attention: desc.out has 1 x 524288 x 1 x 549755813888 elements; that overflows an address
    args.attention: args.key_lengths[1] = 6 => must be 0 to 5
    args.attention: args.cu_seqlens_q = given => must be NULL with desc.packed_queries 0
    args.attention: args.column_sums = given => must be NULL with desc.sum_columns 0
    with desc.attention->packed_queries = 6, desc.attention->packed_keys = 10,
      args.attention->cu_seqlens_q args.attention->cu_seqlens_k = {0 3 6},
      args.attention->key_lengths = NULL:
    args.attention: args.cu_seqlens_q = NULL => ; desc.packed_queries is 6
    args.attention: args.cu_seqlens_k = NULL => ; desc.packed_keys is 10
    desc.attention->weights_point = 0, args.attention = NULL
      => args.attention: args.cu_seqlens_q is NULL; desc.packed_queries is 6
    args.attention->cu_seqlens_q = {3 2 6}
      => args.attention: args.cu_seqlens_q[1] is 2; it must be 3 to 6
    args.attention: args.cu_seqlens_k[2] = 1073741824 => must be 3 to 10
    args.attention: args.cu_seqlens_k[0] = -1 => must be 0 to 10
  )");
}

TEST_CASE("layouts and tensors of the attention inside are the block's own",
          "[refused][multihead]") {
  std::string table;
  for (const std::string tensor : {"query", "key", "value", "out", "key_scales", "value_scales"}) {
    for (const char* const field :
         {".dtype", ".reserved", ".stride_batch", ".stride_head", ".stride_row", ".stride_feature"})
      table += "desc.attention->" + tensor + field + " = 1 => desc.attention->" + tensor +
               " is set; it must be 0: projections have layouts of the block's own\n";
    if (tensor.find("scales") == std::string::npos)
      table += "args.attention->" + tensor + " = given => must be NULL: the block makes its own\n";
  }
  check_refused("block", table);
}

TEST_CASE("inputs, output and matrices of a block are laid out as there are heads",
          "[refused][multihead]") {
  check_refused("block", R"(
    desc.input_query.stride_head | desc.input_key.stride_head | desc.out.stride_head = 50
      => must be 0: it has no heads
    desc.w_query.stride_matrix | desc.w_key.stride_matrix | desc.w_value.stride_matrix
      | desc.w_out.stride_matrix = 64 => must be 0: there is one matrix
    desc.out = [24 0 7 1] => desc.out.stride_row is 7; it must exceed 7, or elements of the output
      overlap
    desc.width_query desc.attention->query_length = 2^40 => desc. ... overflows an address
    desc.combine = 4, desc.w_out = [64 8 1] => ok
    with args.input_key = NULL, desc.width_key = 7, desc.attention->key_length = 3,
      args.attention->key_lengths = {3 2}:
    desc.width_key = 9 => args.input_key is NULL ... 6 x 7 are not 6 x 9
    desc.attention->key_length = 5 => args.input_key is NULL ... 6 x 7 are not 10 x 7
  )");
}

TEST_CASE("a matrix is aligned to its own type, and four below each other may be prepared as one",
          "[refused][multihead]") {
  const Weights tensor = prepared(serial(), 6, 8, HEED_DTYPE_F32, 4);
  const Changes more = {{"four prepared", [&](Form& form) {
                           form.at<heed_multihead_args>("args").p_out = tensor.get();
                         }}};
  check_refused("block", R"(
    args.w_out args.b_out = NULL, four prepared => ok
    desc.combine = 4, args.w_out args.b_out = NULL, four prepared => ok
    with desc.w_key.dtype = f16:
    args.w_key = +1 => must be a multiple of 2
    args.w_key = +2, args.w_query = +4 => ok
  )",
                more);
}

TEST_CASE("W_out and head weights come with their combiners alone", "[refused][multihead]") {
  check_refused("block", R"(
    with weighted | mean | maximum:
    desc.width_out = 8 => ; without a W_out it must be value_features, 6, or 0
    desc.width_out = 6 => ok
    args.w_out | args.b_out | args.p_out = given
      => must be NULL unless desc.combine is HEED_COMBINE_CONCAT (0) or HEED_COMBINE_TENSOR (4)
    with as it is:
    args.head_weights = given => with desc.combine 0; it must be given with HEED_COMBINE_WEIGHTED (1)
      and NULL otherwise
    desc.combine = 4, args.head_weights = given => with desc.combine 4; it must be given with
      HEED_COMBINE_WEIGHTED (1) and NULL otherwise
    with mean:
    args.head_weights = given => with desc.combine 2; it must be given with HEED_COMBINE_WEIGHTED (1)
      and NULL otherwise
    with maximum:
    args.head_weights = given => with desc.combine 3; it must be given with HEED_COMBINE_WEIGHTED (1)
      and NULL otherwise
    with weighted:
    args.head_weights = NULL => with desc.combine 1; it must be given with HEED_COMBINE_WEIGHTED (1)
      and NULL otherwise
  )");
}

TEST_CASE("what is kept is given where it is asked for, and nowhere else", "[refused][multihead]") {
  check_refused("block", R"(
    args.kept = own => args.kept is given; it must be NULL with desc.keep 0
    args.kept_bytes = 64 => must be 0 with desc.keep 0
    desc.keep = 1 => args.kept is NULL; desc.keep 1 needs ... bytes
    args.attention->lse = NULL, desc.attention->hard desc.keep = 1 => (unsupported)
      desc.keep is 1; it must be 0 where desc.attention->hard is 1: hard attention is not
      differentiable
    with keep:
    args.kept_bytes = 8 => must be at least ... 
    args.kept = NULL => ; desc.keep 1 needs ... bytes
    args.kept = +8 => must be a multiple of 64
  )");
  check_refused("block backward", R"(
    args.block: args.kept_bytes = 64 => must be 0 with desc.keep 0
    args.block: args.kept = given => must be NULL with desc.keep 0
    with keep:
    args.block: args.kept_bytes = 8 => must be at least ... 
    args.block: args.kept = NULL => ; desc.keep 1 needs ... bytes
    args.block: args.kept = +32 => must be a multiple of 64
  )");
}

// ---- What computes projections ----

namespace {

Context make_context_of(const std::string& product) {
  heed_context_options options = serial_options();
  options.product = product.c_str();
  return make_context(&options);
}

}  // namespace

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
  Object plan;
  check_refusal(form.create(make_context_of("cblas"), plan), HEED_STATUS_UNSUPPORTED,
                "desc.w_query: a product from 2147483648 features to 16; with options.product "
                "\"cblas\" both must "
                "be at most 2147483647");
}

TEST_CASE("a plan says its product, and a matrix serves the one that it was prepared for",
          "[products][multihead]") {
  const Environment quiet;
  for (const std::string& of_weights : products())
    for (const std::string& of_plan : products()) {
      CAPTURE(of_weights, of_plan);
      const Context first = make_context_of(of_weights);
      const Context second = make_context_of(of_plan);
      const Weights weights = prepared(first, 9, 12);
      Form form("block", "args.w_value args.b_value = NULL");
      CHECK(describe(make_plan(second, form.at<heed_multihead_desc>("desc"))).product == of_plan);
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

// ---- Gradients ----

TEST_CASE("what is not differentiable is refused, and what gradients do not give",
          "[refused][backward]") {
  check_refused("backward", R"(
    desc.accumulate = 2 | 99 | 4294967295 => must be a switch, 0 to 1
    args.attention->sinks args.grad_sinks = NULL, desc.attention: desc.hard = 1
      => (unsupported) must be 0: hard attention is not differentiable
    desc.attention->page_rows = 16, desc.attention: desc.pages = 3 => (unsupported)
      ; gradients of keys and values in pages are not supported
    desc.attention: desc.key.dtype = i8 => (unsupported)
      ; gradients of 8-bit numbers are not supported
    desc.attention: desc.value.dtype = e4m3 => (unsupported)
      ; gradients of 8-bit numbers are not supported
    desc.attention: desc.weights_point = 4 => must be 0 where gradients are computed
    desc.attention: desc.sum_columns = 1 => must be 0 where gradients are computed
    desc.attention: desc.weight_rows = 2 => must be 0 where gradients are computed
    args.attention: args.weights = given => must be NULL with desc.weights_point 0
    args.attention: args.column_sums = given => must be NULL with desc.sum_columns 0
    desc.attention: desc.features = -1 | 0 | 2^40+1 => must be 1 to 2^40
    desc.attention: desc.causal = 4 | 99 => must be a heed_causal, 0 to 3
    desc.attention: desc.query_heads = 3 => must be a multiple of desc.key_heads, 2
    args.attention: args.key_lengths[1] = 6 => must be 0 to 5
  )");
  check_refused("block backward", R"(
    desc.accumulate | desc.block: desc.keep = 2 | 99 | 4294967295 => must be a switch, 0 to 1
    desc.block: desc.combine = 6 | 99 | 4294967295 => must be a heed_combine, 0 to 5
    desc.block: desc.width_query = -1 | 0 | 2^40+1 => must be 1 to 2^40
    desc.block: desc.attention: desc.batch = -1 | 2^40+1 => must be 0 to 2^40
    args.block->attention->sinks args.grad_sinks = NULL, desc.block: desc.attention: desc.hard = 1
      => (unsupported) must be 0: hard attention is not differentiable
    desc.block: desc.attention: desc.weights_point = 4 => must be 0 where gradients are computed
    desc.block: desc.attention: desc.sum_columns = 1 => must be 0 where gradients are computed
    args.block: args.attention: args.weights = given => must be NULL with desc.weights_point 0
    args.block->w_key = NULL
      => args.block: args.w_key and args.p_key are both NULL; give one of them
    args.block->attention->query = given
      => args.block: args.attention->query is given; it must be NULL: the block makes its own
    args.block: args.attention: args.key_lengths[1] = 6 => must be 0 to 5
  )");
}

TEST_CASE("gradients need what attention left, and there are none of what is not there",
          "[refused][backward]") {
  check_refused("backward", R"(
    args.attention->lse = NULL
      => args.attention->lse is NULL; gradients need what heed_attention wrote there
    args.attention->bias = NULL
      => args.grad_bias is given; it must be NULL without args.attention->bias
    args.attention->sinks = NULL
      => args.grad_sinks is given; it must be NULL without args.attention->sinks
    args.attention->alibi_slopes = NULL
      => args.grad_alibi_slopes is given; it must be NULL without args.attention->alibi_slopes
    args.grad_score_weights = given
      => args.grad_score_weights is ... ; it must be NULL without args.attention->score_weights
    with functions:
    args.score_gradient = NULL
      => args.score_gradient is NULL with args.attention->score_function given; both
      or neither
    args.attention->score_function = NULL
      => args.score_gradient is given with args.attention->score_function NULL;
      both or neither
  )");
  check_refused("block backward", R"(
    one input, args.grad_input_key = own
      => args.grad_input_key is given; it must be NULL where args.block->input_key is:
      grad_input_query is the sum of both
    args.grad_head_weights = given
      => must be NULL unless desc.block->combine is HEED_COMBINE_WEIGHTED (1)
    args.block->attention->bias = NULL
      => args.grad_bias is given; it must be NULL without args.block->attention->bias
    args.block->attention->sinks = NULL
      => args.grad_sinks is given; it must be NULL without args.block->attention->sinks
    args.block->attention->alibi_slopes = NULL
      => args.grad_alibi_slopes is given; it must be NULL without args.block->attention->alibi_slopes
    args.grad_score_weights = given
      => args.grad_score_weights is ... ; it must be NULL without args.block->attention->score_weights
    args.block->attention->score_function = function
      => args.score_gradient is NULL with args.block->attention->score_function
      given; both or neither
    with weighted | mean | maximum:
    args.grad_w_out | args.grad_b_out = given => must be NULL unless desc.block->combine is
      HEED_COMBINE_CONCAT (0) or HEED_COMBINE_TENSOR (4)
  )");
}

TEST_CASE("sizes of gradients are their tensors'", "[refused][backward]") {
  check_refused("backward", R"(
    with desc.attention->bias.heads desc.attention->bias.rows = 1:
    desc.grad_bias.heads = 4 => must be 1, as that of the bias is, or 0 (the same)
    desc.grad_bias.rows = 3 => must be 1, as that of the bias is, or 0 (the same)
    desc.grad_bias.batch = 1 => must be 2, as that of the bias is, or 0 (the same)
    desc.grad_bias.keys = 1 | -5 => must be 5, as that of the bias is, or 0 (the same)
    desc.grad_bias.batch = 2, desc.grad_bias.heads desc.grad_bias.rows = 1, desc.grad_bias.keys = 5
      => ok
  )");
  check_refused("block backward", R"(
    desc.grad_bias.heads = 3 => must be 4, as that of the bias is, or 0 (the same)
  )");
}

TEST_CASE("elements of gradients lie apart", "[refused][backward]") {
  check_refused("backward", R"(
    desc.grad_value = [60 30 5 1] => desc.grad_value ... overlap
    desc.grad_bias = [60 15 4 1] => desc.grad_bias ... overlap
  )");
  check_refused("block backward", R"(
    desc.grad_w_query = [0 15 1] => desc.grad_w_query.stride_in is 15; it must exceed 15, or
      elements of the output overlap
    desc.grad_w_out = [4 8 1] => desc.grad_w_out.stride_matrix is 4; it must be 0: there is one
      matrix
    desc.block->combine = 4, desc.grad_w_out = [8 8 1] => desc.grad_w_out.stride_in is 8; it must
      exceed ... , or elements of the output overlap
    desc.grad_input_query = [21 3 7 1] => desc.grad_input_query.stride_head is 3; it must be 0: it
      has no heads
  )");
}
