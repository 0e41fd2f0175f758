// Blocks and prepared matrices stay inside their tensors and their workspace.
#if defined(__unix__)
#include "tests/api/blocks.hpp"
#include "tests/api/fenced.hpp"

using namespace api_test;

namespace {

std::size_t width_of(std::uint32_t dtype) {
  return dtype == HEED_DTYPE_F64 ? 8 : dtype == HEED_DTYPE_BF16 || dtype == HEED_DTYPE_F16 ? 2 : 4;
}

/// A block every tensor of which lies between forbidden pages.
struct FencedBlock {
  FencedBlock(std::int64_t rows, std::int64_t width, std::uint32_t dtype, heed_combine combine,
              End end)
      : bytes_of(width_of(dtype)),
        input(size(rows * width), end),
        matrices{{size(width * 10), end},
                 {size(width * 10), end},
                 {size(width * 14), end},
                 {size(14 * 9), end}},
        biases{{size(10), end}, {size(10), end}, {size(14), end}, {size(9), end}},
        head_weights(2 * (dtype == HEED_DTYPE_F64 ? 8 : 4), end),
        out(size(rows * (has_w_out(combine) ? 9 : 7)), end) {
    attention.batch = 1;
    attention.query_heads = 2;
    attention.query_length = attention.key_length = rows;
    attention.features = 5;
    attention.value_features = 7;
    desc.combine = combine;
    desc.attention = &attention;
    desc.width_query = width;
    desc.width_out = has_w_out(combine) ? 9 : 0;
    desc.input_query.dtype = desc.input_key.dtype = desc.out.dtype = desc.bias_dtype = dtype;
    desc.w_query.dtype = desc.w_key.dtype = desc.w_value.dtype = desc.w_out.dtype = dtype;
    args.input_query = input.get();
    args.w_query = matrices[0].get();
    args.w_key = matrices[1].get();
    args.w_value = matrices[2].get();
    args.b_query = biases[0].get();
    args.b_key = biases[1].get();
    args.b_value = biases[2].get();
    if (has_w_out(combine)) args.w_out = matrices[3].get();
    if (has_w_out(combine)) args.b_out = biases[3].get();
    if (combine == HEED_COMBINE_WEIGHTED) args.head_weights = head_weights.get();
    args.out = out.get();
  }
  FencedBlock(const FencedBlock&) = delete;
  FencedBlock& operator=(const FencedBlock&) = delete;

  /// [out, in] instead.
  void transpose() {
    desc.w_query.stride_out = desc.w_key.stride_out = desc.w_value.stride_out = desc.width_query;
    desc.w_query.stride_in = desc.w_key.stride_in = desc.w_value.stride_in = 1;
  }

  static bool has_w_out(heed_combine combine) {
    return combine == HEED_COMBINE_CONCAT || combine == HEED_COMBINE_TENSOR;
  }
  std::size_t size(std::int64_t elements) const {
    return static_cast<std::size_t>(elements) * bytes_of;
  }

  std::size_t bytes_of;
  Fenced input;
  Fenced matrices[4];
  Fenced biases[4];
  Fenced head_weights;
  Fenced out;
  heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
  heed_multihead_desc desc = HEED_MULTIHEAD_DESC_INIT;
  heed_multihead_args args = HEED_MULTIHEAD_ARGS_INIT;
};

}  // namespace

TEST_CASE("a block's run writes nothing past its workspace, whatever was in it",
          "[workspace][multihead]") {
  for (const std::string& isa : usable_isas()) {
    CAPTURE(isa);
    const Context context = make_context(isa.c_str(), "serial", 1);
    std::vector<std::vector<unsigned char>> results;
    for (const int fill : {0x00, 0xff, 0x7f}) {  // 0xff.. is a NaN, 0x7f7f7f7f is large
      FencedBlock block(45, 21, HEED_DTYPE_F16, HEED_COMBINE_CONCAT, End::kLast);
      block.input.fill(0x31);
      for (const Fenced& matrix : block.matrices) matrix.fill(0x2c);
      const MultiheadPlan plan = make_plan(context, block.desc);
      const std::size_t bytes = describe(plan).workspace_bytes;
      const Workspace workspace(bytes + 256);
      std::memset(workspace.get(), fill, bytes + 256);
      REQUIRE(heed_multihead_plan_run(plan.get(), &block.args, workspace.get(), bytes) ==
              HEED_STATUS_OK);
      const auto* const end = static_cast<const unsigned char*>(workspace.get()) + bytes;
      for (int i = 0; i < 256; ++i) REQUIRE(end[i] == fill);
      const auto* const out = static_cast<const unsigned char*>(block.out.get());
      results.emplace_back(out, out + block.out.bytes());
    }
    CHECK(results[0] == results[1]);
    CHECK(results[0] == results[2]);
  }
}

TEST_CASE("blocks stay inside their tensors", "[pages][multihead]") {
  for (const std::string& isa : usable_isas()) {
    const Context context = make_context(isa.c_str(), "serial", 1);
    for (const std::uint32_t dtype :
         {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16, HEED_DTYPE_F16})
      for (const End end : {End::kFirst, End::kLast})
        for (const heed_combine combine : {HEED_COMBINE_CONCAT, HEED_COMBINE_WEIGHTED})
          for (const std::int64_t rows : {1, 5, 26})
            for (const std::int64_t width : {1, 9, 131})
              for (const bool transposed : {false, true}) {
                CAPTURE(isa, dtype, combine, rows, width, transposed);
                FencedBlock block(rows, width, dtype, combine, end);
                if (transposed) block.transpose();
                const heed_status status = heed_multihead(context.get(), &block.desc, &block.args);
                INFO(heed_last_error());
                CHECK(status == HEED_STATUS_OK);
              }
  }
}

TEST_CASE("matrices to prepare are read inside their memory", "[pages][weights]") {
  for (const std::string& isa : usable_isas()) {
    const Context context = make_context(isa.c_str(), "serial", 1);
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16})
      for (const End end : {End::kFirst, End::kLast})
        for (const std::int64_t in : {1, 7, 129})
          for (const std::int64_t out : {1, 15, 17, 33})
            for (const bool transposed : {false, true}) {
              heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
              desc.in = in;
              desc.out = out;
              desc.layout.dtype = desc.bias_dtype = dtype;
              if (transposed) desc.layout.stride_in = 1;
              if (transposed) desc.layout.stride_out = in;
              const Fenced matrix(static_cast<std::size_t>(in * out) * width_of(dtype), end);
              const Fenced bias(static_cast<std::size_t>(out) * width_of(dtype), end);
              heed_weights* weights = nullptr;
              CHECK(heed_weights_create(context.get(), &desc, matrix.get(), bias.get(), &weights) ==
                    HEED_STATUS_OK);
              heed_weights_destroy(weights);
            }
  }
}
#endif
