// Refusals of what a run of dense attention is given, those of every field of a kind aside: missing
// and superfluous tensors, lengths, offsets, rows, slopes and sinks.
#include <cstring>

#include "tests/api/forms.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

void pack_queries(Form& form) { form.pack_queries(); }
void pack_keys(Form& form) { form.pack_keys(); }
void all_float64(Form& form) { form.all_float64(); }

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

}  // namespace

TEST_CASE("tensors with elements are given", "[refused]") {
  check_refused<Form>({{"args.query", kNull, "its tensor has elements"},
                       {"args.key", kNull, "its tensor has elements"},
                       {"args.value", kNull, "its tensor has elements"},
                       {"args.out", kNull, "its tensor has elements"},
                       {"args.score_user", kGiven, "must be NULL without args.score_function"}});
}

TEST_CASE("weights and column sums come if they are asked for, and only then", "[refused]") {
  check_refused<Form>({{"args.weights", kNull, "desc.weights_point asks for it"},
                       {"args.column_sums", kNull, "desc.sum_columns asks for it"},
                       {[](Form& form) {
                          form.desc.weights_point = HEED_WEIGHTS_NONE, form.desc.weight_rows = 0;
                          form.args.weight_rows = nullptr;
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
      pack_queries, {{q(0), -1, "must be 0 to 6"},
                     {q(0), INT32_MIN, "must be 0 to 6"},
                     {q(0), 7, "must be 0 to 6"},
                     {with(q(0), 4), q(1) + " is 3; it must be 4 to 6"},
                     {q(2), 2, "must be 3 to 6"},
                     {q(2), 7, "must be 3 to 6"},
                     {q(2), INT32_MAX, "must be 3 to 6"},
                     {q(1), 4, "that makes a sequence of 4 rows, and desc.query_length is 3"},
                     {[&](Form& form) { set(form, q(1), 1), set(form, q(2), 6); },
                      q(2) + " is 6; that makes a sequence of 5 rows, and desc.query_length is 3"},
                     {"args.cu_seqlens_q", kNull, "desc.packed_queries is 6"}});
  // 1, 6, 10 of 10 rows, at most 5 of a sequence.
  check_refused<Form>(pack_keys,
                      {{k(0), -5, "must be 0 to 10"},
                       {k(1), 0, "must be 1 to 10"},
                       {k(2), 11, "must be 6 to 10"},
                       {with(k(0), 0), k(1) + " is 6; that makes a sequence of 6 rows, and "
                                              "desc.key_length is 5"},
                       {"args.cu_seqlens_k", kNull, "desc.packed_keys is 10"},
                       {"args.key_lengths[0]", 6, "must be 0 to 5"},
                       {"args.key_lengths[1]", 5, "must be 0 to 4"}});
  check_refused<Form>({{"args.cu_seqlens_q", kGiven, "must be NULL with desc.packed_queries 0"},
                       {"args.cu_seqlens_k", kGiven, "must be NULL with desc.packed_keys 0"}});
}

TEST_CASE("pages are whole, and every entry of the table that is needed is one of them",
          "[refused]") {
  check_refused<Form>({{"desc.page_rows", 16, "must be 0 with desc.pages 0"},
                       {"desc.block_table_stride", 1, "must be 0 with desc.pages 0"},
                       {"args.block_table", kGiven, "must be NULL with desc.pages 0"}});
  const auto page = [](Form& form) { form.page(); };
  check_refused<Form>(
      page,
      {{"desc.page_rows", 0, "must be 16 to"},
       {"desc.page_rows", 15, "must be 16 to"},
       {"desc.page_rows", 24, "must be a multiple of 16"},
       {"desc.pages", std::int64_t{INT32_MAX} + 1, "must be at most 2147483647"},
       {"desc.packed_keys", 10, "with desc.pages 3; it must be 0"},
       {"desc.block_table_stride", -1, "must be 1 to"},
       {[](Form& form) { form.desc.batch = form.desc.block_table_stride = std::int64_t{1} << 31; },
        "desc.batch is 2147483648, desc.block_table_stride is 2147483648; the block table "
        "overflows an address"},
       {[](Form& form) { form.desc.batch = form.desc.key_length = std::int64_t{1} << 33; },
        "desc.batch is 8589934592, desc.key_length is 8589934592; the block table overflows "
        "an address"},
       {"args.block_table", kNull, "desc.pages is 3"},
       {[](Form& form) { form.block_table[0] = 3; },
        "args.block_table[0][0] is 3; it must be 0 to 2, for desc.pages"},
       {[](Form& form) { form.block_table[1] = -1; }, "args.block_table[1][0] is -1"}});
}

TEST_CASE("key lengths are from 0 to what there is", "[refused]") {
  check_refused<Form>({{"args.key_lengths[0]", -1, "must be 0 to 5"},
                       {"args.key_lengths[1]", 6, "must be 0 to 5"},
                       {"args.key_lengths[1]", INT32_MIN, "must be 0 to 5"}});
  for (const int length : {0, 5})
    check_accepted<Form>([&](Form& form) { form.key_lengths[0] = form.key_lengths[1] = length; });
  check_accepted<Form>([](Form& form) { form.pack_keys(), form.key_lengths[1] = 4; });
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
  const std::pair<Change, double> kinds[] = {{unchanged<Form>, 3.4e38}, {all_float64, 1.7e308}};
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
  std::vector<Refusal<Form>> rows;
  for (const char* const of : {"query", "key", "value", "out", "bias", "weights", "column_sums"})
    rows.emplace_back("args." + std::string(of), moved(1), "must be a multiple of 2");
  for (const char* const of : {"alibi_slopes", "sinks", "lse"})
    rows.emplace_back("args." + std::string(of), moved(2), "must be a multiple of 4");
  check_refused<Form>([](Form& form) { form.all_16_bits(); }, rows);
  for (const char* const of : {"bias", "alibi_slopes", "sinks", "lse", "weights", "column_sums"})
    check_accepted<Form>(with("args." + std::string(of), moved(4)));
  check_accepted<Form>(with("args.mask", moved(1)));
}
