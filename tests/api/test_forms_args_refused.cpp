// The same for the arguments of a run: lengths, offsets, rows, slopes, sinks and pointers.
#include "tests/api/forms.hpp"

using namespace api_test;

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
    const double largest = float64 ? 1.7e308 : 3.4e38;  // finite, but not in the kernels' units
    check(&Form::slopes, 2, largest, {"args.alibi_slopes[2] is ", "finite", "temperature"});
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
