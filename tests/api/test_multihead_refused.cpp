// Refusals of multi-head blocks, and of gradients of attention and of blocks, that are not of every
// field of a kind: attention inside, widths, combiners, what is kept, what is not differentiable.
#include "tests/api/other_forms.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

constexpr heed_combine kReducing[] = {HEED_COMBINE_WEIGHTED, HEED_COMBINE_MEAN, HEED_COMBINE_MAX};
constexpr heed_status kUnsupported = HEED_STATUS_UNSUPPORTED;

BlockChange reduced(heed_combine combine) {
  return [=](BlockForm& form) { form.reduce(combine); };
}

void score(void*, const heed_score_tile*) {}

/// Every one of them may be NULL.
template <class AForm>
void check_optional(std::initializer_list<const char*> names) {
  for (const std::string name : names) check_accepted<AForm>(with("args." + name, kNull));
}

}  // namespace

// ---- Blocks ----

TEST_CASE("what dense calls refuse, a block refuses of the attention inside",
          "[refused][multihead]") {
  check_refused<BlockForm>(
      {{"desc.attention: desc.scale", kNan, "must be finite"},
       {with("desc.attention: desc.key_heads", 3),
        "desc.attention: desc.query_heads is 4; it must be a multiple of desc.key_heads, 3"},
       {[](BlockForm& f) { f.attention.query_heads = f.attention.key_heads = 0; },
        "desc.attention->query_heads is 0; it must be 1 to"},
       {"args.attention: args.key_lengths[1]", 6, "must be 0 to 5"},
       {"args.attention: args.cu_seqlens_q", kGiven, "must be NULL with desc.packed_queries 0"},
       {"args.attention: args.column_sums", kGiven, "must be NULL with desc.sum_columns 0"}});
  const std::int32_t good[] = {0, 3, 6}, falling[] = {3, 2, 6}, far[] = {0, 3, 1 << 30},
                     negative[] = {-1, 2, 3};
  check_refused<BlockForm>(  // before anything is read
      [&](BlockForm& form) {
        form.attention.packed_queries = 6;
        form.attention.packed_keys = 10;
        form.inner.cu_seqlens_q = form.inner.cu_seqlens_k = good;
        form.inner.key_lengths = nullptr;
      },
      {{"args.attention: args.cu_seqlens_q", kNull, "desc.packed_queries is 6"},
       {"args.attention: args.cu_seqlens_k", kNull, "desc.packed_keys is 10"},
       {[](BlockForm& f) {
          f.attention.weights_point = HEED_WEIGHTS_NONE;
          f.args.attention = nullptr;
        },
        "args.attention: args.cu_seqlens_q is NULL"},
       {[&](BlockForm& f) { f.inner.cu_seqlens_q = falling; },
        "args.attention: args.cu_seqlens_q[1] is 2; it must be 3 to 6"},
       {[&](BlockForm& f) { f.inner.cu_seqlens_k = far; },
        "args.attention: args.cu_seqlens_k[2] is 1073741824; it must be 3 to 10"},
       {[&](BlockForm& f) { f.inner.cu_seqlens_k = negative; },
        "args.attention: args.cu_seqlens_k[0] is -1; it must be 0 to 10"}});
}

TEST_CASE("layouts and tensors of the attention inside are the block's own",
          "[refused][multihead]") {
  std::vector<Refusal<BlockForm>> rows;
  for (const std::string tensor : {"query", "key", "value", "out", "key_scales", "value_scales"}) {
    for (const char* const field :
         {".dtype", ".reserved", ".stride_batch", ".stride_head", ".stride_row", ".stride_feature"})
      rows.emplace_back(with("desc.attention: desc." + tensor + field, 1),
                        "desc.attention->" + tensor + " is set; it must be 0");
    if (tensor.find("scales") == std::string::npos)
      rows.emplace_back(with("args.attention: args." + tensor, kGiven),
                        "args.attention->" + tensor + " is given; it must be NULL");
  }
  check_refused<BlockForm>(rows);
}

TEST_CASE("inputs, output and matrices of a block are laid out as there are heads",
          "[refused][multihead]") {
  check_refused<BlockForm>(
      {{"desc.input_query.stride_head", 50, "must be 0: it has no heads"},
       {"desc.input_key.stride_head", 50, "must be 0: it has no heads"},
       {"desc.out.stride_head", 50, "must be 0: it has no heads"},
       {"desc.w_query.stride_matrix", 64, "must be 0: there is one"},
       {"desc.w_key.stride_matrix", 64, "must be 0: there is one"},
       {"desc.w_value.stride_matrix", 64, "must be 0: there is one"},
       {"desc.w_out.stride_matrix", 64, "must be 0: there is one"},
       {[](BlockForm& f) { f.desc.out = {0, 0, 24, 0, 7, 1}; },
        "desc.out.stride_row is 7; it must exceed 7"},
       {[](BlockForm& f) { f.desc.width_query = f.attention.query_length = kMost; },
        "desc. ... overflows an address"}});
  check_accepted<BlockForm>([](BlockForm& form) {
    form.desc.combine = HEED_COMBINE_TENSOR;
    form.desc.w_out = {0, 0, 64, 8, 1};
  });
  check_refused<BlockForm>(
      [](BlockForm& form) {  // attention of rows to themselves
        form.args.input_key = nullptr;
        form.desc.width_key = 7;
        form.attention.key_length = 3;
        form.key_lengths[0] = 3;
      },
      {{with("desc.width_key", 9), "args.input_key is NULL ... 6 x 7 are not 6 x 9"},
       {with("desc.attention: desc.key_length", 5),
        "args.input_key is NULL ... 6 x 7 are not 10 x 7"}});
}

TEST_CASE("a block whose workspace overflows is refused", "[refused][multihead]") {
  // Every tensor of its own stays in range; what a thread works in does, too; that of all threads
  // does not.
  const Context context = context_with(in_order(1024));
  for (int shift = 40; shift <= 60; ++shift) {
    CAPTURE(shift);
    BlockForm form;
    form.attention.batch = form.attention.query_length = form.attention.key_length = 1;
    form.attention.key_heads = 1;
    form.attention.query_heads = std::int64_t{1} << (shift - 39);
    form.attention.value_features = std::int64_t{1} << 39;
    form.attention.weights_point = HEED_WEIGHTS_NONE;
    heed_multihead_plan* made = nullptr;
    const heed_status status = heed_multihead_plan_create(context.get(), &form.desc, &made);
    const MultiheadPlan plan(made);
    if (status != HEED_STATUS_OK) {
      check_refusal(status, HEED_STATUS_INVALID_ARGUMENT, " ... overflows an address");
      continue;
    }
    // Heads of 2^shift numbers in all.
    CHECK(describe(plan).workspace_bytes > std::size_t{4} << shift);
    CHECK(describe(plan).workspace_bytes < std::size_t{1} << 62);
  }
}

TEST_CASE("a matrix is aligned to its own type, and four below each other may be prepared as one",
          "[refused][multihead]") {
  const BlockChange narrow = with("desc.w_key.dtype", HEED_DTYPE_F16);
  check_accepted<BlockForm>([&](BlockForm& form) {
    narrow(form);
    set(form, "args.w_key", moved(2));
    set(form, "args.w_query", moved(4));
  });
  check_refused<BlockForm>(narrow, {{"args.w_key", moved(1), "must be a multiple of 2"}});
  const Weights tensor = prepared(serial(), 6, 8, HEED_DTYPE_F32, 4);
  for (const heed_combine combine : {HEED_COMBINE_CONCAT, HEED_COMBINE_TENSOR})
    check_accepted<BlockForm>([&](BlockForm& form) {
      form.desc.combine = combine;
      form.args.w_out = form.args.b_out = nullptr;
      form.args.p_out = tensor.get();
    });
}

TEST_CASE("W_out and head weights come with their combiners alone", "[refused][multihead]") {
  const Weights weights = prepared(serial(), 24, 8);
  for (const heed_combine combine : kReducing) {
    check_refused<BlockForm>(
        reduced(combine),
        {{"desc.width_out", 8, "without a W_out it must be value_features, 6, or 0"},
         {"args.w_out", kGiven, "must be NULL unless desc.combine is HEED_COMBINE_CONCAT (0)"},
         {"args.b_out", kGiven, "must be NULL unless desc.combine is HEED_COMBINE_CONCAT (0)"},
         {[&](BlockForm& f) { f.args.p_out = weights.get(); },
          "args.p_out is given; it must be NULL unless ... HEED_COMBINE_TENSOR (4)"}});
    check_accepted<BlockForm>([=](BlockForm& f) { f.reduce(combine), f.desc.width_out = 6; });
  }
  check_refused<BlockForm>(
      reduced(HEED_COMBINE_WEIGHTED),
      {{"args.head_weights", kNull, "combine 1; it must be given with HEED_COMBINE_WEIGHTED (1)"}});
  for (const heed_combine combine :
       {HEED_COMBINE_CONCAT, HEED_COMBINE_MEAN, HEED_COMBINE_MAX, HEED_COMBINE_TENSOR})
    check_refused<BlockForm>(
        [=](BlockForm& form) {
          if (combine == HEED_COMBINE_MEAN || combine == HEED_COMBINE_MAX) form.reduce(combine);
          form.desc.combine = combine;
        },
        {{"args.head_weights", kGiven,
          "with desc.combine " + std::to_string(combine) + " ... NULL otherwise"}});
}

TEST_CASE("what is kept is given where it is asked for, and nowhere else", "[refused][multihead]") {
  check_refused<BlockForm>(
      {{[](BlockForm& f) { f.args.kept = f.kept; },
        "args.kept is given; it must be NULL with desc.keep 0"},
       {"args.kept_bytes", 64, "must be 0 with desc.keep 0"},
       {[](BlockForm& f) { f.desc.keep = 1; }, "args.kept is NULL; desc.keep 1 needs ... bytes"},
       {[](BlockForm& f) {
          f.inner.lse = nullptr;
          f.attention.hard = f.desc.keep = 1;
        },
        "desc.keep is 1; it must be 0 where desc.attention->hard is 1: hard attention is not "
        "differentiable",
        kUnsupported}});
  check_refused<BlockForm>(&BlockForm::keep, {{"args.kept_bytes", 8, "must be at least"},
                                              {"args.kept", kNull, "; desc.keep 1 needs"},
                                              {"args.kept", moved(8), "must be a multiple of 64"}});
  const std::string kept = "args.block: args.kept";
  check_refused<BlockBackwardForm>({{kept + "_bytes", 64, "must be 0 with desc.keep 0"},
                                    {[](BlockBackwardForm& f) { f.block.args.kept = f.block.kept; },
                                     kept + " is given; it must be NULL with desc.keep 0"}});
  check_refused<BlockBackwardForm>([](BlockBackwardForm& form) { form.block.keep(); },
                                   {{kept + "_bytes", 8, "must be at least"},
                                    {kept, kNull, "; desc.keep 1 needs"},
                                    {kept, moved(32), "must be a multiple of 64"}});
}

// ---- Gradients ----

TEST_CASE("what is not differentiable is refused, and what gradients do not give",
          "[refused][backward]") {
  const std::string desc = "desc.attention: desc.";
  const std::string args = "args.attention: args.";
  const std::string none = "must be 0 where gradients are computed";
  const std::string hard = "hard is 1; it must be 0: hard attention is not differentiable";
  check_refused<BackwardForm>({
      {[](BackwardForm& f) {
         f.attention.hard = 1;
         f.inner.sinks = nullptr;
         f.args.grad_sinks = nullptr;
       },
       desc + hard, kUnsupported},
      {[](BackwardForm& f) { f.attention.pages = 3, f.attention.page_rows = 16; },
       desc + "pages is 3 ... not supported", kUnsupported},
      {with(desc + "key.dtype", HEED_DTYPE_I8), desc + "key.dtype is 5 ... 8-bit ... not supported",
       kUnsupported},
      {with(desc + "value.dtype", HEED_DTYPE_F8_E4M3),
       desc + "value.dtype is 6 ... 8-bit ... not supported", kUnsupported},
      {desc + "weights_point", 4, none},
      {desc + "sum_columns", 1, none},
      {desc + "weight_rows", 2, none},
      {args + "weights", kGiven, "must be NULL with desc.weights_point 0"},
      {args + "column_sums", kGiven, "must be NULL with desc.sum_columns 0"},
      // And attention inside is checked as elsewhere.
      {desc + "query_heads", 3, "must be a multiple of desc.key_heads, 2"},
      {args + "key_lengths[1]", 6, "must be 0 to 5"},
  });
  check_refused<BlockBackwardForm>({
      {[](BlockBackwardForm& f) {
         f.attention.hard = 1;
         f.block.inner.sinks = nullptr;
         f.args.grad_sinks = nullptr;
       },
       "desc.block: " + desc + hard, kUnsupported},
      {"desc.block: " + desc + "weights_point", 4, none},
      {"desc.block: " + desc + "sum_columns", 1, none},
      {"args.block: " + args + "weights", kGiven, "must be NULL with desc.weights_point 0"},
      {with("args.block: args.w_key", kNull),
       "args.block: args.w_key and args.p_key are both NULL; give one of them"},
      {[](BlockBackwardForm& f) { f.block.inner.query = f.block.bias.at(); },
       "args.block: args.attention->query is given; it must be NULL: the block makes its own"},
      {"args.block: " + args + "key_lengths[1]", 6, "must be 0 to 5"},
  });
}

TEST_CASE("gradients need what attention left, and there are none of what is not there",
          "[refused][backward]") {
  const std::string without = " is given; it must be NULL without args.attention->";
  check_refused<BackwardForm>(
      {{[](BackwardForm& f) { f.inner.lse = nullptr; },
        "args.attention->lse is NULL; gradients need what heed_attention wrote there"},
       {[](BackwardForm& f) { f.inner.bias = nullptr; }, "args.grad_bias" + without + "bias"},
       {[](BackwardForm& f) { f.inner.sinks = nullptr; }, "args.grad_sinks" + without + "sinks"},
       {[](BackwardForm& f) { f.inner.alibi_slopes = nullptr; },
        "args.grad_alibi_slopes" + without + "alibi_slopes"}});
  check_refused<BackwardForm>(
      &BackwardForm::call_functions,
      {{[](BackwardForm& f) { f.args.score_gradient = nullptr; },
        "args.score_gradient is NULL with args.attention->score_function given"},
       {[](BackwardForm& f) { f.inner.score_function = nullptr; },
        "args.score_gradient is given with args.attention->score_function NULL"}});
  check_optional<BackwardForm>({"grad_lse", "grad_query", "grad_key", "grad_value", "grad_bias",
                                "grad_sinks", "grad_alibi_slopes", "grad_scale",
                                "grad_temperature"});
  const std::string inside = " is given; it must be NULL without args.block->attention->";
  check_refused<BlockBackwardForm>(
      {{[](BlockBackwardForm& f) {
          f.one_input();
          f.args.grad_input_key = f.grads[1].at();
        },
        "args.grad_input_key is given; it must be NULL where args.block->input_key is"},
       {with("args.grad_head_weights", kGiven),
        "args.grad_head_weights is given; it must be NULL unless desc.block->combine is "
        "HEED_COMBINE_WEIGHTED (1)"},
       {[](BlockBackwardForm& f) { f.block.inner.bias = nullptr; }, "args.grad_bias" + inside},
       {[](BlockBackwardForm& f) { f.block.inner.sinks = nullptr; }, "args.grad_sinks" + inside},
       {[](BlockBackwardForm& f) { f.block.inner.alibi_slopes = nullptr; },
        "args.grad_alibi_slopes" + inside},
       {[](BlockBackwardForm& f) { f.block.inner.score_function = score; },
        "args.score_gradient is NULL with args.block->attention->score_function given"}});
  for (const heed_combine combine : kReducing)
    check_refused<BlockBackwardForm>(
        [=](BlockBackwardForm& form) { form.reduce(combine); },
        {{"args.grad_w_out", kGiven, "must be NULL unless desc.block->combine is"},
         {"args.grad_b_out", kGiven, "must be NULL unless desc.block->combine is"}});
  check_optional<BlockBackwardForm>(
      {"grad_lse", "grad_input_query", "grad_input_key", "grad_w_query", "grad_w_key",
       "grad_w_value", "grad_w_out", "grad_b_query", "grad_b_key", "grad_b_value", "grad_b_out",
       "grad_bias", "grad_sinks", "grad_alibi_slopes", "grad_scale", "grad_temperature"});
}

TEST_CASE("types of gradients that are free", "[refused][backward]") {
  for (const std::string free : {"desc.grad_lse.dtype", "desc.grad_bias.dtype"})
    for (const heed_dtype dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64}) {
      check_accepted<BackwardForm>(with(free, dtype));
      check_accepted<BackwardForm>([&](BackwardForm& f) { f.all_float64(), set(f, free, dtype); });
    }
}

TEST_CASE("the gradient of a bias has its sizes", "[refused][backward]") {
  const ChangeOf<BackwardForm> repeat = [](BackwardForm& form) {
    form.attention.bias.heads = form.attention.bias.rows = 1;
  };
  check_refused<BackwardForm>(repeat, {{"desc.grad_bias.heads", 4, "must be 1"},
                                       {"desc.grad_bias.rows", 3, "must be 1"},
                                       {"desc.grad_bias.batch", 1, "must be 2"},
                                       {"desc.grad_bias.keys", 1, "must be 5"},
                                       {"desc.grad_bias.keys", -5, "must be 5"}});
  check_accepted<BackwardForm>([&](BackwardForm& form) {
    repeat(form);
    form.desc.grad_bias.batch = 2;
    form.desc.grad_bias.heads = form.desc.grad_bias.rows = 1;
    form.desc.grad_bias.keys = 5;
  });
  check_refused<BlockBackwardForm>(
      {{"desc.grad_bias.heads", 3, "must be 4, as that of the bias is, or 0 (the same)"}});
}

TEST_CASE("elements of gradients lie apart, and what is given may repeat", "[refused][backward]") {
  check_refused<BackwardForm>({
      {[](BackwardForm& f) { f.desc.grad_value = {0, 0, 60, 30, 5, 1}; },
       "desc.grad_value ... overlap"},
      {[](BackwardForm& f) {
         f.desc.grad_bias.stride_batch = 60, f.desc.grad_bias.stride_head = 15;
         f.desc.grad_bias.stride_row = 4, f.desc.grad_bias.stride_key = 1;
       },
       "desc.grad_bias ... overlap"},
  });
  check_accepted<BackwardForm>([](BackwardForm& f) {
    f.desc.grad_out.reserved = f.desc.grad_lse.reserved = HEED_STRIDES_EXPLICIT;
  });
  check_refused<BlockBackwardForm>({
      {[](BlockBackwardForm& f) {
         f.desc.grad_w_query = {0, 0, 0, 15, 1};
       },
       "desc.grad_w_query.stride_in is 15; it must exceed 15, or elements of the output overlap"},
      {[](BlockBackwardForm& f) {
         f.desc.grad_w_out = {0, 0, 4, 8, 1};
       },
       "desc.grad_w_out.stride_matrix is 4; it must be 0: there is one matrix"},
      {[](BlockBackwardForm& f) {
         f.block.desc.combine = HEED_COMBINE_TENSOR;
         f.desc.grad_w_out = {0, 0, 8, 8, 1};
       },
       "desc.grad_w_out.stride_in is 8; it must exceed ... or elements of the output overlap"},
      {[](BlockBackwardForm& f) { f.desc.grad_input_query = {0, 0, 21, 3, 7, 1}; },
       "desc.grad_input_query.stride_head is 3; it must be 0: it has no heads"},
  });
}
