// Every refusal of a block's descriptor: each names the field, its value and the bound, and leaves
// all outputs alone.
#include <cmath>

#include "tests/api/blocks.hpp"

using namespace api_test;

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 40;

struct NamedLayout {
  const char* name;
  heed_layout heed_multihead_desc::*layout;
};
constexpr NamedLayout kTensors[] = {{"desc.input_query", &heed_multihead_desc::input_query},
                                    {"desc.input_key", &heed_multihead_desc::input_key},
                                    {"desc.out", &heed_multihead_desc::out}};

struct NamedMatrix {
  const char* name;
  heed_matrix_layout heed_multihead_desc::*layout;
};
constexpr NamedMatrix kMatrices[] = {{"desc.w_query", &heed_multihead_desc::w_query},
                                     {"desc.w_key", &heed_multihead_desc::w_key},
                                     {"desc.w_value", &heed_multihead_desc::w_value},
                                     {"desc.w_out", &heed_multihead_desc::w_out}};

struct NamedAttentionLayout {
  const char* name;
  heed_layout heed_attention_desc::*layout;
};
constexpr NamedAttentionLayout kOwn[] = {{"query", &heed_attention_desc::query},
                                         {"key", &heed_attention_desc::key},
                                         {"value", &heed_attention_desc::value},
                                         {"out", &heed_attention_desc::out}};

}  // namespace

TEST_CASE("blocks that are refused here are refused for one reason", "[multihead]") {
  check_block_accepted([](BlockForm&) {});
  check_block_accepted([](BlockForm& form) { form.desc.combine = HEED_COMBINE_TENSOR; });
  for (const heed_combine combine : {HEED_COMBINE_WEIGHTED, HEED_COMBINE_MEAN, HEED_COMBINE_MAX})
    check_block_accepted([&](BlockForm& form) { form.reduce(combine); });
  check_block_accepted([](BlockForm& form) { form.all_float64(); });
  check_block_accepted([](BlockForm& form) {
    form.attention.weights_point = HEED_WEIGHTS_NONE;
    form.args.attention = nullptr;
  });
}

TEST_CASE("a block has an attention", "[multihead]") {
  check_block_desc_refused([](BlockForm& form) { form.desc.attention = nullptr; },
                           {"desc.attention", "NULL"});
}

TEST_CASE("a combiner is one of its names", "[multihead]") {
  for (const std::uint32_t combine : {5U, 0xffffffffU}) {
    const std::string field = "desc.combine is " + std::to_string(combine);
    check_block_desc_refused([&](BlockForm& form) { form.desc.combine = combine; },
                             {field.c_str(), "0 to 4"});
  }
}

TEST_CASE("reserved words of a block are 0", "[multihead]") {
  check_block_desc_refused([](BlockForm& form) { form.desc.reserved = 9; },
                           {"desc.reserved is 9", "must be 0"});
  for (const NamedLayout& tensor : kTensors)
    check_block_desc_refused([&](BlockForm& form) { (form.desc.*tensor.layout).reserved = 9; },
                             {(std::string(tensor.name) + ".reserved is 9").c_str(), "must be 0"});
  for (const NamedMatrix& matrix : kMatrices)
    check_block_desc_refused([&](BlockForm& form) { (form.desc.*matrix.layout).reserved = 9; },
                             {(std::string(matrix.name) + ".reserved is 9").c_str(), "must be 0"});
}

TEST_CASE("layouts of the attention inside are the block's own", "[multihead]") {
  for (const NamedAttentionLayout& own : kOwn) {
    const std::string field = std::string("desc.attention->") + own.name;
    const auto refused = [&](const std::function<void(heed_layout&)>& set) {
      check_block_desc_refused([&](BlockForm& form) { set(form.attention.*own.layout); },
                               {field.c_str(), "must be 0"});
    };
    refused([](heed_layout& layout) { layout.dtype = HEED_DTYPE_F32; });
    refused([](heed_layout& layout) { layout.reserved = 1; });
    refused([](heed_layout& layout) { layout.stride_batch = 1; });
    refused([](heed_layout& layout) { layout.stride_head = 1; });
    refused([](heed_layout& layout) { layout.stride_row = 1; });
    refused([](heed_layout& layout) { layout.stride_feature = 1; });
  }
}

TEST_CASE("what a dense call refuses, a block refuses inside", "[multihead]") {
  check_block_desc_refused([](BlockForm& form) { form.attention.key_heads = 3; },
                           {"desc.attention", "query_heads is 4", "key_heads, 3"});
  check_block_desc_refused([](BlockForm& form) { form.attention.features = 0; },
                           {"desc.attention", "features is 0", "1 to"});
  check_block_desc_refused([](BlockForm& form) { form.attention.scale = std::nan(""); },
                           {"desc.attention", "scale is", "finite"});
  check_block_desc_refused([](BlockForm& form) { form.attention.batch = -1; },
                           {"desc.attention", "batch is -1", "0 to"});
  check_block_desc_refused([](BlockForm& form) { form.attention.weights_point = 7; },
                           {"desc.attention", "weights_point is 7", "0 to 4"});
  check_block_desc_refused([](BlockForm& form) { form.attention.lse.dtype = HEED_DTYPE_F16; },
                           {"desc.attention", "lse.dtype is 4", "HEED_DTYPE_F32 (1)"});
  check_block_desc_refused([](BlockForm& form) { form.attention.reserved = 1; },
                           {"desc.attention", "reserved is 1", "must be 0"});
}

TEST_CASE("a block has heads", "[multihead]") {
  check_block_desc_refused(
      [](BlockForm& form) { form.attention.query_heads = form.attention.key_heads = 0; },
      {"attention->query_heads is 0", "1 to"});
}

TEST_CASE("widths of a block are in range", "[multihead]") {
  for (const std::int64_t width : {std::int64_t{0}, std::int64_t{-1}, kMost + 1, INT64_MIN}) {
    const std::string field = "desc.width_query is " + std::to_string(width);
    check_block_desc_refused([&](BlockForm& form) { form.desc.width_query = width; },
                             {field.c_str(), "1 to 1099511627776"});
  }
  for (const std::int64_t width : {std::int64_t{-1}, kMost + 1}) {
    const std::string key = "desc.width_key is " + std::to_string(width);
    check_block_desc_refused([&](BlockForm& form) { form.desc.width_key = width; },
                             {key.c_str(), "0 to 1099511627776"});
    const std::string out = "desc.width_out is " + std::to_string(width);
    check_block_desc_refused([&](BlockForm& form) { form.desc.width_out = width; },
                             {out.c_str(), "0 to 1099511627776"});
  }
}

TEST_CASE("without a W_out a block is as wide as a head", "[multihead]") {
  for (const heed_combine combine : {HEED_COMBINE_WEIGHTED, HEED_COMBINE_MEAN, HEED_COMBINE_MAX}) {
    check_block_desc_refused(
        [&](BlockForm& form) {
          form.reduce(combine);
          form.desc.width_out = 8;
        },
        {"desc.width_out is 8", "value_features, 6"});
    check_block_accepted([&](BlockForm& form) {
      form.reduce(combine);
      form.desc.width_out = 6;
    });
  }
}

TEST_CASE("inputs and output of a block have no heads", "[multihead]") {
  for (const NamedLayout& tensor : kTensors)
    check_block_desc_refused(
        [&](BlockForm& form) { form.desc.*tensor.layout = {0, 0, 100, 50, 20, 1}; },
        {(std::string(tensor.name) + ".stride_head is 50").c_str(), "must be 0"});
}

TEST_CASE("types of a block are heed_dtypes", "[multihead]") {
  for (const NamedLayout& tensor : kTensors)
    check_block_desc_refused([&](BlockForm& form) { (form.desc.*tensor.layout).dtype = 5; },
                             {(std::string(tensor.name) + ".dtype is 5").c_str(), "0 to 4"});
  for (const NamedMatrix& matrix : kMatrices)
    check_block_desc_refused([&](BlockForm& form) { (form.desc.*matrix.layout).dtype = 5; },
                             {(std::string(matrix.name) + ".dtype is 5").c_str(), "0 to 4"});
  check_block_desc_refused([](BlockForm& form) { form.desc.bias_dtype = 5; },
                           {"desc.bias_dtype is 5", "0 to 4"});
}

TEST_CASE("float64 goes with float64 only in a block too", "[multihead]") {
  for (const std::uint32_t other : {HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16}) {
    const std::string value = ".dtype is " + std::to_string(other);
    for (const NamedLayout& tensor : kTensors) {
      if (tensor.layout == &heed_multihead_desc::input_query) continue;  // it says what all are
      check_block_desc_refused(
          [&](BlockForm& form) {
            form.all_float64();
            (form.desc.*tensor.layout).dtype = other;
          },
          {(tensor.name + value).c_str(), "HEED_DTYPE_F64 (2)"});
    }
    for (const NamedMatrix& matrix : kMatrices)
      check_block_desc_refused(
          [&](BlockForm& form) {
            form.all_float64();
            (form.desc.*matrix.layout).dtype = other;
          },
          {(matrix.name + value).c_str(), "HEED_DTYPE_F64 (2)"});
    check_block_desc_refused(
        [&](BlockForm& form) {
          form.all_float64();
          form.desc.bias_dtype = other;
        },
        {("desc.bias_dtype is " + std::to_string(other)).c_str(), "HEED_DTYPE_F64 (2)"});
  }
  for (const NamedLayout& tensor : kTensors) {
    if (tensor.layout == &heed_multihead_desc::input_query) continue;
    check_block_desc_refused(
        [&](BlockForm& form) { (form.desc.*tensor.layout).dtype = HEED_DTYPE_F64; },
        {(std::string(tensor.name) + ".dtype is HEED_DTYPE_F64 (2)").c_str(), "float32"});
  }
  for (const NamedMatrix& matrix : kMatrices)
    check_block_desc_refused(
        [&](BlockForm& form) { (form.desc.*matrix.layout).dtype = HEED_DTYPE_F64; },
        {(std::string(matrix.name) + ".dtype is HEED_DTYPE_F64 (2)").c_str(), "float32"});
  check_block_desc_refused([](BlockForm& form) { form.desc.bias_dtype = HEED_DTYPE_F64; },
                           {"desc.bias_dtype is 2", "float32"});
}

TEST_CASE("rows of a block's output do not overlap", "[multihead]") {
  check_block_desc_refused([](BlockForm& form) { form.desc.out = {0, 0, 24, 0, 7, 1}; },
                           {"desc.out.stride_row is 7", "exceed 7"});
  check_block_desc_refused([](BlockForm& form) { form.desc.out = {0, 0, 0, 0, 8, 1}; },
                           {"desc.out.stride_batch is 0"});
}

TEST_CASE("one matrix has no stride between matrices", "[multihead]") {
  for (const NamedMatrix& matrix : kMatrices)
    check_block_desc_refused(
        [&](BlockForm& form) {
          form.desc.*matrix.layout = {0, 0, 64, 16, 1};
        },
        {(std::string(matrix.name) + ".stride_matrix is 64").c_str(), "must be 0"});
  check_block_accepted([](BlockForm& form) {
    form.desc.combine = HEED_COMBINE_TENSOR;
    form.desc.w_out = {0, 0, 64, 8, 1};
  });
}

TEST_CASE("a block's addresses do not overflow", "[multihead]") {
  for (const NamedLayout& tensor : kTensors)
    check_block_desc_refused(
        [&](BlockForm& form) { form.desc.*tensor.layout = {0, 0, 100, 0, INT64_MAX, 1}; },
        {tensor.name, "overflows an address"});
  for (const NamedMatrix& matrix : kMatrices)
    check_block_desc_refused(
        [&](BlockForm& form) {
          form.desc.*matrix.layout = {0, 0, 0, INT64_MIN, 1};
        },
        {matrix.name, "overflows an address"});
  check_block_desc_refused(
      [](BlockForm& form) {
        form.desc.width_query = kMost;
        form.attention.query_length = kMost;
      },
      {"overflows"});
}

TEST_CASE("a block whose workspace overflows is refused", "[multihead]") {
  // Every tensor of its own stays in range; what a thread works in does, too; that of all threads
  // does not.
  heed_executor executor = HEED_EXECUTOR_INIT;
  executor.threads = 1024;
  executor.run = [](void*, std::uint32_t items, void (*body)(void*, std::uint32_t),
                    void* argument) {
    for (std::uint32_t i = 0; i < items; ++i) body(argument, i);
  };
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor = &executor;
  const Context context = make_context(&options);
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
    if (status == HEED_STATUS_INVALID_ARGUMENT) {
      CHECK(std::string(heed_last_error()).find("overflow") != std::string::npos);
      continue;
    }
    REQUIRE(status == HEED_STATUS_OK);
    const MultiheadPlan plan(made);
    // Heads of 2^shift numbers in all.
    CHECK(describe(plan).workspace_bytes > std::size_t{4} << shift);
    CHECK(describe(plan).workspace_bytes < std::size_t{1} << 62);
  }
}
