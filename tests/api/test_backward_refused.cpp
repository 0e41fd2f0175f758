// Refusals of gradients: what is not differentiable, what is missing, and what does not go
// together.
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

using Refused = Refusal<BackwardForm>;

void all_float64(BackwardForm& form) { form.all_float64(); }

}  // namespace

TEST_CASE("what is not differentiable is refused", "[refused][backward]") {
  const std::string attention = "desc.attention: desc.";
  check_refused<BackwardForm>({
      {[](BackwardForm& form) {
         form.attention.hard = 1;
         form.inner.sinks = nullptr;
         form.args.grad_sinks = nullptr;
       },
       attention + "hard is 1; it must be 0: hard attention is not differentiable",
       HEED_STATUS_UNSUPPORTED},
      {[](BackwardForm& form) { form.attention.pages = 3, form.attention.page_rows = 16; },
       attention + "pages is 3 ... not supported", HEED_STATUS_UNSUPPORTED},
      {[](BackwardForm& form) { form.attention.key.dtype = HEED_DTYPE_I8; },
       attention + "key.dtype is 5 ... 8-bit ... not supported", HEED_STATUS_UNSUPPORTED},
      {[](BackwardForm& form) { form.attention.value.dtype = HEED_DTYPE_F8_E4M3; },
       attention + "value.dtype is 6 ... 8-bit ... not supported", HEED_STATUS_UNSUPPORTED},
  });
}

TEST_CASE("gradients have no other outputs", "[refused][backward]") {
  check_refused<BackwardForm>({
      {"desc.attention: desc.weights_point", 4, "must be 0 where gradients are computed"},
      {"desc.attention: desc.sum_columns", 1, "must be 0 where gradients are computed"},
      {"desc.attention: desc.weight_rows", 2, "must be 0 where gradients are computed"},
      {"args.attention: args.weights", kGiven, "must be NULL with desc.weights_point 0"},
      {"args.attention: args.column_sums", kGiven, "must be NULL with desc.sum_columns 0"},
      {"desc.accumulate", 2, "must be a switch, 0 to 1"},
      {"desc.accumulate", 0xffffffffU, "must be a switch, 0 to 1"},
  });
}

TEST_CASE("attention inside gradients is checked as elsewhere", "[refused][backward]") {
  check_refused<BackwardForm>({
      {[](BackwardForm& form) { form.desc.attention = nullptr; }, "desc.attention is NULL"},
      {[](BackwardForm& form) { form.args.attention = nullptr; }, "args.attention is NULL"},
      {"desc.attention: desc.features", 0, "must be 1 to"},
      {"desc.attention: desc.query_heads", 3, "must be a multiple of desc.key_heads, 2"},
      {"args.attention: args.query", kNull, "its tensor has elements"},
      {"args.attention: args.key", kNull, "its tensor has elements"},
      {"args.attention: args.value", kNull, "its tensor has elements"},
      {"args.attention: args.out", kNull, "its tensor has elements"},
      {"args.attention: args.key_lengths[1]", 6, "must be 0 to 5"},
  });
}

TEST_CASE("gradients need what attention left, and that of out", "[refused][backward]") {
  check_refused<BackwardForm>({
      {[](BackwardForm& form) { form.inner.lse = nullptr; },
       "args.attention->lse is NULL; gradients need what heed_attention wrote there"},
      {"args.grad_out", kNull, "its tensor has elements"},
  });
  for (const char* const optional :
       {"args.grad_lse", "args.grad_query", "args.grad_key", "args.grad_value", "args.grad_bias",
        "args.grad_sinks", "args.grad_alibi_slopes", "args.grad_scale", "args.grad_temperature"})
    check_accepted<BackwardForm>(with(optional, kNull));
}

TEST_CASE("gradients of what is not there are refused", "[refused][backward]") {
  check_refused<BackwardForm>({
      {[](BackwardForm& form) { form.inner.bias = nullptr; },
       "args.grad_bias is given; it must be NULL without args.attention->bias"},
      {[](BackwardForm& form) { form.inner.sinks = nullptr; },
       "args.grad_sinks is given; it must be NULL without args.attention->sinks"},
      {[](BackwardForm& form) { form.inner.alibi_slopes = nullptr; },
       "args.grad_alibi_slopes is given; it must be NULL without args.attention->alibi_slopes"},
  });
}

TEST_CASE("a score function comes with its derivative", "[refused][backward]") {
  const BackwardChange functions = [](BackwardForm& form) { form.call_functions(); };
  check_refused<BackwardForm>(
      functions, {{[](BackwardForm& form) { form.args.score_gradient = nullptr; },
                   "args.score_gradient is NULL with args.attention->score_function given"},
                  {[](BackwardForm& form) { form.inner.score_function = nullptr; },
                   "args.score_gradient is given with args.attention->score_function NULL"}});
}

TEST_CASE("gradients are float64 where their tensors are, and nowhere else",
          "[refused][backward]") {
  const char* const gradients[] = {"desc.grad_out", "desc.grad_query", "desc.grad_key",
                                   "desc.grad_value"};
  std::vector<Refused> narrow;
  std::vector<Refused> wide;
  for (const std::string name : gradients) {
    narrow.emplace_back(name + ".dtype", HEED_DTYPE_F64, "must not be HEED_DTYPE_F64 (2)");
    for (const heed_dtype dtype : {HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16})
      wide.emplace_back(name + ".dtype", dtype, "must be HEED_DTYPE_F64 (2)");
    for (const heed_dtype dtype : {HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16})
      check_accepted<BackwardForm>(with(name + ".dtype", dtype));
  }
  check_refused<BackwardForm>(narrow);
  check_refused<BackwardForm>(all_float64, wide);
  for (const char* const free : {"desc.grad_lse.dtype", "desc.grad_bias.dtype"})
    for (const heed_dtype dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64}) {
      check_accepted<BackwardForm>(with(free, dtype));
      check_accepted<BackwardForm>([&](BackwardForm& form) {
        form.all_float64();
        with(free, dtype)(form);
      });
    }
}

TEST_CASE("the gradient of a bias has its sizes", "[refused][backward]") {
  const BackwardChange repeat = [](BackwardForm& form) {
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
}

TEST_CASE("elements of gradients do not overlap", "[refused][backward]") {
  check_refused<BackwardForm>({
      {[](BackwardForm& form) { form.desc.grad_query = {0, 0, 48, 12, 0, 1}; },
       "desc.grad_query.stride_row is 0"},
      {[](BackwardForm& form) { form.desc.grad_key = {0, 0, 0, 20, 4, 1}; },
       "desc.grad_key.stride_batch is 0"},
      {[](BackwardForm& form) { form.desc.grad_value = {0, 0, 60, 30, 5, 1}; },
       "desc.grad_value ... overlap"},
      {[](BackwardForm& form) {
         form.desc.grad_bias.stride_batch = 60, form.desc.grad_bias.stride_head = 15;
         form.desc.grad_bias.stride_row = 4, form.desc.grad_bias.stride_key = 1;
       },
       "desc.grad_bias ... overlap"},
  });
  // What is given may repeat.
  check_accepted<BackwardForm>([](BackwardForm& form) {
    form.desc.grad_out = {0, HEED_STRIDES_EXPLICIT, 0, 0, 0, 0};
    form.desc.grad_lse = {0, HEED_STRIDES_EXPLICIT, 0, 0, 0, 0};
  });
}
