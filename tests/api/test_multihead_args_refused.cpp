// Every refusal of a block's arguments: each names the field, its value and the bound, and leaves
// all outputs alone.
#include "tests/api/blocks.hpp"

using namespace api_test;

namespace {

/// One of the four matrices: as it is, its bias, or prepared.
struct NamedMatrix {
  const char* name;
  const void* heed_multihead_args::*w;
  const void* heed_multihead_args::*b;
  const heed_weights* heed_multihead_args::*p;
  std::int64_t in, out;
};
using Args = heed_multihead_args;
constexpr NamedMatrix kMatrices[] = {
    {"query", &Args::w_query, &Args::b_query, &Args::p_query, 7, 16},
    {"key", &Args::w_key, &Args::b_key, &Args::p_key, 9, 8},
    {"value", &Args::w_value, &Args::b_value, &Args::p_value, 9, 12},
    {"out", &Args::w_out, &Args::b_out, &Args::p_out, 24, 8}};

std::string field(const char* prefix, const NamedMatrix& matrix) {
  return std::string("args.") + prefix + "_" + matrix.name;
}

/// A pointer that is off by some bytes.
template <class T>
const T* off_by(const T* pointer, std::uintptr_t bytes) {
  return reinterpret_cast<const T*>(reinterpret_cast<std::uintptr_t>(pointer) + bytes);
}

/// With this matrix prepared instead.
BlockChange with(const NamedMatrix& matrix, const Weights& weights) {
  return [&](BlockForm& form) {
    form.args.*matrix.w = form.args.*matrix.b = nullptr;
    form.args.*matrix.p = weights.get();
  };
}

}  // namespace

TEST_CASE("a block's inputs and output are needed", "[multihead]") {
  check_block_args_refused([](BlockForm& form) { form.args.input_query = nullptr; },
                           {"args.input_query is NULL"});
  check_block_args_refused([](BlockForm& form) { form.args.out = nullptr; }, {"args.out is NULL"});
}

TEST_CASE("reserved words of a block's arguments are 0", "[multihead]") {
  check_block_args_refused([](BlockForm& form) { form.args.reserved = 9; },
                           {"args.reserved is 9", "must be 0"});
}

TEST_CASE("one input stands for both where it fits", "[multihead]") {
  const auto self = [](BlockForm& form) {
    form.args.input_key = nullptr;
    form.desc.width_key = 7;
    form.attention.key_length = 3;
    form.key_lengths[0] = 3;
  };
  check_block_accepted(self);
  check_block_args_refused(
      [&](BlockForm& form) {
        self(form);
        form.desc.width_key = 9;
      },
      {"args.input_key is NULL", "7", "9"});
  check_block_args_refused(
      [&](BlockForm& form) {
        self(form);
        form.attention.key_length = 5;
      },
      {"args.input_key is NULL", "6", "10"});
}

TEST_CASE("a block's tensors are aligned to their types", "[multihead]") {
  for (const std::uintptr_t bytes : {1U, 2U, 3U}) {
    check_block_args_refused(
        [&](BlockForm& form) { form.args.input_query = off_by(form.args.input_query, bytes); },
        {"args.input_query is 0x", "multiple of 4"});
    check_block_args_refused(
        [&](BlockForm& form) { form.args.input_key = off_by(form.args.input_key, bytes); },
        {"args.input_key is 0x", "multiple of 4"});
    check_block_args_refused(
        [&](BlockForm& form) {
          form.args.out = const_cast<void*>(off_by<void>(form.args.out, bytes));
        },
        {"args.out is 0x", "multiple of 4"});
    check_block_args_refused(
        [&](BlockForm& form) {
          form.reduce(HEED_COMBINE_WEIGHTED);
          form.args.head_weights = off_by(form.args.head_weights, bytes);
        },
        {"args.head_weights is 0x", "multiple of 4"});
    for (const NamedMatrix& matrix : kMatrices) {
      check_block_args_refused(
          [&](BlockForm& form) { form.args.*matrix.w = off_by(form.args.*matrix.w, bytes); },
          {(field("w", matrix) + " is 0x").c_str(), "multiple of 4"});
      check_block_args_refused(
          [&](BlockForm& form) { form.args.*matrix.b = off_by(form.args.*matrix.b, bytes); },
          {(field("b", matrix) + " is 0x").c_str(), "multiple of 4"});
    }
  }
  check_block_args_refused(
      [](BlockForm& form) {
        form.all_float64();
        form.args.b_value = off_by(form.args.b_value, 4);
      },
      {"args.b_value is 0x", "multiple of 8"});
  check_block_accepted([](BlockForm& form) {
    form.desc.w_key.dtype = HEED_DTYPE_F16;
    form.args.w_key = off_by(form.args.w_key, 2);
    form.args.w_query = off_by(form.args.w_query, 4);
  });
}

TEST_CASE("every matrix of a block is given once", "[multihead]") {
  const Context context = serial();
  for (const NamedMatrix& matrix : kMatrices) {
    const std::string w = field("w", matrix);
    const std::string p = field("p", matrix);
    check_block_args_refused(
        [&](BlockForm& form) { form.args.*matrix.w = form.args.*matrix.b = nullptr; },
        {w.c_str(), p.c_str(), "NULL"});
    const Weights weights = prepared(context, matrix.in, matrix.out);
    check_block_accepted(with(matrix, weights));
    check_block_args_refused([&](BlockForm& form) { form.args.*matrix.p = weights.get(); },
                             {w.c_str(), p.c_str(), "both given"});
  }
}

TEST_CASE("a prepared matrix has its bias inside", "[multihead]") {
  const Context context = serial();
  for (const NamedMatrix& matrix : kMatrices) {
    const Weights weights = prepared(context, matrix.in, matrix.out);
    check_block_args_refused(
        [&](BlockForm& form) {
          form.args.*matrix.w = nullptr;
          form.args.*matrix.p = weights.get();
        },
        {field("b", matrix).c_str(), "must be NULL", field("p", matrix).c_str()});
  }
}

TEST_CASE("a prepared matrix has the block's widths", "[multihead]") {
  const Context context = serial();
  for (const NamedMatrix& matrix : kMatrices) {
    const std::string p = field("p", matrix);
    const std::string want = std::to_string(matrix.in) + " to " + std::to_string(matrix.out);
    for (const std::int64_t change : {-1, 1}) {
      const Weights in = prepared(context, matrix.in + change, matrix.out);
      check_block_args_refused(
          with(matrix, in), {p.c_str(), std::to_string(matrix.in + change).c_str(), want.c_str()});
      const Weights out = prepared(context, matrix.in, matrix.out + change);
      check_block_args_refused(
          with(matrix, out),
          {p.c_str(), std::to_string(matrix.out + change).c_str(), want.c_str()});
    }
  }
}

TEST_CASE("a prepared matrix has the block's arithmetic", "[multihead]") {
  const Context context = serial();
  for (const NamedMatrix& matrix : kMatrices) {
    const std::string p = field("p", matrix);
    const Weights wide = prepared(context, matrix.in, matrix.out, HEED_DTYPE_F64);
    check_block_args_refused(with(matrix, wide), {p.c_str(), "float64", "float32"});
    const Weights narrow = prepared(context, matrix.in, matrix.out);
    check_block_args_refused(
        [&](BlockForm& form) {
          form.all_float64();
          with(matrix, narrow)(form);
        },
        {p.c_str(), "float32", "float64"});
    check_block_accepted([&](BlockForm& form) {
      form.all_float64();
      with(matrix, wide)(form);
    });
  }
}

TEST_CASE("matrices that lie one below the other may be prepared as one", "[multihead]") {
  const Context context = serial();
  const Weights tensor = prepared(context, 6, 8, HEED_DTYPE_F32, 4);
  for (const heed_combine combine : {HEED_COMBINE_CONCAT, HEED_COMBINE_TENSOR})
    check_block_accepted([&](BlockForm& form) {
      form.desc.combine = combine;
      with(kMatrices[3], tensor)(form);
    });
}

TEST_CASE("a combiner without W_out gets none", "[multihead]") {
  const Context context = serial();
  const Weights weights = prepared(context, 24, 8);
  for (const heed_combine combine : {HEED_COMBINE_WEIGHTED, HEED_COMBINE_MEAN, HEED_COMBINE_MAX}) {
    check_block_args_refused(
        [&](BlockForm& form) {
          form.reduce(combine);
          form.args.w_out = form.w_out.at();
        },
        {"args.w_out", "must be NULL"});
    check_block_args_refused(
        [&](BlockForm& form) {
          form.reduce(combine);
          form.args.b_out = form.b_out.at();
        },
        {"args.b_out", "must be NULL"});
    check_block_args_refused(
        [&](BlockForm& form) {
          form.reduce(combine);
          form.args.p_out = weights.get();
        },
        {"args.p_out", "must be NULL"});
  }
}

TEST_CASE("head weights come with their combiner alone", "[multihead]") {
  check_block_args_refused(
      [](BlockForm& form) {
        form.reduce(HEED_COMBINE_WEIGHTED);
        form.args.head_weights = nullptr;
      },
      {"args.head_weights is NULL", "HEED_COMBINE_WEIGHTED (1)"});
  for (const heed_combine combine :
       {HEED_COMBINE_CONCAT, HEED_COMBINE_MEAN, HEED_COMBINE_MAX, HEED_COMBINE_TENSOR})
    check_block_args_refused(
        [&](BlockForm& form) {
          if (combine == HEED_COMBINE_MEAN || combine == HEED_COMBINE_MAX) form.reduce(combine);
          form.desc.combine = combine;
          form.args.head_weights = form.head_weights.at();
        },
        {"args.head_weights", ("combine " + std::to_string(combine)).c_str(), "NULL"});
}

TEST_CASE("tensors of the attention inside are the block's own", "[multihead]") {
  check_block_args_refused([](BlockForm& form) { form.inner.query = form.input_query.at(); },
                           {"args.attention->query", "must be NULL"});
  check_block_args_refused([](BlockForm& form) { form.inner.key = form.input_key.at(); },
                           {"args.attention->key", "must be NULL"});
  check_block_args_refused([](BlockForm& form) { form.inner.value = form.input_key.at(); },
                           {"args.attention->value", "must be NULL"});
  check_block_args_refused([](BlockForm& form) { form.inner.out = form.out.at(); },
                           {"args.attention->out", "must be NULL"});
}

TEST_CASE("what a dense run refuses, a block's run refuses inside", "[multihead]") {
  check_block_args_refused([](BlockForm& form) { form.key_lengths[1] = 6; },
                           {"args.attention", "key_lengths[1] is 6", "5"});
  check_block_args_refused([](BlockForm& form) { form.inner.reserved = 3; },
                           {"args.attention", "reserved is 3", "must be 0"});
  check_block_args_refused(
      [](BlockForm& form) { form.inner.lse = const_cast<void*>(off_by<void>(form.inner.lse, 2)); },
      {"args.attention", "lse is 0x", "multiple of 4"});
  check_block_args_refused([](BlockForm& form) { form.inner.cu_seqlens_q = form.key_lengths; },
                           {"args.attention", "cu_seqlens_q"});
  check_block_args_refused([](BlockForm& form) { form.inner.column_sums = form.lse.at(); },
                           {"args.attention", "column_sums"});
}

TEST_CASE("a block's workspace that cannot be used is refused", "[multihead]") {
  const Context context = serial();
  BlockForm form;
  const MultiheadPlan plan = make_plan(context, form.desc);
  std::size_t bytes = 0;
  REQUIRE(heed_multihead_plan_workspace(plan.get(), &bytes) == HEED_STATUS_OK);
  REQUIRE(bytes > 0);
  const std::string needed = "needs " + std::to_string(bytes);
  const Workspace workspace(bytes + HEED_WORKSPACE_ALIGNMENT);
  const auto run = [&](void* at, std::size_t size) {
    forget_last_error();
    return heed_multihead_plan_run(plan.get(), &form.args, at, size);
  };
  check_refusal(run(nullptr, bytes), HEED_STATUS_INVALID_WORKSPACE,
                {"workspace is NULL", needed.c_str()});
  for (const std::size_t given : {std::size_t{0}, std::size_t{1}, bytes - 1}) {
    const std::string value = "workspace_bytes is " + std::to_string(given);
    check_refusal(run(workspace.get(), given), HEED_STATUS_INVALID_WORKSPACE,
                  {value.c_str(), needed.c_str()});
  }
  for (const int shift : {1, 4, 16, 32, 63})
    check_refusal(run(static_cast<char*>(workspace.get()) + shift, bytes),
                  HEED_STATUS_INVALID_WORKSPACE, {"workspace is 0x", "multiple of 64"});
  CHECK(form.outputs_untouched());
  CHECK(run(workspace.get(), bytes) == HEED_STATUS_OK);
}

TEST_CASE("NULL is refused by the functions of blocks", "[multihead]") {
  const Context context = serial();
  BlockForm form;
  const MultiheadPlan plan = make_plan(context, form.desc);
  heed_multihead_plan* made = untouched<heed_multihead_plan>();
  heed_multihead_info info = HEED_MULTIHEAD_INFO_INIT;
  std::size_t bytes = 77;
  const auto refused = [](heed_status status, const char* name) {
    check_refusal(status, HEED_STATUS_INVALID_ARGUMENT, {name, "NULL"});
    forget_last_error();
  };
  forget_last_error();
  refused(heed_multihead_plan_create(nullptr, &form.desc, &made), "context");
  refused(heed_multihead_plan_create(context.get(), nullptr, &made), "desc");
  refused(heed_multihead_plan_create(context.get(), &form.desc, nullptr), "plan");
  refused(heed_multihead_plan_describe(nullptr, &info), "plan");
  refused(heed_multihead_plan_describe(plan.get(), nullptr), "info");
  refused(heed_multihead_plan_workspace(nullptr, &bytes), "plan");
  refused(heed_multihead_plan_workspace(plan.get(), nullptr), "bytes");
  refused(heed_multihead_plan_run(nullptr, &form.args, nullptr, 0), "plan");
  refused(heed_multihead_plan_run(plan.get(), nullptr, nullptr, 0), "args");
  refused(heed_multihead(nullptr, &form.desc, &form.args), "context");
  refused(heed_multihead(context.get(), nullptr, &form.args), "desc");
  refused(heed_multihead(context.get(), &form.desc, nullptr), "args");
  CHECK(made == untouched<heed_multihead_plan>());
  CHECK(bytes == 77);
  CHECK(form.outputs_untouched());
  heed_multihead_plan_destroy(nullptr);
}

TEST_CASE("a packed block's offsets make sense before anything is read", "[multihead]") {
  std::int32_t offsets[] = {0, 3, 6};
  const auto packed = [&](BlockForm& form) {
    form.attention.packed_queries = 6;
    form.attention.packed_keys = 10;
    form.inner.cu_seqlens_q = offsets;
    form.inner.cu_seqlens_k = offsets;
    form.inner.key_lengths = nullptr;
  };
  check_block_accepted(packed);
  const auto refused = [&](const BlockChange& change, Parts parts) {
    check_block_args_refused(
        [&](BlockForm& form) {
          packed(form);
          change(form);
        },
        parts);
  };
  refused([](BlockForm& form) { form.inner.cu_seqlens_q = nullptr; },
          {"args.attention", "cu_seqlens_q is NULL"});
  refused([](BlockForm& form) { form.inner.cu_seqlens_k = nullptr; },
          {"args.attention", "cu_seqlens_k is NULL"});
  refused(
      [](BlockForm& form) {
        form.attention.weights_point = HEED_WEIGHTS_NONE;
        form.args.attention = nullptr;
      },
      {"args.attention", "cu_seqlens_q is NULL"});
  std::int32_t falling[] = {3, 2, 6};
  refused([&](BlockForm& form) { form.inner.cu_seqlens_q = falling; },
          {"args.attention", "cu_seqlens_q[1] is 2"});
  std::int32_t far[] = {0, 3, 1 << 30};
  refused([&](BlockForm& form) { form.inner.cu_seqlens_k = far; },
          {"args.attention", "cu_seqlens_k[2] is 1073741824"});
  std::int32_t negative[] = {-1, 2, 3};
  refused([&](BlockForm& form) { form.inner.cu_seqlens_k = negative; },
          {"args.attention", "cu_seqlens_k[0] is -1"});
}
