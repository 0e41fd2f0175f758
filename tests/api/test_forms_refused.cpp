// Every refusal of what came with masks, biases, windows, ragged batches and further outputs: each
// names the field, its value and the bound, and leaves all outputs alone.
#include <cmath>
#include <functional>
#include <limits>

#include "tests/api/bytes.hpp"
#include "tests/api/support.hpp"

using namespace api_test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kMost = std::int64_t{1} << 40;

/// A problem with one of everything: [2, 4, 3, 4] queries, [2, 2, 5, 4] keys, values of 6 features.
struct Form {
  Form() {
    desc.batch = 2;
    desc.query_heads = 4;
    desc.key_heads = 2;
    desc.query_length = 3;
    desc.key_length = 5;
    desc.features = 4;
    desc.value_features = 6;
    desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    desc.weights_point = HEED_WEIGHTS_PROBABILITIES;
    desc.weight_rows = 2;
    desc.sum_columns = 1;
    args.query = query.at();
    args.key = key.at();
    args.value = value.at();
    args.out = out.at();
    args.mask = static_cast<std::uint8_t*>(mask.at());
    args.bias = bias.at();
    args.key_lengths = key_lengths;
    args.alibi_slopes = slopes.at();
    args.sinks = sinks.at();
    args.weight_rows = weight_rows;
    args.lse = lse.at();
    args.weights = weights.at();
    args.column_sums = column_sums.at();
  }
  Form(const Form&) = delete;  // its arguments point into it
  Form& operator=(const Form&) = delete;

  void pack_queries() {
    desc.packed_queries = 6;
    args.cu_seqlens_q = cu_seqlens_q;
  }
  void pack_keys() {
    desc.packed_keys = 10;
    args.cu_seqlens_k = cu_seqlens_k;
  }
  void all_float64() {
    desc.query.dtype = desc.key.dtype = desc.value.dtype = desc.out.dtype = HEED_DTYPE_F64;
  }
  void all_16_bits() {
    desc.query.dtype = desc.key.dtype = desc.value.dtype = desc.out.dtype = HEED_DTYPE_F16;
    desc.bias.dtype = desc.weights.dtype = desc.column_sums.dtype = HEED_DTYPE_BF16;
  }
  /// Without what hard attention must not have.
  void be_hard() {
    desc.hard = 1;
    args.sinks = args.lse = nullptr;
  }

  bool outputs_untouched() const {
    return out.all_are(kPattern) && lse.all_are(kPattern) && weights.all_are(kPattern) &&
           column_sums.all_are(kPattern);
  }

  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  Bytes query, key, value, mask{1}, bias, slopes, sinks;
  Bytes out{kPattern}, lse{kPattern}, weights{kPattern}, column_sums{kPattern};
  std::int32_t key_lengths[2] = {5, 2};
  std::int32_t cu_seqlens_q[3] = {0, 3, 5};
  std::int32_t cu_seqlens_k[3] = {1, 6, 10};
  std::int64_t weight_rows[2] = {0, 2};
};

using Change = std::function<void(Form&)>;
using Parts = std::initializer_list<const char*>;

Context serial() { return make_context(nullptr, "serial", 1); }

/// No plan is made of the descriptor, and the one call refuses it the same way.
void check_desc_refused(const Change& change, Parts parts) {
  const Context context = serial();
  Form form;
  change(form);
  forget_last_error();
  heed_attention_plan* plan = untouched<heed_attention_plan>();
  const heed_status got = heed_attention_plan_create(context.get(), &form.desc, &plan);
  check_refusal(got, HEED_STATUS_INVALID_ARGUMENT, parts);
  CHECK(plan == untouched<heed_attention_plan>());
  if (got == HEED_STATUS_OK) heed_attention_plan_destroy(plan);
  forget_last_error();
  check_refusal(heed_attention(context.get(), &form.desc, &form.args), HEED_STATUS_INVALID_ARGUMENT,
                parts);
  CHECK(form.outputs_untouched());
}

/// The descriptor is good; a run with these arguments is refused, and so is the one call.
void check_args_refused(const Change& change, Parts parts) {
  const Context context = serial();
  Form form;
  change(form);
  const Plan plan = make_plan(context, form.desc);
  const Workspace workspace(describe(plan).workspace_bytes);
  forget_last_error();
  check_refusal(heed_attention_plan_run(plan.get(), &form.args, workspace.get(), workspace.bytes()),
                HEED_STATUS_INVALID_ARGUMENT, parts);
  forget_last_error();
  check_refusal(heed_attention(context.get(), &form.desc, &form.args), HEED_STATUS_INVALID_ARGUMENT,
                parts);
  CHECK(form.outputs_untouched());
}

void check_accepted(const Change& change) {
  const Context context = serial();
  Form form;
  change(form);
  const heed_status status = heed_attention(context.get(), &form.desc, &form.args);
  INFO(heed_last_error());
  CHECK(status == HEED_STATUS_OK);
  CHECK_FALSE(form.out.all_are(kPattern));
}

struct NamedLayout {
  const char* name;
  heed_layout heed_attention_desc::*layout;
};
constexpr NamedLayout kInputs[] = {{"desc.query", &heed_attention_desc::query},
                                   {"desc.key", &heed_attention_desc::key},
                                   {"desc.value", &heed_attention_desc::value},
                                   {"desc.out", &heed_attention_desc::out}};
constexpr NamedLayout kOutputs[] = {{"desc.lse", &heed_attention_desc::lse},
                                    {"desc.weights", &heed_attention_desc::weights},
                                    {"desc.column_sums", &heed_attention_desc::column_sums}};

struct NamedScoreLayout {
  const char* name;
  heed_score_layout heed_attention_desc::*layout;
};
constexpr NamedScoreLayout kScores[] = {{"desc.mask", &heed_attention_desc::mask},
                                        {"desc.bias", &heed_attention_desc::bias}};

}  // namespace

TEST_CASE("what is refused here is refused for one reason", "[forms]") {
  check_accepted([](Form&) {});
  check_accepted([](Form& form) { form.pack_queries(); });
  check_accepted([](Form& form) { form.pack_keys(); });
  check_accepted([](Form& form) {
    form.pack_queries();
    form.pack_keys();
  });
  check_accepted([](Form& form) { form.all_float64(); });
  check_accepted([](Form& form) { form.all_16_bits(); });
  check_accepted([](Form& form) { form.be_hard(); });
}

// ---- Types and layouts ----

TEST_CASE("float64 goes with float64 only", "[forms]") {
  for (unsigned mix = 1; mix < 15; ++mix)
    for (const std::uint32_t other : {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F16}) {
      unsigned first = 0;  // that is not float64
      while ((mix >> first & 1U) != 0) ++first;
      const std::string field =
          std::string(kInputs[first].name) + ".dtype is " + std::to_string(other);
      check_desc_refused(
          [&](Form& form) {
            for (unsigned n = 0; n < 4; ++n)
              (form.desc.*kInputs[n].layout).dtype =
                  (mix >> n & 1U) != 0 ? std::uint32_t{HEED_DTYPE_F64} : other;
          },
          {field.c_str(), "must be HEED_DTYPE_F64 (2)"});
    }
}

TEST_CASE("a dtype is one of its names", "[forms]") {
  for (const std::uint32_t dtype : {5U, 0xffffffffU}) {
    const std::string value = ".dtype is " + std::to_string(dtype);
    for (const NamedLayout& layout : kOutputs)
      check_desc_refused([&](Form& form) { (form.desc.*layout.layout).dtype = dtype; },
                         {(layout.name + value).c_str(), "0 to 4"});
    check_desc_refused([&](Form& form) { form.desc.bias.dtype = dtype; },
                       {("desc.bias" + value).c_str(), "0 to 4"});
  }
}

TEST_CASE("a log-sum-exp has no 16-bit type", "[forms]") {
  check_desc_refused([](Form& form) { form.desc.lse.dtype = HEED_DTYPE_BF16; },
                     {"desc.lse.dtype is 3", "HEED_DTYPE_F32 (1) or HEED_DTYPE_F64 (2)"});
  check_desc_refused([](Form& form) { form.desc.lse.dtype = HEED_DTYPE_F16; },
                     {"desc.lse.dtype is 4", "HEED_DTYPE_F32 (1) or HEED_DTYPE_F64 (2)"});
}

TEST_CASE("a mask has no dtype", "[forms]") {
  for (const std::uint32_t dtype : {1U, 4U, 9U}) {
    const std::string field = "desc.mask.dtype is " + std::to_string(dtype);
    check_desc_refused([&](Form& form) { form.desc.mask.dtype = dtype; },
                       {field.c_str(), "must be 0", "bytes"});
  }
}

TEST_CASE("reserved words are 0", "[forms]") {
  for (const NamedLayout& layout : kOutputs)
    check_desc_refused([&](Form& form) { (form.desc.*layout.layout).reserved = 9; },
                       {(std::string(layout.name) + ".reserved is 9").c_str(), "must be 0"});
  for (const NamedScoreLayout& layout : kScores)
    check_desc_refused([&](Form& form) { (form.desc.*layout.layout).reserved = 9; },
                       {(std::string(layout.name) + ".reserved is 9").c_str(), "must be 0"});
  check_desc_refused([](Form& form) { form.desc.reserved = 9; },
                     {"desc.reserved is 9", "must be 0"});
}

TEST_CASE("a mask's and a bias's sizes are the problem's, 1 or 0", "[forms]") {
  struct Size {
    const char* name;
    std::int64_t heed_score_layout::*size;
    std::int64_t right;
  };
  for (const NamedScoreLayout& layout : kScores)
    for (const Size& size :
         {Size{".batch", &heed_score_layout::batch, 2},
          Size{".heads", &heed_score_layout::heads, 4}, Size{".rows", &heed_score_layout::rows, 3},
          Size{".keys", &heed_score_layout::keys, 5}}) {
      for (const std::int64_t value :
           {std::int64_t{-1}, size.right - 1, size.right + 1, INT64_MAX}) {
        if (value == 1) continue;
        const std::string field = std::string(layout.name) + size.name + " is " +
                                  std::to_string(value) + "; it must be " +
                                  std::to_string(size.right) + ", 1 or 0";
        check_desc_refused([&](Form& form) { form.desc.*layout.layout.*size.size = value; },
                           {field.c_str()});
      }
      for (const std::int64_t value : {std::int64_t{0}, std::int64_t{1}, size.right})
        check_accepted([&](Form& form) { form.desc.*layout.layout.*size.size = value; });
    }
}

TEST_CASE("strides of masks and outputs whose elements have no address are refused", "[forms]") {
  for (const NamedScoreLayout& layout : kScores)
    check_desc_refused([&](Form& form) { (form.desc.*layout.layout).stride_row = INT64_MAX / 2; },
                       {layout.name, std::to_string(INT64_MAX / 2).c_str(), "overflows"});
  for (const NamedLayout& layout : kOutputs)
    check_desc_refused([&](Form& form) { (form.desc.*layout.layout).stride_head = INT64_MIN; },
                       {layout.name, std::to_string(INT64_MIN).c_str(), "overflows"});
}

TEST_CASE("strides of an axis of size 1 are never taken", "[forms]") {
  for (const NamedScoreLayout& layout : kScores)
    check_accepted([&](Form& form) {
      heed_score_layout& l = form.desc.*layout.layout;
      l = {0, 0, 1, 1, 0, 0, INT64_MAX, INT64_MIN, 5, 1};
    });
}

TEST_CASE("outputs whose elements overlap are refused", "[forms]") {
  const auto check = [](heed_layout heed_attention_desc::*layout, const heed_layout& strides,
                        Parts parts) {
    check_desc_refused([&](Form& form) { form.desc.*layout = strides; }, parts);
  };
  // Contiguous is 12, 3, 1 for [2, 4, 3], one number each.
  check(&heed_attention_desc::lse, {0, 0, 12, 3, 0, 1}, {"desc.lse.stride_row is 0", "overlap"});
  check(&heed_attention_desc::lse, {0, 0, 12, 2, 1, 0}, {"desc.lse.stride_head is 2", "exceed 2"});
  check(&heed_attention_desc::lse, {0, 0, 11, 3, 1, 0},
        {"desc.lse.stride_batch is 11", "exceed 11"});
  // 40, 10, 5, 1 for [2, 4, 2, 5]: two rows are listed.
  check(&heed_attention_desc::weights, {0, 0, 40, 10, 4, 1},
        {"desc.weights.stride_row is 4", "exceed 4"});
  check(&heed_attention_desc::weights, {0, 0, 40, 9, 5, 1},
        {"desc.weights.stride_head is 9", "exceed 9"});
  check(&heed_attention_desc::weights, {0, 0, 40, 10, 5, 0},
        {"desc.weights.stride_feature is 0", "overlap"});
  // 20, 5, 1 for [2, 4, 5].
  check(&heed_attention_desc::column_sums, {0, 0, 20, 5, 0, 1},
        {"desc.column_sums.stride_row is 0", "overlap"});
  check(&heed_attention_desc::column_sums, {0, 0, 20, -4, 1, 0},
        {"desc.column_sums.stride_head is -4", "exceed 4"});
}

// ---- Options of the descriptor ----

TEST_CASE("choices and switches are one of their values", "[forms]") {
  struct Choice {
    const char* name;
    std::uint32_t heed_attention_desc::*field;
    std::uint32_t most;
  };
  for (const Choice& choice : {Choice{"desc.hard", &heed_attention_desc::hard, 1},
                               Choice{"desc.window", &heed_attention_desc::window, 1},
                               Choice{"desc.alignment", &heed_attention_desc::alignment, 3},
                               Choice{"desc.weights_point", &heed_attention_desc::weights_point, 4},
                               Choice{"desc.sum_columns", &heed_attention_desc::sum_columns, 1}})
    for (const std::uint32_t value : {choice.most + 1, 0xffffffffU}) {
      const std::string field = std::string(choice.name) + " is " + std::to_string(value);
      const std::string bound = "0 to " + std::to_string(choice.most);
      check_desc_refused([&](Form& form) { form.desc.*choice.field = value; },
                         {field.c_str(), bound.c_str()});
    }
}

TEST_CASE("a soft cap is finite and not below 0", "[forms]") {
  check_desc_refused([](Form& form) { form.desc.softcap = -2; },
                     {"desc.softcap is -2", "finite and at least 0"});
  check_desc_refused([](Form& form) { form.desc.softcap = kInfinity; },
                     {"desc.softcap is inf", "finite"});
  check_desc_refused([](Form& form) { form.desc.softcap = std::nan(""); },
                     {"desc.softcap is ", "nan", "finite"});
}

TEST_CASE("a temperature is not below 0", "[forms]") {
  check_desc_refused([](Form& form) { form.desc.temperature = -0.5; },
                     {"desc.temperature is -0.5", "above 0"});
  check_desc_refused([](Form& form) { form.desc.temperature = -kInfinity; },
                     {"desc.temperature is -inf", "above 0"});
  check_desc_refused([](Form& form) { form.desc.temperature = std::nan(""); },
                     {"desc.temperature is ", "nan", "above 0"});
  check_accepted([](Form& form) { form.desc.temperature = kInfinity; });
}

TEST_CASE("factors that leave the arithmetic's range are refused", "[forms]") {
  const char* const most = "must be at most 3.4";
  check_desc_refused([](Form& form) { form.desc.scale = 3e38; },
                     {"desc.scale is 3e+38", "multiplied by 4.3", most});
  check_desc_refused([](Form& form) { form.desc.scale = -3e38; },
                     {"desc.scale is -3e+38", "multiplied by -4.3", most});
  check_desc_refused([](Form& form) { form.desc.temperature = 1e-39; },
                     {"desc.temperature is 1e-39", "multiplied by 1.4", most});
  check_desc_refused([](Form& form) { form.desc.softcap = 1e-39; },
                     {"desc.softcap is 1e-39", "multiplied by ", most});
  check_desc_refused([](Form& form) { form.desc.softcap = 3e38; },
                     {"desc.softcap is 3e+38", "multiplied by 4.3", most});
  // float64 has room for all of them, but not without end.
  for (const double large : {3e38, -3e38})
    check_accepted([&](Form& form) {
      form.all_float64();
      form.desc.scale = large;
    });
  check_accepted([](Form& form) {
    form.all_float64();
    form.desc.temperature = form.desc.softcap = 1e-39;
  });
  check_desc_refused(
      [](Form& form) {
        form.all_float64();
        form.desc.scale = 1.7e308;
      },
      {"desc.scale is 1.7e+308", "must be at most 1.7"});
  check_desc_refused(
      [](Form& form) {
        form.all_float64();
        form.desc.temperature = 1e-310;
      },
      {"desc.temperature is 1e-310", "must be at most 1.7"});
}

TEST_CASE("hard attention has no temperature, no sinks and no log-sum-exp", "[forms]") {
  for (const double temperature : {1.0, 0.5, kInfinity})
    check_desc_refused(
        [&](Form& form) {
          form.be_hard();
          form.desc.temperature = temperature;
        },
        {"desc.temperature is ", "must be 0 with desc.hard"});
  check_args_refused(
      [](Form& form) {
        form.be_hard();
        form.args.sinks = form.sinks.at();
      },
      {"args.sinks is given", "NULL with desc.hard"});
  check_args_refused(
      [](Form& form) {
        form.be_hard();
        form.args.lse = form.lse.at();
      },
      {"args.lse is given", "NULL with desc.hard"});
}

TEST_CASE("window bounds are at least -1, and 0 without a window", "[forms]") {
  for (const std::int64_t bound : {std::int64_t{-2}, INT64_MIN}) {
    const std::string value = " is " + std::to_string(bound);
    check_desc_refused(
        [&](Form& form) {
          form.desc.window = 1;
          form.desc.window_left = bound;
        },
        {("desc.window_left" + value).c_str(), "at least -1"});
    check_desc_refused(
        [&](Form& form) {
          form.desc.window = 1;
          form.desc.window_right = bound;
        },
        {("desc.window_right" + value).c_str(), "at least -1"});
  }
  check_desc_refused([](Form& form) { form.desc.window_left = -1; },
                     {"desc.window_left is -1", "must be 0", "desc.window"});
  check_desc_refused([](Form& form) { form.desc.window_right = 7; },
                     {"desc.window_right is 7", "must be 0", "desc.window"});
  for (const std::int64_t bound : {std::int64_t{-1}, std::int64_t{0}, INT64_MAX})
    check_accepted([&](Form& form) {
      form.desc.window = 1;
      form.desc.window_left = form.desc.window_right = bound;
    });
}

TEST_CASE("an alignment goes with its offset, and without causal", "[forms]") {
  for (const std::uint32_t alignment :
       {HEED_ALIGNMENT_DEFAULT, HEED_ALIGNMENT_TOP_LEFT, HEED_ALIGNMENT_BOTTOM_RIGHT})
    check_desc_refused(
        [&](Form& form) {
          form.desc.alignment = alignment;
          form.desc.alignment_offset = -3;
        },
        {"desc.alignment_offset is -3", "must be 0", "HEED_ALIGNMENT_OFFSET (3)"});
  for (const std::uint32_t causal :
       {HEED_CAUSAL_TOP_LEFT, HEED_CAUSAL_BOTTOM_RIGHT, HEED_CAUSAL_OFFSET})
    for (const std::uint32_t alignment : {HEED_ALIGNMENT_TOP_LEFT, HEED_ALIGNMENT_BOTTOM_RIGHT}) {
      const std::string given = "desc.alignment is " + std::to_string(alignment);
      const std::string with = "desc.causal " + std::to_string(causal);
      check_desc_refused(
          [&](Form& form) {
            form.desc.causal = causal;
            form.desc.alignment = alignment;
          },
          {given.c_str(), with.c_str(), "must be 0"});
    }
  for (const std::int64_t offset : {INT64_MIN, std::int64_t{0}, INT64_MAX})
    check_accepted([&](Form& form) {
      form.desc.alignment = HEED_ALIGNMENT_OFFSET;
      form.desc.alignment_offset = offset;
    });
}

TEST_CASE("positions among other lengths need an alignment", "[forms]") {
  check_desc_refused(
      [](Form& form) {
        form.desc.alignment = HEED_ALIGNMENT_DEFAULT;
        form.desc.window = 1;
      },
      {"desc.alignment is 0", "desc.query_length 3", "desc.key_length 5", "window", "1 to 3"});
  check_args_refused([](Form& form) { form.desc.alignment = HEED_ALIGNMENT_DEFAULT; },
                     {"args.alibi_slopes", "desc.alignment 0", "desc.query_length 3",
                      "desc.key_length 5", "1 to 3"});
  // Nothing is measured, equal lengths, or causal says where rows stand.
  check_accepted([](Form& form) {
    form.desc.alignment = HEED_ALIGNMENT_DEFAULT;
    form.args.alibi_slopes = nullptr;
  });
  check_accepted([](Form& form) {
    form.desc.alignment = HEED_ALIGNMENT_DEFAULT;
    form.desc.window = 1;
    form.desc.query_length = 5;
  });
  check_accepted([](Form& form) {
    form.desc.alignment = HEED_ALIGNMENT_DEFAULT;
    form.desc.window = 1;
    form.desc.causal = HEED_CAUSAL_TOP_LEFT;
  });
}

TEST_CASE("rows of weights are as many as the query has, and only with weights", "[forms]") {
  check_desc_refused([](Form& form) { form.desc.weight_rows = -1; },
                     {"desc.weight_rows is -1", "0 to desc.query_length, 3"});
  check_desc_refused([](Form& form) { form.desc.weight_rows = 4; },
                     {"desc.weight_rows is 4", "0 to desc.query_length, 3"});
  check_desc_refused([](Form& form) { form.desc.weights_point = HEED_WEIGHTS_NONE; },
                     {"desc.weight_rows is 2", "must be 0", "weights_point"});
}

TEST_CASE("packed rows are counted from 0 to 2^40", "[forms]") {
  for (const std::int64_t rows : {std::int64_t{-1}, INT64_MIN, kMost + 1}) {
    const std::string value = " is " + std::to_string(rows);
    check_desc_refused([&](Form& form) { form.desc.packed_queries = rows; },
                       {("desc.packed_queries" + value).c_str(), "1099511627776"});
    check_desc_refused([&](Form& form) { form.desc.packed_keys = rows; },
                       {("desc.packed_keys" + value).c_str(), "1099511627776"});
  }
}

// ---- Arguments ----

TEST_CASE("offsets of packed queries start at 0 or later, never fall, and end in time", "[forms]") {
  const auto check = [](std::int32_t a, std::int32_t b, std::int32_t c, Parts parts) {
    check_args_refused(
        [&](Form& form) {
          form.pack_queries();
          form.cu_seqlens_q[0] = a;
          form.cu_seqlens_q[1] = b;
          form.cu_seqlens_q[2] = c;
        },
        parts);
  };
  check(-1, 2, 5, {"args.cu_seqlens_q[0] is -1", "must be 0 to 6"});
  check(INT32_MIN, 2, 5, {"args.cu_seqlens_q[0] is -2147483648", "must be 0 to 6"});
  check(7, 7, 7, {"args.cu_seqlens_q[0] is 7", "must be 0 to 6"});
  check(2, 1, 4, {"args.cu_seqlens_q[1] is 1", "must be 2 to 6"});
  check(0, 3, 2, {"args.cu_seqlens_q[2] is 2", "must be 3 to 6"});
  check(0, 3, 7, {"args.cu_seqlens_q[2] is 7", "must be 3 to 6"});
  check(0, 3, INT32_MAX, {"args.cu_seqlens_q[2] is 2147483647", "must be 3 to 6"});
  check(0, 4, 5, {"args.cu_seqlens_q[1] is 4", "4 rows", "desc.query_length is 3"});
  check(0, 1, 6, {"args.cu_seqlens_q[2] is 6", "5 rows", "desc.query_length is 3"});
}

TEST_CASE("offsets of packed keys too", "[forms]") {
  const auto check = [](std::int32_t a, std::int32_t b, std::int32_t c, Parts parts) {
    check_args_refused(
        [&](Form& form) {
          form.pack_keys();
          form.cu_seqlens_k[0] = a;
          form.cu_seqlens_k[1] = b;
          form.cu_seqlens_k[2] = c;
        },
        parts);
  };
  check(-5, 2, 5, {"args.cu_seqlens_k[0] is -5", "must be 0 to 10"});
  check(3, 2, 5, {"args.cu_seqlens_k[1] is 2", "must be 3 to 10"});
  check(0, 5, 11, {"args.cu_seqlens_k[2] is 11", "must be 5 to 10"});
  check(0, 6, 10, {"args.cu_seqlens_k[1] is 6", "6 rows", "desc.key_length is 5"});
}

TEST_CASE("offsets come with packed rows, and packed rows with offsets", "[forms]") {
  check_args_refused([](Form& form) { form.desc.packed_queries = 6; },
                     {"args.cu_seqlens_q is NULL", "desc.packed_queries is 6"});
  check_args_refused([](Form& form) { form.desc.packed_keys = 10; },
                     {"args.cu_seqlens_k is NULL", "desc.packed_keys is 10"});
  check_args_refused([](Form& form) { form.args.cu_seqlens_q = form.cu_seqlens_q; },
                     {"args.cu_seqlens_q is given", "NULL with desc.packed_queries 0"});
  check_args_refused([](Form& form) { form.args.cu_seqlens_k = form.cu_seqlens_k; },
                     {"args.cu_seqlens_k is given", "NULL with desc.packed_keys 0"});
}

TEST_CASE("key lengths are from 0 to what there is", "[forms]") {
  const auto check = [](std::int32_t a, std::int32_t b, bool packed, Parts parts) {
    check_args_refused(
        [&](Form& form) {
          if (packed) form.pack_keys();  // of 5 and 4 keys
          form.key_lengths[0] = a;
          form.key_lengths[1] = b;
        },
        parts);
  };
  check(-1, 5, false, {"args.key_lengths[0] is -1", "must be 0 to 5"});
  check(5, 6, false, {"args.key_lengths[1] is 6", "must be 0 to 5"});
  check(0, INT32_MIN, false, {"args.key_lengths[1] is -2147483648", "must be 0 to 5"});
  check(6, 0, true, {"args.key_lengths[0] is 6", "must be 0 to 5"});
  check(5, 5, true, {"args.key_lengths[1] is 5", "must be 0 to 4"});
  for (const std::int32_t length : {0, 5})
    check_accepted([&](Form& form) { form.key_lengths[0] = form.key_lengths[1] = length; });
  check_accepted([](Form& form) {
    form.pack_keys();
    form.key_lengths[1] = 4;
  });
}

TEST_CASE("listed rows increase and lie in the query", "[forms]") {
  const auto check = [](std::int64_t a, std::int64_t b, Parts parts) {
    check_args_refused(
        [&](Form& form) {
          form.weight_rows[0] = a;
          form.weight_rows[1] = b;
        },
        parts);
  };
  check(-1, 1, {"args.weight_rows[0] is -1", "must be 0 to 2"});
  check(3, 4, {"args.weight_rows[0] is 3", "must be 0 to 2"});
  check(1, 1, {"args.weight_rows[1] is 1", "must be 2 to 2", "increase"});
  check(1, 0, {"args.weight_rows[1] is 0", "must be 2 to 2", "increase"});
  check(1, 3, {"args.weight_rows[1] is 3", "must be 2 to 2"});
  check(0, INT64_MAX, {"args.weight_rows[1] is 9223372036854775807", "must be 1 to 2"});
  check_args_refused([](Form& form) { form.args.weight_rows = nullptr; },
                     {"args.weight_rows is NULL", "desc.weight_rows 2"});
  check_args_refused([](Form& form) { form.desc.weight_rows = 0; },
                     {"args.weight_rows is given", "desc.weight_rows 0"});
}

TEST_CASE("weights and column sums come if they are asked for, and only then", "[forms]") {
  check_args_refused([](Form& form) { form.args.weights = nullptr; },
                     {"args.weights is NULL", "desc.weights_point asks for it"});
  check_args_refused([](Form& form) { form.args.column_sums = nullptr; },
                     {"args.column_sums is NULL", "desc.sum_columns asks for it"});
  check_args_refused(
      [](Form& form) {
        form.desc.weights_point = HEED_WEIGHTS_NONE;
        form.desc.weight_rows = 0;
        form.args.weight_rows = nullptr;
      },
      {"args.weights is given", "NULL with desc.weights_point 0"});
  check_args_refused([](Form& form) { form.desc.sum_columns = 0; },
                     {"args.column_sums is given", "NULL with desc.sum_columns 0"});
}

TEST_CASE("slopes are finite, and a sink is a number", "[forms]") {
  const auto poison = [](Bytes& numbers, bool float64, std::size_t head, double x) {
    const auto narrow = static_cast<float>(x);
    if (float64) {
      std::memcpy(numbers.at(head * sizeof x), &x, sizeof x);
    } else {
      std::memcpy(numbers.at(head * sizeof narrow), &narrow, sizeof narrow);
    }
  };
  for (const bool float64 : {false, true}) {
    const auto check = [&](Bytes Form::*numbers, std::size_t head, double x, Parts parts) {
      check_args_refused(
          [&](Form& form) {
            if (float64) form.all_float64();
            poison(form.*numbers, float64, head, x);
          },
          parts);
    };
    check(&Form::slopes, 0, kInfinity, {"args.alibi_slopes[0] is inf", "finite"});
    check(&Form::slopes, 3, -kInfinity, {"args.alibi_slopes[3] is -inf", "finite"});
    check(&Form::slopes, 1, std::nan(""), {"args.alibi_slopes[1] is ", "nan", "finite"});
    check(&Form::sinks, 0, std::nan(""), {"args.sinks[0] is ", "nan", "not be NaN"});
    check(&Form::sinks, 3, std::nan(""), {"args.sinks[3] is ", "nan", "not be NaN"});
    for (const double sink : {kInfinity, -kInfinity})
      check_accepted([&](Form& form) {
        if (float64) form.all_float64();
        poison(form.sinks, float64, 2, sink);
      });
  }
}

TEST_CASE("what is passed to a score function needs one", "[forms]") {
  check_args_refused([](Form& form) { form.args.score_user = &form; },
                     {"args.score_user is given", "NULL without args.score_function"});
}

TEST_CASE("a reserved word of the arguments is 0", "[forms]") {
  check_args_refused([](Form& form) { form.args.reserved = 5; },
                     {"args.reserved is 5", "must be 0"});
}

TEST_CASE("misaligned pointers are refused, each by its own type", "[forms]") {
  struct Pointer {
    const char* name;
    Bytes Form::*memory;
    std::function<void(Form&, void*)> set;
  };
  const std::vector<Pointer> pointers = {
      {"args.bias", &Form::bias, [](Form& form, void* p) { form.args.bias = p; }},
      {"args.alibi_slopes", &Form::slopes, [](Form& form, void* p) { form.args.alibi_slopes = p; }},
      {"args.sinks", &Form::sinks, [](Form& form, void* p) { form.args.sinks = p; }},
      {"args.lse", &Form::lse, [](Form& form, void* p) { form.args.lse = p; }},
      {"args.weights", &Form::weights, [](Form& form, void* p) { form.args.weights = p; }},
      {"args.column_sums", &Form::column_sums,
       [](Form& form, void* p) { form.args.column_sums = p; }}};
  for (const Pointer& pointer : pointers) {
    check_args_refused([&](Form& form) { pointer.set(form, (form.*pointer.memory).at(2)); },
                       {pointer.name, "multiple of 4"});
    check_args_refused(
        [&](Form& form) {
          form.all_float64();
          pointer.set(form, (form.*pointer.memory).at(4));
        },
        {pointer.name, "multiple of 8"});
    check_accepted([&](Form& form) { pointer.set(form, (form.*pointer.memory).at(4)); });
  }
  for (const std::size_t n : {0U, 4U, 5U})  // the bias, weights and column sums
    check_args_refused(
        [&](Form& form) {
          form.all_16_bits();
          pointers[n].set(form, (form.*pointers[n].memory).at(1));
        },
        {pointers[n].name, "multiple of 2"});
  check_accepted([](Form& form) { form.args.mask = static_cast<std::uint8_t*>(form.mask.at(1)); });
}

TEST_CASE("misaligned lists of lengths, offsets and rows are refused", "[forms]") {
  const auto off_by = [](const auto* list, std::size_t bytes) {
    return reinterpret_cast<decltype(list)>(reinterpret_cast<std::uintptr_t>(list) + bytes);
  };
  check_args_refused([&](Form& form) { form.args.key_lengths = off_by(form.key_lengths, 2); },
                     {"args.key_lengths is ", "multiple of 4"});
  check_args_refused([&](Form& form) { form.args.weight_rows = off_by(form.weight_rows, 4); },
                     {"args.weight_rows is ", "multiple of 8"});
  check_args_refused(
      [&](Form& form) {
        form.pack_queries();
        form.args.cu_seqlens_q = off_by(form.cu_seqlens_q, 1);
      },
      {"args.cu_seqlens_q is ", "multiple of 4"});
  check_args_refused(
      [&](Form& form) {
        form.pack_keys();
        form.args.cu_seqlens_k = off_by(form.cu_seqlens_k, 3);
      },
      {"args.cu_seqlens_k is ", "multiple of 4"});
}
