// Refusals of dense attention that are not of every field of a kind: sizes and options that do not
// go together, masks and biases, overlapping outputs, lengths and offsets, slopes and sinks.
#include <cstring>
#include <utility>

#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

Change strides(heed_layout heed_attention_desc::*of, std::int64_t batch, std::int64_t head,
               std::int64_t row, std::int64_t feature) {
  return [=](Form& form) { form.desc.*of = {0, 0, batch, head, row, feature}; };
}

/// A number of a head, of the arithmetic's type.
Change with_number(Bytes Form::*numbers, std::size_t head, double x) {
  return [=](Form& form) {
    const auto narrow = static_cast<float>(x);
    if (form.desc.query.dtype == HEED_DTYPE_F64)
      std::memcpy((form.*numbers).at(head * sizeof x), &x, sizeof x);
    else
      std::memcpy((form.*numbers).at(head * sizeof narrow), &narrow, sizeof narrow);
  };
}

void unaligned(Form& form) { form.desc.alignment = 0, form.args.alibi_slopes = nullptr; }

}  // namespace

// ---- Shapes, types and layouts ----

TEST_CASE("sizes go with each other and with addresses", "[refused]") {
  check_refused<Form>({
      {[](Form& f) { f.desc = HEED_ATTENTION_DESC_INIT; }, "desc.features is 0"},
      {"desc.query_heads", 3, "must be a multiple of desc.key_heads, 2"},
      {"desc.query_heads", 1, "must be a multiple of desc.key_heads, 2"},
      {with("desc.key_heads", 3), "desc.query_heads is 4 ... a multiple of desc.key_heads, 3"},
      {with("desc.key_heads", 8), "desc.query_heads is 4 ... a multiple of desc.key_heads, 8"},
      {[](Form& f) { f.desc.batch = f.desc.query_length = kMost; },
       "desc.query has 1099511627776 x 4 x 1099511627776 x 4 elements; that overflows an address"},
      {[](Form& f) { f.desc.batch = f.desc.key_length = kMost; },
       "desc.key has 1099511627776 x 2 x 1099511627776 x 4 elements; that overflows an address"},
      {[](Form& f) {
         f.desc.key_length = f.desc.value_features = kMost;
         f.desc.key = {0, HEED_STRIDES_EXPLICIT, 0, 0, 0, 1};
       },
       "desc.value has 2 x 2 x 1099511627776 x 1099511627776 elements; that overflows an address"},
      {strides(&heed_attention_desc::query, INT64_MAX >> 5, INT64_MAX >> 7, 0, 1),
       "desc.query reaches ... elements; that overflows an address"},
  });
}

TEST_CASE("problems without rows whose numbers overflow are refused", "[refused]") {
  const Refusal<Form> rows[] = {
      {[](Form& f) {
         f.desc.batch = 0;
         f.desc.query_heads = f.desc.query_length = kMost;
         f.desc.key_heads = 1;
       },
       "desc.batch is 0, desc.query_heads is 1099511627776, desc.query_length is 1099511627776, "
       "desc.key_length is 5; the number of rows overflows an address"},
      {[](Form& f) {
         f.desc.batch = f.desc.query_heads = f.desc.key_heads = kMost;
         f.desc.query_length = f.desc.key_length = 0;
       },
       "desc.batch is 1099511627776, desc.query_heads is 1099511627776, desc.query_length is 0, "
       "desc.key_length is 0; the number of heads overflows an address"}};
  for (const Refusal<Form>& row : rows) {
    Form form;
    for (const Tensor& tensor : tensors_of(form))  // strides that no element is reached by
      if (tensor.kind == 'L' && tensor.memory() != nullptr)
        for (std::int64_t* const stride : tensor.strides()) *stride = 1;
    form.desc.mask.stride_row = form.desc.bias.stride_row = 1;
    form.desc.weight_rows = 0;
    form.args.weight_rows = nullptr;
    row.change(form);
    hand_in(form, false, [&](heed_status status) { check_refusal(status, row.status, row.words); });
  }
}

TEST_CASE("a workspace that overflows with all threads is refused", "[refused]") {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = 1024;
  desc.query_heads = desc.query_length = desc.key_length = desc.features = 1;
  desc.value_features = kMost;
  heed_attention_plan* plan = untouched<heed_attention_plan>();
  check_refusal(heed_attention_plan_create(context_with(in_order(1024)).get(), &desc, &plan),
                HEED_STATUS_INVALID_ARGUMENT,
                "desc.features is 1, desc.value_features is 1099511627776, threads is 1024; the "
                "workspace overflows an address");
  CHECK(plan == untouched<heed_attention_plan>());
  make_plan(serial(), desc);
}

TEST_CASE("query, key, value and out are float64, or none is", "[refused]") {
  const char* const tensors[] = {"desc.query", "desc.key", "desc.value", "desc.out"};
  std::vector<Refusal<Form>> rows;
  for (unsigned mix = 1; mix < 15; ++mix)
    for (std::uint32_t other = HEED_DTYPE_DEFAULT; other <= HEED_DTYPE_F8_E4M3; ++other) {
      if (other == HEED_DTYPE_F64) continue;
      unsigned first = 0;  // that is not float64
      while ((mix >> first & 1U) != 0) ++first;
      const auto mixed = [=](Form& form) {
        for (unsigned n = 0; n < 4; ++n)
          set(form, std::string(tensors[n]) + ".dtype",
              (mix >> n & 1U) != 0 ? std::uint32_t{HEED_DTYPE_F64} : other);
      };
      rows.emplace_back(mixed, std::string(tensors[first]) + ".dtype is " + std::to_string(other) +
                                   "; it must be HEED_DTYPE_F64 (2)");
    }
  check_refused<Form>(rows);
  for (const char* const tensor : tensors)
    for (const heed_dtype dtype : {HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16})
      check_accepted<Form>(with(std::string(tensor) + ".dtype", dtype));
}

TEST_CASE("8-bit keys have scales, per row if they are integers, and others none", "[refused]") {
  const Change store = &Form::store_8_bits;
  const Change swap = [](Form& form) {
    form.store_8_bits();
    std::swap(form.desc.key.dtype, form.desc.value.dtype);
  };
  std::vector<Refusal<Form>> rows;
  for (const std::uint32_t dtype : {2U, 3U, 5U, 9U, 0xffffffffU})
    rows.emplace_back("desc.key_scales.dtype", dtype, "must be 0 or HEED_DTYPE_F32 (1)");
  rows.emplace_back("args.key_scales", kNull, "its tensor has elements");
  rows.emplace_back("args.value_scales", kNull, "its tensor has elements");
  rows.emplace_back([](Form& f) { f.desc.value_scales.stride_row = 1; },
                    "desc.value_scales is set with desc.value.dtype 6; it must be 0 unless that is "
                    "HEED_DTYPE_I8 (5), which has a scale per row");
  check_refused<Form>(store, rows);
  check_refused<Form>(swap, {{with("desc.key_scales.dtype", HEED_DTYPE_F32),
                              "desc.key_scales is set with desc.key.dtype 6; it must be 0"},
                             {"args.value_scales", kNull, "its tensor has elements"}});
  check_refused<Form>(
      {{"args.key_scales", kGiven,
        "it must be NULL unless desc.key.dtype is HEED_DTYPE_I8 (5) or HEED_DTYPE_F8_E4M3 (6)"},
       {"args.value_scales", kGiven, "it must be NULL unless desc.value.dtype is HEED_DTYPE_I8"},
       {with("desc.key_scales.stride_head", 3),
        "desc.key_scales is set with desc.key.dtype 0; it must be 0 unless that is HEED_DTYPE_I8"},
       {with("desc.value_scales.reserved", 1),
        "desc.value_scales is set with desc.value.dtype 0"}});
  for (const Change& make : {store, swap})
    for (const Change& change :
         {Change(with("args.key", moved(1))), Change(with("args.value", moved(3))),
          Change(&Form::pack_keys), Change(&Form::page)})
      check_accepted<Form>([&](Form& form) { make(form), change(form); });
}

TEST_CASE("a mask's and a bias's sizes are the problem's, 1 or 0", "[refused]") {
  const std::pair<const char*, std::int64_t> sizes[] = {
      {".batch", 2}, {".heads", 4}, {".rows", 3}, {".keys", 5}};
  std::vector<Refusal<Form>> rows;
  for (const std::string tensor : {"desc.mask", "desc.bias"})
    for (const auto& [size, right] : sizes) {
      for (const std::int64_t value : {std::int64_t{-1}, right - 1, right + 1, INT64_MAX})
        if (value != 1)
          rows.emplace_back(tensor + size, value, "must be " + std::to_string(right) + ", 1 or 0");
      for (const std::int64_t value : {std::int64_t{0}, std::int64_t{1}, right})
        check_accepted<Form>(with(tensor + size, value));
    }
  check_refused<Form>(rows);
  // Strides of an axis along which they repeat are never taken.
  for (heed_score_layout heed_attention_desc::*const layout :
       {&heed_attention_desc::mask, &heed_attention_desc::bias})
    check_accepted<Form>(
        [&](Form& form) { form.desc.*layout = {0, 0, 1, 1, 0, 0, INT64_MAX, INT64_MIN, 5, 1}; });
}

TEST_CASE("outputs whose elements overlap are refused", "[refused]") {
  const auto out = [](std::int64_t batch, std::int64_t head, std::int64_t row,
                      std::int64_t feature) {
    return strides(&heed_attention_desc::out, batch, head, row, feature);
  };
  check_refused<Form>({
      // Contiguous is 72, 18, 6, 1 for [2, 4, 3, 6].
      {out(72, 18, 6, 0), "desc.out.stride_feature is 0; it must exceed 0 ... overlap"},
      {out(72, 18, 0, 1), "desc.out.stride_row is 0; it must exceed 0 ... overlap"},
      {out(72, 0, 6, 1), "desc.out.stride_head is 0; it must exceed 0 ... overlap"},
      {out(0, 18, 6, 1), "desc.out.stride_batch is 0; it must exceed 0 ... overlap"},
      {out(72, 18, 5, 1), "desc.out.stride_row is 5; it must exceed 5"},
      {out(72, 17, 6, 1), "desc.out.stride_head is 17; it must exceed 17"},
      {out(71, 18, 6, 1), "desc.out.stride_batch is 71; it must exceed 71"},
      {out(72, 18, 1, 1), "desc.out.stride_ ... is 1; it must exceed ... overlap"},
      {out(72, 18, -5, 1), "desc.out.stride_row is -5; it must exceed 5"},
      {out(72, 18, 6, -6), "desc.out.stride_ ... it must exceed 12"},
      // Rows outermost, batches innermost.
      {out(6, 12, 47, 1), "desc.out.stride_row is 47; it must exceed 47"},
      // 12, 3, 1 for [2, 4, 3], one number each.
      {strides(&heed_attention_desc::lse, 11, 3, 1, 0),
       "desc.lse.stride_batch is 11; it must exceed 11"},
      // 40, 10, 5, 1 for [2, 4, 2, 5]: two rows are listed.
      {strides(&heed_attention_desc::weights, 40, 9, 5, 1),
       "desc.weights.stride_head is 9; it must exceed 9"},
      {strides(&heed_attention_desc::weights, 40, 10, 5, 0),
       "desc.weights.stride_feature is 0 ... overlap"},
      // 20, 5, 1 for [2, 4, 5].
      {strides(&heed_attention_desc::column_sums, 20, -4, 1, 0),
       "desc.column_sums.stride_head is -4; it must exceed 4"},
  });
  for (const Axes& apart : {Axes{0, 0, 0, 0}, Axes{72, 18, 6, 1}, Axes{-72, 18, -6, 1},
                            Axes{72, 6, 24, 1},       // [batch, row, head, feature]
                            Axes{6, 12, 48, 1},       // [row, head, batch, feature]
                            Axes{1, 2, 8, 24},        // column-major
                            Axes{900, 80, 16, 2}}) {  // padded
    Form form;
    out(apart[0], apart[1], apart[2], apart[3])(form);
    make_plan(serial(), form.desc);
  }
  check_accepted<Form>([](Form& form) {  // one element
    form.desc.batch = form.desc.query_heads = form.desc.key_heads = form.desc.value_features = 1;
    form.desc.query_length = form.desc.weight_rows = 1;
    form.desc.out.reserved = HEED_STRIDES_EXPLICIT;
  });
}

// ---- Options of the descriptor ----

TEMPLATE_TEST_CASE("scale, soft cap and temperature are numbers that make sense", "[refused]", Form,
                   GraphForm) {
  check_refused<TestType>({{"desc.scale", kInfinity, "must be finite"},
                           {"desc.scale", -kInfinity, "must be finite"},
                           {"desc.scale", kNan, "must be finite"},
                           {"desc.scale", 3e38, "which must be at most 3.40282e+38"},
                           {"desc.softcap", -2.0, "must be finite and at least 0"},
                           {"desc.softcap", kInfinity, "must be finite"},
                           {"desc.softcap", kNan, "must be finite"},
                           {"desc.temperature", -0.5, "must be above 0"},
                           {"desc.temperature", -kInfinity, "must be above 0"},
                           {"desc.temperature", kNan, "must be above 0"}});
  check_accepted<TestType>(with("desc.temperature", kInfinity));
  check_refused<TestType>(&TestType::be_hard,
                          {{"desc.temperature", 1.0, "must be 0 with desc.hard"},
                           {"desc.temperature", kInfinity, "must be 0 with desc.hard"},
                           {"args.lse", kGiven, "must be NULL with desc.hard"}});
}

TEST_CASE("factors that leave the arithmetic's range are refused", "[refused]") {
  check_refused<Form>(
      {{"desc.scale", 3e38, "multiplied by 4.32809e+38, which must be at most 3.40282e+38"},
       {"desc.scale", -3e38, "multiplied by -4.32809e+38, which must be at most 3.40282e+38"},
       {"desc.temperature", 1e-39, "multiplied by 1.4427e+39, which must be at most 3.40282e+38"},
       {"desc.softcap", 1e-39, "multiplied by 1.4427e+39, which must be at most 3.40282e+38"},
       {"desc.softcap", 3e38, "multiplied by 4.32809e+38, which must be at most 3.40282e+38"}});
  // float64 has room for all of them, but not without end.
  check_refused<Form>(&Form::all_float64,
                      {{"desc.scale", 1.7e308, "which must be at most 1.79769e+308"},
                       {"desc.temperature", 1e-310, "which must be at most 1.79769e+308"}});
  for (const auto& change : {with("desc.scale", 3e38), with("desc.scale", -3e38),
                             with("desc.temperature", 1e-39), with("desc.softcap", 1e-39)})
    check_accepted<Form>([&](Form& form) { form.all_float64(), change(form); });
  check_refused<Form>(&Form::be_hard, {{"args.sinks", kGiven, "must be NULL with desc.hard"}});
}

TEST_CASE("causal_offset and alignment_offset belong to their choices", "[refused]") {
  for (const std::string name : {"causal", "alignment"}) {
    const std::string field = "desc." + name;
    for (const int choice : {0, 1, 2})
      check_refused<Form>(
          [&](Form& form) { unaligned(form), set(form, field, choice); },
          {{field + "_offset", -3,
            "with " + field + " " + std::to_string(choice) + "; it must be 0 unless " + name +
                " is HEED_" + (name == "causal" ? "CAUSAL" : "ALIGNMENT") + "_OFFSET (3)"}});
    for (const std::int64_t offset : {INT64_MIN, std::int64_t{0}, INT64_MAX})
      check_accepted<Form>([&](Form& form) {
        form.desc.alignment = 0;
        set(form, field, 3);
        set(form, field + "_offset", offset);
      });
  }
}

TEST_CASE("rows stand where causal says or alignment does, and are measured only then",
          "[refused]") {
  for (const std::uint32_t causal : {1U, 2U, 3U})
    for (const std::uint32_t alignment : {1U, 2U})
      check_refused<Form>(
          unaligned, {{[&](Form& f) { f.desc.causal = causal, f.desc.alignment = alignment; },
                       "desc.alignment is " + std::to_string(alignment) + " with desc.causal " +
                           std::to_string(causal) + "; it must be 0"}});
  check_refused<Form>(
      {{with("desc.alignment", 0),
        "args.alibi_slopes is given with desc.alignment 0, desc.query_length 3 and desc.key_length "
        "5 ... 1 to 3"},
       {[](Form& f) { f.desc.alignment = 0, f.desc.window = 1; },
        "desc.alignment is 0 with desc.query_length 3 and desc.key_length 5; a window ... 1 to "
        "3"}});
  // Nothing is measured, lengths are equal, or causal says where rows stand.
  for (const Change& change : {Change(with("args.alibi_slopes", kNull)),
                               Change([](Form& f) { f.desc.window = 1, f.desc.query_length = 5; }),
                               Change([](Form& f) { f.desc.window = f.desc.causal = 1; })})
    check_accepted<Form>([&](Form& form) { form.desc.alignment = 0, change(form); });
}

TEST_CASE("window bounds are at least -1, and 0 without a window", "[refused]") {
  check_refused<Form>(with("desc.window", 1), {{"desc.window_left", -2, "at least -1"},
                                               {"desc.window_left", INT64_MIN, "at least -1"},
                                               {"desc.window_right", -2, "at least -1"},
                                               {"desc.window_right", INT64_MIN, "at least -1"}});
  check_refused<Form>({{"desc.window_left", -1, "must be 0 unless window is 1"},
                       {"desc.window_right", 7, "must be 0 unless window is 1"}});
  for (const std::int64_t bound : {std::int64_t{-1}, std::int64_t{0}, INT64_MAX})
    check_accepted<Form>([&](Form& form) {
      form.desc.window = 1;
      form.desc.window_left = form.desc.window_right = bound;
    });
}

// ---- Arguments ----

TEST_CASE("outputs come if they are asked for, and only then", "[refused]") {
  check_refused<Form>({{"desc.weight_rows", -1, "must be 0 to desc.query_length, 3"},
                       {"desc.weight_rows", 4, "must be 0 to desc.query_length, 3"},
                       {with("desc.weights_point", HEED_WEIGHTS_NONE),
                        "desc.weight_rows is 2 with desc.weights_point 0; it must be 0"},
                       {"args.score_user", kGiven, "must be NULL without args.score_function"},
                       {"args.weights", kNull, "desc.weights_point asks for it"},
                       {"args.column_sums", kNull, "desc.sum_columns asks for it"},
                       {[](Form& f) {
                          f.desc.weights_point = HEED_WEIGHTS_NONE, f.desc.weight_rows = 0;
                          f.args.weight_rows = nullptr;
                        },
                        "args.weights is given; it must be NULL with desc.weights_point 0"},
                       {with("desc.sum_columns", 0),
                        "args.column_sums is given; it must be NULL with desc.sum_columns 0"}});
}

TEST_CASE("offsets of packed rows start at 0 or later, never fall, and end in time", "[refused]") {
  const auto q = [](int i) { return "args.cu_seqlens_q[" + std::to_string(i) + "]"; };
  const auto k = [](int i) { return "args.cu_seqlens_k[" + std::to_string(i) + "]"; };
  // 0, 3, 5 of 6 rows, at most 3 of a sequence.
  check_refused<Form>(
      &Form::pack_queries,
      {{q(0), -1, "must be 0 to 6"},
       {q(0), INT32_MIN, "must be 0 to 6"},
       {q(0), 7, "must be 0 to 6"},
       {with(q(0), 4), q(1) + " is 3; it must be 4 to 6"},
       {q(2), 2, "must be 3 to 6"},
       {q(2), 7, "must be 3 to 6"},
       {q(2), INT32_MAX, "must be 3 to 6"},
       {q(1), 4, "that makes a sequence of 4 rows, and desc.query_length is 3"},
       {[&](Form& f) { set(f, q(1), 1), set(f, q(2), 6); },
        q(2) + " is 6; that makes a sequence of 5 rows, and desc.query_length is 3"},
       {"args.cu_seqlens_q", kNull, "desc.packed_queries is 6"}});
  // 1, 6, 10 of 10 rows, at most 5 of a sequence.
  check_refused<Form>(&Form::pack_keys,
                      {{k(0), -5, "must be 0 to 10"},
                       {k(1), 0, "must be 1 to 10"},
                       {k(2), 11, "must be 6 to 10"},
                       {with(k(0), 0), k(1) + " is 6; that makes a sequence of 6 rows, and "
                                              "desc.key_length is 5"},
                       {"args.cu_seqlens_k", kNull, "desc.packed_keys is 10"},
                       {"args.key_lengths[0]", 6, "must be 0 to 5"},
                       {"args.key_lengths[1]", 5, "must be 0 to 4"}});
  check_refused<Form>({{"args.cu_seqlens_q", kGiven, "must be NULL with desc.packed_queries 0"},
                       {"args.cu_seqlens_k", kGiven, "must be NULL with desc.packed_keys 0"},
                       {"args.key_lengths[0]", -1, "must be 0 to 5"},
                       {"args.key_lengths[1]", 6, "must be 0 to 5"},
                       {"args.key_lengths[1]", INT32_MIN, "must be 0 to 5"}});
  for (const int length : {0, 5})
    check_accepted<Form>([&](Form& form) { form.key_lengths[0] = form.key_lengths[1] = length; });
  check_accepted<Form>([](Form& form) { form.pack_keys(), form.key_lengths[1] = 4; });
}

TEST_CASE("pages are whole, and every entry of the table that is needed is one of them",
          "[refused]") {
  check_refused<Form>({{"desc.page_rows", 16, "must be 0 with desc.pages 0"},
                       {"desc.block_table_stride", 1, "must be 0 with desc.pages 0"},
                       {"args.block_table", kGiven, "must be NULL with desc.pages 0"}});
  check_refused<Form>(
      &Form::page,
      {{"desc.page_rows", 0, "must be 16 to"},
       {"desc.page_rows", 15, "must be 16 to"},
       {"desc.page_rows", 24, "must be a multiple of 16"},
       {"desc.pages", std::int64_t{INT32_MAX} + 1, "must be at most 2147483647"},
       {"desc.packed_keys", 10, "with desc.pages 3; it must be 0"},
       {"desc.block_table_stride", -1, "must be 1 to"},
       {[](Form& f) { f.desc.batch = f.desc.block_table_stride = std::int64_t{1} << 31; },
        "desc.batch is 2147483648, desc.block_table_stride is 2147483648; the block table "
        "overflows an address"},
       {[](Form& f) { f.desc.batch = f.desc.key_length = std::int64_t{1} << 33; },
        "desc.batch is 8589934592, desc.key_length is 8589934592; the block table overflows "
        "an address"},
       {"args.block_table", kNull, "desc.pages is 3"},
       {[](Form& f) { f.block_table[0] = 3; },
        "args.block_table[0][0] is 3; it must be 0 to 2, for desc.pages"},
       {[](Form& f) { f.block_table[1] = -1; }, "args.block_table[1][0] is -1"}});
}

TEST_CASE("listed rows increase and lie in the query", "[refused]") {
  check_refused<Form>(  // 0 and 2 of 3
      {{"args.weight_rows[0]", -1, "must be 0 to 2"},
       {"args.weight_rows[0]", 3, "must be 0 to 2"},
       {with("args.weight_rows[0]", 2),
        "args.weight_rows[1] is 2; it must be 3 to 2: rows increase"},
       {with("args.weight_rows[1]", 0),
        "args.weight_rows[1] is 0; it must be 1 to 2: rows increase"},
       {"args.weight_rows[1]", 3, "must be 1 to 2"},
       {"args.weight_rows[1]", INT64_MAX, "must be 1 to 2"},
       {with("args.weight_rows", kNull), "args.weight_rows is NULL with desc.weight_rows 2"},
       {with("desc.weight_rows", 0), "args.weight_rows is given with desc.weight_rows 0"}});
}

TEST_CASE("slopes are finite, and a sink is a number", "[refused]") {
  const std::pair<Change, double> kinds[] = {{unchanged<Form>, 3.4e38},
                                             {&Form::all_float64, 1.7e308}};
  for (const auto& [kind, largest] : kinds) {  // finite, but not in the kernels' units
    check_refused<Form>(
        kind,
        {{with_number(&Form::slopes, 0, kInfinity), "args.alibi_slopes[0] is inf ... finite"},
         {with_number(&Form::slopes, 3, -kInfinity), "args.alibi_slopes[3] is -inf ... finite"},
         {with_number(&Form::slopes, 1, kNan), "args.alibi_slopes[1] is ... nan ... finite"},
         {with_number(&Form::slopes, 2, largest),
          "args.alibi_slopes[2] is ... finite, also times log2(e) / temperature"},
         {with_number(&Form::sinks, 0, kNan), "args.sinks[0] is ... nan ... not be NaN"},
         {with_number(&Form::sinks, 3, kNan), "args.sinks[3] is ... nan ... not be NaN"}});
    for (const double sink : {kInfinity, -kInfinity})
      check_accepted<Form>([&, &make = kind](Form& form) {
        make(form);
        with_number(&Form::sinks, 2, sink)(form);
      });
  }
}

TEST_CASE("pointers are aligned to the types of their own tensors", "[refused]") {
  for (const char* const of : {"bias", "alibi_slopes", "sinks", "lse", "weights", "column_sums"})
    check_accepted<Form>(with("args." + std::string(of), moved(4)));
  check_accepted<Form>(with("args.mask", moved(1)));
}
