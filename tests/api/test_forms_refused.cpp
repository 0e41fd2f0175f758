// Every refusal of a descriptor of masks, biases, windows, ragged batches and further outputs: each
// names the field, its value and the bound, and leaves all outputs alone.
#include "tests/api/forms.hpp"

using namespace api_test;

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
