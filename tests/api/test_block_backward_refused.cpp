// Refusals of the gradients of blocks: what is not differentiable, what is missing, and what does
// not go together; and of blocks that keep.
#include "tests/api/block_backward_form.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

const BlockBackwardChange kKept = [](BlockBackwardForm& form) { form.block.keep(); };

}  // namespace

TEST_CASE("what is kept is given where it is asked for, and nowhere else", "[refused][multihead]") {
  check_refused<BlockForm>(
      {{[](BlockForm& form) { form.args.kept = form.kept; },
        "args.kept is given; it must be NULL with desc.keep 0"},
       {"args.kept_bytes", 64, "must be 0 with desc.keep 0"},
       {[](BlockForm& form) { form.desc.keep = 1; },
        "args.kept is NULL; desc.keep 1 needs ... bytes"},
       {[](BlockForm& form) {
          form.inner.lse = nullptr;
          form.attention.hard = form.desc.keep = 1;
        },
        "desc.keep is 1; it must be 0 where desc.attention->hard is 1: hard attention is not "
        "differentiable",
        HEED_STATUS_UNSUPPORTED}});
  check_refused<BlockForm>([](BlockForm& form) { form.keep(); },
                           {{"args.kept_bytes", 8, "must be at least"},
                            {"args.kept", kNull, "; desc.keep 1 needs"},
                            {"args.kept", moved(8), "must be a multiple of 64"}});
}

TEST_CASE("gradients of blocks read what is kept", "[refused][backward]") {
  check_refused<BlockBackwardForm>(
      {{"args.block: args.kept_bytes", 64, "must be 0 with desc.keep 0"},
       {[](BlockBackwardForm& form) { form.block.args.kept = form.block.kept; },
        "args.block: args.kept is given; it must be NULL with desc.keep 0"}});
  check_refused<BlockBackwardForm>(
      kKept, {{"args.block: args.kept_bytes", 8, "must be at least"},
              {"args.block: args.kept", kNull, "; desc.keep 1 needs"},
              {"args.block: args.kept", moved(32), "must be a multiple of 64"}});
  check_accepted<BlockBackwardForm>(kKept);
}

TEST_CASE("what is not differentiable of a block is refused", "[refused][backward]") {
  const std::string attention = "desc.block: desc.attention: desc.";
  check_refused<BlockBackwardForm>({
      {[](BlockBackwardForm& form) {
         form.attention.hard = 1;
         form.block.inner.sinks = nullptr;
         form.args.grad_sinks = nullptr;
       },
       attention + "hard is 1; it must be 0: hard attention is not differentiable",
       HEED_STATUS_UNSUPPORTED},
      {attention + "weights_point", 4, "must be 0 where gradients are computed"},
      {attention + "sum_columns", 1, "must be 0 where gradients are computed"},
      {"args.block: args.attention: args.weights", kGiven,
       "must be NULL with desc.weights_point 0"},
  });
}

TEST_CASE("the block inside gradients is checked as elsewhere", "[refused][backward]") {
  check_refused<BlockBackwardForm>({
      {[](BlockBackwardForm& form) { form.desc.block = nullptr; }, "desc.block is NULL"},
      {[](BlockBackwardForm& form) { form.args.block = nullptr; }, "args.block is NULL"},
      {[](BlockBackwardForm& form) { form.block.desc.attention = nullptr; },
       "desc.block: desc.attention is NULL"},
      {"args.block: args.input_query", kNull, "its tensor has elements"},
      {[](BlockBackwardForm& form) { form.block.args.w_key = nullptr; },
       "args.block: args.w_key and args.p_key are both NULL; give one of them"},
      {[](BlockBackwardForm& form) { form.block.inner.query = form.bias.at(); },
       "args.block: args.attention->query is given; it must be NULL: the block makes its own"},
      {"args.block: args.attention: args.key_lengths[1]", 6, "must be 0 to 5"},
      {"args.grad_out", kNull, "its tensor has elements"},
  });
}

TEST_CASE("gradients of what a block has not are refused", "[refused][backward]") {
  const auto reduced = [](heed_combine combine) {
    return [=](BlockBackwardForm& form) { form.reduce(combine); };
  };
  check_refused<BlockBackwardForm>({
      {[](BlockBackwardForm& form) {
         form.one_input();
         form.args.grad_input_key = form.grads[1].at();
       },
       "args.grad_input_key is given; it must be NULL where args.block->input_key is"},
      {[](BlockBackwardForm& form) { form.args.grad_head_weights = form.grads[15].at(); },
       "args.grad_head_weights is given; it must be NULL unless desc.block->combine is "
       "HEED_COMBINE_WEIGHTED (1)"},
      {[](BlockBackwardForm& form) { form.block.inner.bias = nullptr; },
       "args.grad_bias is given; it must be NULL without args.block->attention->bias"},
      {[](BlockBackwardForm& form) { form.block.inner.sinks = nullptr; },
       "args.grad_sinks is given; it must be NULL without args.block->attention->sinks"},
      {[](BlockBackwardForm& form) { form.block.inner.alibi_slopes = nullptr; },
       "args.grad_alibi_slopes is given; it must be NULL without "
       "args.block->attention->alibi_slopes"},
      {[](BlockBackwardForm& form) {
         form.block.inner.score_function = [](void*, const heed_score_tile*) {};
       },
       "args.score_gradient is NULL with args.block->attention->score_function given"},
  });
  for (const heed_combine combine : {HEED_COMBINE_WEIGHTED, HEED_COMBINE_MEAN, HEED_COMBINE_MAX})
    check_refused<BlockBackwardForm>(
        reduced(combine),
        {{"args.grad_w_out", kGiven, "must be NULL unless desc.block->combine is"},
         {"args.grad_b_out", kGiven, "must be NULL unless desc.block->combine is"}});
  for (const char* const optional :
       {"args.grad_lse", "args.grad_input_query", "args.grad_input_key", "args.grad_w_query",
        "args.grad_w_key", "args.grad_w_value", "args.grad_w_out", "args.grad_b_query",
        "args.grad_b_key", "args.grad_b_value", "args.grad_b_out", "args.grad_bias",
        "args.grad_sinks", "args.grad_alibi_slopes", "args.grad_scale", "args.grad_temperature"})
    check_accepted<BlockBackwardForm>(with(optional, kNull));
}

TEST_CASE("elements of gradients of matrices and inputs lie apart", "[refused][backward]") {
  check_refused<BlockBackwardForm>({
      {[](BlockBackwardForm& form) {
         form.desc.grad_w_query = {0, 0, 0, 15, 1};
       },
       "desc.grad_w_query.stride_in is 15; it must exceed 15, or elements of the output overlap"},
      {[](BlockBackwardForm& form) {
         form.desc.grad_w_out = {0, 0, 4, 8, 1};
       },
       "desc.grad_w_out.stride_matrix is 4; it must be 0: there is one matrix"},
      {[](BlockBackwardForm& form) {
         form.block.desc.combine = HEED_COMBINE_TENSOR;
         form.desc.grad_w_out = {0, 0, 8, 8, 1};
       },
       "desc.grad_w_out.stride_in is 8; it must exceed ... or elements of the output overlap"},
      {[](BlockBackwardForm& form) { form.desc.grad_input_key = {0, 0, 0, 0, 9, 1}; },
       "desc.grad_input_key.stride_batch is 0; it must exceed 0"},
      {[](BlockBackwardForm& form) { form.desc.grad_input_query = {0, 0, 21, 3, 7, 1}; },
       "desc.grad_input_query.stride_head is 3; it must be 0: it has no heads"},
      {"desc.grad_bias.heads", 3, "must be 4, as that of the bias is, or 0 (the same)"},
  });
}
