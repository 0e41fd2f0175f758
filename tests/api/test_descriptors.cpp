// Every refusal of a descriptor's fields, and the limits that are still accepted.
#include <cmath>
#include <limits>

#include "tests/api/support.hpp"

using namespace api_test;

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 40;

/// Refused with INVALID_ARGUMENT after `change` is made to a good descriptor.
template <class Change>
void check_refused(const Context& context, Change change,
                   std::initializer_list<const char*> parts) {
  heed_attention_desc desc = desc_of(Shape{});
  change(desc);
  check_desc_refused(context, desc, HEED_STATUS_INVALID_ARGUMENT, parts);
}

template <class Change>
void check_accepted(const Context& context, Change change) {
  heed_attention_desc desc = desc_of(Shape{});
  change(desc);
  make_plan(context, desc);
}

/// Strides of out in a descriptor for out [2, 3, 4, 5].
heed_attention_desc out_strides(std::int64_t batch, std::int64_t head, std::int64_t row,
                                std::int64_t feature) {
  Shape shape;
  shape.batch = 2;
  shape.query_heads = shape.key_heads = 3;
  shape.query_length = 4;
  shape.value_features = 5;
  heed_attention_desc desc = desc_of(shape);
  desc.out.stride_batch = batch;
  desc.out.stride_head = head;
  desc.out.stride_row = row;
  desc.out.stride_feature = feature;
  return desc;
}

struct Tensor {
  const char* name;
  heed_layout heed_attention_desc::*layout;
};
constexpr Tensor kTensors[] = {{"desc.query", &heed_attention_desc::query},
                               {"desc.key", &heed_attention_desc::key},
                               {"desc.value", &heed_attention_desc::value},
                               {"desc.out", &heed_attention_desc::out}};

}  // namespace

TEST_CASE("sizes below their bound or past 2^40 are refused", "[desc]") {
  struct Size {
    const char* name;
    std::int64_t heed_attention_desc::*field;
  };
  const Context context = serial();
  for (const Size& size : {Size{"desc.batch", &heed_attention_desc::batch},
                           Size{"desc.query_heads", &heed_attention_desc::query_heads},
                           Size{"desc.key_heads", &heed_attention_desc::key_heads},
                           Size{"desc.query_length", &heed_attention_desc::query_length},
                           Size{"desc.key_length", &heed_attention_desc::key_length},
                           Size{"desc.features", &heed_attention_desc::features},
                           Size{"desc.value_features", &heed_attention_desc::value_features}}) {
    for (const std::int64_t value : {std::int64_t{-1}, INT64_MIN, kMost + 1, INT64_MAX}) {
      const std::string text = std::to_string(value);
      check_refused(context, [&](heed_attention_desc& desc) { desc.*size.field = value; },
                    {size.name, text.c_str(), "1099511627776"});
    }
  }
}

TEST_CASE("features 0 is refused", "[desc]") {
  check_refused(serial(), [](heed_attention_desc& desc) { desc.features = 0; },
                {"desc.features is 0", "must be 1 to"});
}

TEST_CASE("a descriptor left as its _INIT macro makes it is refused", "[desc]") {
  const heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  check_desc_refused(serial(), desc, HEED_STATUS_INVALID_ARGUMENT, {"desc.features is 0"});
}

TEST_CASE("query heads that key heads do not divide are refused", "[desc]") {
  const Context context = serial();
  constexpr std::int64_t kHeads[][2] = {{6, 4}, {3, 2}, {2, 4}, {1, 7}};
  for (const auto& heads : kHeads) {
    const std::int64_t query_heads = heads[0];
    const std::int64_t key_heads = heads[1];
    const std::string q = "desc.query_heads is " + std::to_string(query_heads);
    const std::string k = "desc.key_heads, " + std::to_string(key_heads);
    const auto change = [&](heed_attention_desc& desc) {
      desc.query_heads = query_heads;
      desc.key_heads = key_heads;
    };
    check_refused(context, change, {q.c_str(), k.c_str(), "multiple"});
  }
}

TEST_CASE("shapes whose elements have no address are refused", "[desc]") {
  const Context context = serial();
  check_refused(context,
                [](heed_attention_desc& desc) {
                  desc.batch = kMost;
                  desc.query_length = kMost;
                },
                {"desc.query", "1099511627776 x 1 x 1099511627776 x 8", "overflows"});
  check_refused(context, [](heed_attention_desc& desc) { desc.batch = desc.key_length = kMost; },
                {"desc.key", "1099511627776 x 1 x 1099511627776 x 8", "overflows"});
  check_refused(context,
                [](heed_attention_desc& desc) {
                  desc.key_length = desc.value_features = kMost;
                  desc.key.stride_feature = 1;
                },
                {"desc.value", "1 x 1 x 1099511627776 x 1099511627776", "overflows"});
}

TEST_CASE("strides whose elements have no address are refused", "[desc]") {
  const Context context = serial();
  for (const Tensor& tensor : kTensors) {
    for (const std::int64_t stride : {INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX / 4}) {
      const std::string text = std::to_string(stride);
      check_refused(context,
                    [&](heed_attention_desc& desc) {
                      (desc.*tensor.layout).stride_row = stride;
                      (desc.*tensor.layout).stride_feature = 1;
                    },
                    {tensor.name, text.c_str(), "overflows"});
    }
  }
}

TEST_CASE("strides that overflow only together are refused", "[desc]") {
  heed_attention_desc desc = out_strides(0, 0, 0, 0);
  const std::int64_t large = INT64_MAX >> 5;
  desc.query = {0, 0, large, large / 2, 0, 1};
  check_desc_refused(serial(), desc, HEED_STATUS_INVALID_ARGUMENT, {"desc.query", "overflows"});
}

TEST_CASE("strides of an axis of one element are never taken", "[desc]") {
  check_accepted(serial(), [](heed_attention_desc& desc) {
    desc.query = {0, 0, INT64_MAX, INT64_MIN, 8, 1};
    desc.out = {0, 0, INT64_MIN, INT64_MAX, 6, 1};
  });
}

TEST_CASE("reserved words of layouts are 0", "[desc]") {
  const Context context = serial();
  for (const Tensor& tensor : kTensors) {
    const std::string field = std::string(tensor.name) + ".reserved is 9";
    check_refused(context, [&](heed_attention_desc& desc) { (desc.*tensor.layout).reserved = 9; },
                  {field.c_str(), "must be 0"});
  }
}

TEST_CASE("dtypes: any of their names, but float64 for all or none", "[desc]") {
  const Context context = serial();
  for (const Tensor& tensor : kTensors) {
    heed_attention_desc desc = desc_of(Shape{});
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16}) {
      (desc.*tensor.layout).dtype = dtype;
      make_plan(context, desc);
    }
    for (const std::uint32_t dtype : {5U, 0xffffffffU}) {
      const std::string field = std::string(tensor.name) + ".dtype is " + std::to_string(dtype);
      (desc.*tensor.layout).dtype = dtype;
      check_desc_refused(context, desc, HEED_STATUS_INVALID_ARGUMENT, {field.c_str(), "0 to 4"});
    }
    (desc.*tensor.layout).dtype = HEED_DTYPE_F64;
    check_desc_refused(context, desc, HEED_STATUS_INVALID_ARGUMENT, {"must be HEED_DTYPE_F64 (2)"});
  }
  heed_attention_desc desc = desc_of(Shape{});
  for (const Tensor& tensor : kTensors) (desc.*tensor.layout).dtype = HEED_DTYPE_F64;
  make_plan(context, desc);
}

TEST_CASE("causal is one of its names", "[desc]") {
  const Context context = serial();
  for (const std::uint32_t causal : {4U, 0xffffffffU}) {
    const std::string field = "desc.causal is " + std::to_string(causal);
    check_refused(context, [&](heed_attention_desc& desc) { desc.causal = causal; },
                  {field.c_str(), "0 to 3"});
  }
}

TEST_CASE("causal_offset belongs to HEED_CAUSAL_OFFSET", "[desc]") {
  const Context context = serial();
  for (const std::uint32_t causal :
       {HEED_CAUSAL_NONE, HEED_CAUSAL_TOP_LEFT, HEED_CAUSAL_BOTTOM_RIGHT}) {
    const std::string other = "desc.causal " + std::to_string(causal);
    check_refused(
        context,
        [&](heed_attention_desc& desc) {
          desc.causal = causal;
          desc.causal_offset = -3;
        },
        {"desc.causal_offset is -3", other.c_str(), "must be 0", "HEED_CAUSAL_OFFSET (3)"});
  }
  for (const std::int64_t offset : {std::int64_t{0}, INT64_MIN, INT64_MAX})
    check_accepted(context, [&](heed_attention_desc& desc) {
      desc.causal = HEED_CAUSAL_OFFSET;
      desc.causal_offset = offset;
    });
}

TEST_CASE("scale is finite", "[desc]") {
  const Context context = serial();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double scale : {infinity, -infinity, std::nan("")}) {
    const char* const value = std::isnan(scale) ? "nan" : (scale > 0 ? "inf" : "-inf");
    check_refused(context, [&](heed_attention_desc& desc) { desc.scale = scale; },
                  {"desc.scale is ", value, "must be finite"});
  }
}

TEST_CASE("an out whose elements overlap is refused", "[desc]") {
  const Context context = serial();
  const auto check = [&](std::int64_t batch, std::int64_t head, std::int64_t row,
                         std::int64_t feature, std::initializer_list<const char*> parts) {
    CAPTURE(batch, head, row, feature);
    check_desc_refused(context, out_strides(batch, head, row, feature),
                       HEED_STATUS_INVALID_ARGUMENT, parts);
  };
  // Contiguous is 60, 20, 5, 1.
  check(60, 20, 5, 0, {"desc.out.stride_feature is 0", "overlap"});
  check(60, 20, 0, 1, {"desc.out.stride_row is 0", "overlap"});
  check(60, 0, 5, 1, {"desc.out.stride_head is 0", "overlap"});
  check(0, 20, 5, 1, {"desc.out.stride_batch is 0", "overlap"});
  check(60, 20, 4, 1, {"desc.out.stride_row is 4", "exceed 4"});
  check(60, 19, 5, 1, {"desc.out.stride_head is 19", "exceed 19"});
  check(59, 20, 5, 1, {"desc.out.stride_batch is 59", "exceed 59"});
  check(60, 20, 1, 1, {"desc.out.stride_", "is 1", "overlap"});
  check(60, 20, -4, 1, {"desc.out.stride_row is -4", "exceed 4"});
  check(60, 20, 5, -5, {"desc.out.stride_", "exceed 15"});
  // Rows outermost, batches innermost.
  check(5, 10, 29, 1, {"desc.out.stride_row is 29", "exceed 29"});
}

TEST_CASE("an out whose elements lie apart is accepted in any order", "[desc]") {
  const Context context = serial();
  make_plan(context, out_strides(0, 0, 0, 0));
  make_plan(context, out_strides(60, 20, 5, 1));
  make_plan(context, out_strides(-60, 20, -5, 1));
  make_plan(context, out_strides(60, 5, 15, 1));    // [batch, row, head, feature]
  make_plan(context, out_strides(5, 10, 30, 1));    // [row, head, batch, feature]
  make_plan(context, out_strides(1, 2, 6, 24));     // column-major
  make_plan(context, out_strides(900, 80, 16, 2));  // padded
}

TEST_CASE("arguments: a reserved word and misaligned tensors are refused", "[args]") {
  const Context context = serial();
  const heed_attention_desc desc = desc_of(Shape{});
  Tensors tensors{Shape{}};
  heed_attention_args args = tensors.args();
  args.reserved = 5;
  forget_last_error();
  check_refusal(heed_attention(context.get(), &desc, &args), HEED_STATUS_INVALID_ARGUMENT,
                {"args.reserved is 5", "must be 0"});

  const auto check = [&](const char* name, auto member) {
    heed_attention_args off = tensors.args();
    off.*member = static_cast<char*>(const_cast<void*>(off.*member)) + 2;
    forget_last_error();
    check_refusal(heed_attention(context.get(), &desc, &off), HEED_STATUS_INVALID_ARGUMENT,
                  {name, "multiple of 4"});
  };
  check("args.query", &heed_attention_args::query);
  check("args.key", &heed_attention_args::key);
  check("args.value", &heed_attention_args::value);
  check("args.out", &heed_attention_args::out);
  CHECK(tensors.out_untouched());
}
