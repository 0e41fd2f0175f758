// What precision asks for: `exact` has the bits of float32 kernels or keeps weights of float32, and
// `default` the bounds of pairs of bfloat16, special numbers included.
#include <cstring>

#include "tests/dense/edges.hpp"
#include "tests/problem/random_forms.hpp"
#include "tests/support/precision.hpp"

using namespace heed_test;

namespace {

Context exact_context(const char* isa) { return context_of(isa, HEED_PRECISION_EXACT); }

bool is_of(const Problem& p, std::uint32_t dtype) {
  return p.query.dtype() == dtype && p.key.dtype() == dtype && p.value.dtype() == dtype;
}

/// Calls check(problem) for so many random problems of this type, with any options.
template <class Check>
void for_each_of(std::uint32_t dtype, std::size_t problems, Check&& check) {
  std::size_t seen = 0;
  for (std::uint64_t seed = 1; seen < problems; ++seed) {
    Problem p = RandomForms(seed).draw();
    if (!is_of(p, dtype)) continue;
    INFO("seed " << seed << ": " << line_of(p));
    ++seen;
    check(p);
  }
}

Problem in_type(std::uint32_t dtype, Index queries, Index keys, Index features,
                Index value_features) {
  Sizes sizes = {queries, keys, features, value_features};
  sizes.types = all_of(dtype);
  sizes.types.out = HEED_DTYPE_F32;  // which shows more of what was rounded before
  return filled(sizes, 3);
}
Problem in_bfloat16(Index queries, Index keys, Index features, Index value_features) {
  return in_type(HEED_DTYPE_BF16, queries, keys, features, value_features);
}

/// Runs a problem of float32 with HEED_PRECISION_MEDIUM, wherever there are pairs.
void check_medium(Problem& p) {
  const Expected want = p.expected_medium();
  for_each_with_pairs([&](const char* isa, const char*) {
    const Context medium = context_of(isa, HEED_PRECISION_MEDIUM);
    CHECK(check_outputs(p, isa, p.run_all(medium), want, Unspecified::kAllowed).worst() <= 1);
  });
}

/// 2^-129 is subnormal in bfloat16 as in float32.
constexpr double kTiny = 0x1p-129;

}  // namespace

TEST_CASE("exact: bfloat16 has the bits of the kernels without pairs or parts", "[precision]") {
  for_each_with_pairs([](const char* isa, const char* plain) {
    if (plain == nullptr || multiplies_parts(isa)) return;  // nullptr: it is the only one tested
    const Context exact = exact_context(isa);
    std::size_t rounded = 0;
    for_each_of(HEED_DTYPE_BF16, count(500), [&](Problem& p) {
      const Outputs want = p.run_all(plain);
      CHECK(same_bits(p.run_all(exact).out, want.out));
      rounded += same_bits(p.run_all(isa).out, want.out) ? 0 : 1;
    });
    CHECK((small() || rounded > 0));  // the unit was used
  });
}

TEST_CASE("pairs: random problems with any options", "[precision]") {
  for_each_with_pairs([](const char* isa, const char*) {
    for_each_of(HEED_DTYPE_BF16, count(1000), [&](Problem& p) {
      const Expected want = p.expected_all();
      CHECK(check_outputs(p, isa, p.run_all(isa), want, Unspecified::kAllowed).worst() <= 1);
    });
  });
}

TEST_CASE(
    "default: weights of bfloat16 are rounded, those of other types multiplied by parts or not",
    "[precision]") {
  for_each_with_pairs([](const char* isa, const char*) {
    const Context exact = exact_context(isa);
    for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F16, HEED_DTYPE_F32}) {
      Sizes sizes = {60, 90, 24, 20};
      sizes.types = all_of(dtype);
      sizes.types.out = HEED_DTYPE_F32;
      Problem p = filled(sizes, 5);
      CHECK(same_bits(p.run_all(isa).out, p.run_all(exact).out) ==
            (dtype != HEED_DTYPE_BF16 && !multiplies_parts(isa)));
    }
  });
}

TEST_CASE("pairs: odd numbers of features and keys, and windows that begin at odd keys",
          "[precision]") {
  for (const Index features : {1, 2, 7, 33, 64, 77, 129})
    for (const Index keys : {1, 2, 63, 65, 131}) {
      Problem p = in_bfloat16(53, keys, features, features == 33 ? 7 : features);
      p.want_lse();
      check_problem(p);
      set_window(p, 5, 8, keys - 53);
      check_problem(p);
    }
}

TEST_CASE("pairs: infinities, NaN and subnormal numbers follow the rules", "[precision]") {
  const double tokens[] = {kInfinity, -kInfinity, kNaN, kTiny, 3e38, -3e38};
  for (const double special : tokens)
    for (const auto tensor : {&Problem::query, &Problem::key, &Problem::value})
      for (const bool causal : {false, true}) {
        INFO(special << " in the "
                     << (tensor == &Problem::query ? "query"
                         : tensor == &Problem::key ? "keys"
                                                   : "values"));
        Problem p = in_bfloat16(40, 41, 15, 9);
        if (causal) p.desc.causal = HEED_CAUSAL_TOP_LEFT;
        p.want_lse();
        (p.*tensor).set_where([](const Axes& at) { return at[2] % 13 == 5 && at[3] % 4 == 1; },
                              special);
        check_problem(p, nullptr, Unspecified::kAllowed);
      }
}

TEST_CASE("pairs: a value that few rows attend spoils no other block of its tile", "[precision]") {
  for (const double special : {kNaN, kInfinity}) {
    Problem p = in_bfloat16(31, 260, 23, 23);
    set_window(p, 40, -1, 101);  // rows begin at the keys 61 to 91
    p.value.set_where([](const Axes& at) { return at[2] == 70 && at[3] == 15; }, special);
    check_problem(p);
  }
}

TEST_CASE("pairs: bits depend on no tiles, also beside values that nobody attends", "[precision]") {
  Problem p = in_bfloat16(150, 300, 40, 24);
  set_window(p, 70, 20, 100);  // the last row ends with key 269
  p.value.set({0, 0, 280, 3}, kNaN);
  for_each_with_pairs([&](const char* isa, const char*) {
    const Numbers want = p.run_all(isa).out;
    for (const std::uint32_t tile_q : {48U, 144U})
      for (const std::uint32_t tile_kv : {64U, 128U, 192U}) {
        Choices choices;
        choices.tile_q = tile_q;
        choices.tile_kv = tile_kv;
        CHECK(same_bits(p.run_all(make_context(isa, choices)).out, want));
      }
  });
  check_problem(p);
}

TEST_CASE("pairs: a panel that is computed without them leaves the others their queries",
          "[precision]") {
  Problem p = in_bfloat16(140, 140, 24, 9);
  p.desc.causal = HEED_CAUSAL_TOP_LEFT;
  p.query.set({0, 0, 3, 0}, kNaN);    // a row of the first panel
  p.value.set({0, 0, 80, 4}, kNaN);   // seen by some rows of the second
  p.value.set({0, 0, 135, 4}, kNaN);  // and of the last
  check_problem(p);
}

TEST_CASE("pairs: rows that are computed again show weights that are, and the others theirs",
          "[precision]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F16, HEED_DTYPE_F32})
    for (const std::uint32_t shown : {HEED_DTYPE_F32, HEED_DTYPE_BF16}) {
      Problem p = in_type(dtype, 100, 150, 40, 24);
      set_window(p, 60, 20, 50);
      p.key.set_where([](const Axes& at) { return at[2] % 50 == 7; }, 4);  // row maxima move late
      p.query.set({0, 0, 3, 0}, kNaN);
      p.key.set({0, 0, 90, 1}, kInfinity);
      p.value.set({0, 0, 140, 4}, kInfinity);
      p.want_lse();
      p.want_weights(HEED_WEIGHTS_PROBABILITIES, shown);
      check_problem(p, nullptr, Unspecified::kAllowed);
    }
}

TEST_CASE("pairs: asking for weights leaves out its bits, and weights theirs whatever the tiles",
          "[precision]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F16}) {
    Problem p = in_type(dtype, 110, 300, 40, 24);
    p.query.set({0, 0, 50, 0}, kNaN);
    for_each_with_pairs([&](const char* isa, const char*) {
      const Numbers out = p.run_all(isa).out;
      Problem shows = p;
      shows.want_weights(HEED_WEIGHTS_PROBABILITIES);
      const Outputs want = shows.run_all(isa);
      CHECK(same_bits(want.out, out));
      for (const std::uint32_t tile_kv : {64U, 192U}) {
        Choices choices;
        choices.tile_q = 48;
        choices.tile_kv = tile_kv;
        CHECK(same_bits(shows.run_all(make_context(isa, choices)).weights, want.weights));
      }
    });
  }
}

TEST_CASE("pairs: an infinity is not lost where it meets a subnormal number", "[precision]") {
  // A query of 2^-129 counts as 0 to pairs, and 0 times infinity is NaN: float32 says infinity.
  Problem p = in_bfloat16(20, 30, 2, 3);
  p.desc.scale = 1;
  p.query.fill([] { return 1; });
  p.key.fill([] { return 1; });
  p.query.set_where([](const Axes& at) { return at[3] == 0; }, kTiny);
  p.key.set_where([](const Axes& at) { return at[2] == 7 && at[3] == 0; }, kInfinity);
  check_problem(p);
}

TEST_CASE("pairs: weights that are lost leave 0, and no row its sums", "[precision]") {
  // Scores of which all but one count as nothing, and a row of -infinity alone.
  Problem p = in_bfloat16(20, 70, 1, 5);
  p.desc.scale = 1;
  p.query.fill([] { return 1; });
  for (Index j = 0; j < 70; ++j) p.key.set({0, 0, j, 0}, -8.0 * static_cast<double>(j % 35));
  p.want_lse();
  check_problem(p);
  p.key.fill([] { return -kInfinity; });
  check_problem(p);
}

TEST_CASE("medium: random problems of float32 with any options", "[precision]") {
  for_each_of(HEED_DTYPE_F32, count(500), check_medium);
}

TEST_CASE("medium: float32 is rounded where there are pairs, and nowhere else", "[precision]") {
  for (const char* const isa : isa_names())
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F16}) {
      Problem p = in_type(dtype, 60, 90, 24, 20);
      const bool same = same_bits(p.run_all(context_of(isa, HEED_PRECISION_MEDIUM)).out,
                                  p.run_all(exact_context(isa)).out);
      CHECK(same == !(multiplies_parts(isa) || (multiplies_pairs(isa) && dtype == HEED_DTYPE_F32)));
    }
}

TEST_CASE("medium: what does not fit into bfloat16 follows the rules", "[precision]") {
  const double tokens[] = {kInfinity, -kInfinity, kNaN, kTiny, 3.4e38, -3.4e38};  // not to 3.4e38
  for (const double special : tokens)
    for (const auto tensor : {&Problem::query, &Problem::key, &Problem::value})
      for (const Index features : {15, 64}) {
        INFO(special << ", " << features << " features");
        Problem p = in_type(HEED_DTYPE_F32, 40, 41, features, 9);
        p.want_lse();
        (p.*tensor).set_where([](const Axes& at) { return at[2] % 13 == 5 && at[3] % 4 == 1; },
                              special);
        check_medium(p);
      }
}

TEST_CASE("parts: random problems of other types with any options", "[precision]") {
  for (const char* const isa : isa_names()) {
    if (!multiplies_parts(isa)) continue;
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F16})
      for_each_of(dtype, count(500), [&](Problem& p) {
        const Expected want = p.expected_all();
        CHECK(check_outputs(p, isa, p.run_all(isa), want, Unspecified::kAllowed).worst() <= 1);
      });
  }
}

TEST_CASE("high: float32 is multiplied as two parts where there are parts", "[precision]") {
  for (const char* const isa : isa_names()) {
    const Context high = context_of(isa, HEED_PRECISION_HIGH);
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F16}) {
      Problem p = in_type(dtype, 60, 90, 24, 20);
      CHECK(same_bits(p.run_all(high).out, p.run_all(isa).out) ==
            !(multiplies_parts(isa) && dtype == HEED_DTYPE_F32));
    }
    if (!multiplies_parts(isa)) continue;
    for_each_of(HEED_DTYPE_F32, count(500), [&](Problem& p) {
      const Expected want = p.expected_high();
      CHECK(check_outputs(p, isa, p.run_all(high), want, Unspecified::kAllowed).worst() <= 1);
    });
  }
}

/// Runs a problem of 16 bits with HEED_PRECISION_EXACT, wherever there are parts.
void check_exact(Problem& p) {
  const Expected want = p.expected_exact();
  for (const char* const isa : isa_names())
    if (multiplies_parts(isa))
      CHECK(check_outputs(p, isa, p.run_all(exact_context(isa)), want, Unspecified::kAllowed)
                .worst() <= 1);
}

TEST_CASE("exact: random problems of 16 bits with any options", "[precision]") {
  if (std::none_of(isa_names().begin(), isa_names().end(), multiplies_parts)) return;
  for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F16})
    for_each_of(dtype, count(500), check_exact);
}

TEST_CASE("exact: 16 bits by parts are as close as float32 is, and closer than rounded weights",
          "[precision]") {
  for (const char* const isa : isa_names()) {
    if (!multiplies_parts(isa)) continue;
    for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F16}) {
      Problem p = in_type(dtype, 60, 200, 77, 40);
      const Expected want = p.expected_exact();
      const auto error = [&](const Context& context) {
        const Numbers got = p.run_all(context).out;
        double most = 0;
        for (std::size_t i = 0; i < got.size(); ++i)
          most = std::max(most, std::fabs(got[i] - want.out[i].value));
        return most;
      };
      CHECK(error(exact_context(isa)) < 0x1p-20);
      CHECK(error(exact_context(isa)) < error(context_of(isa, HEED_PRECISION_DEFAULT)) / 8);
    }
  }
}

TEST_CASE("exact: odd sizes of 16 bits, and what is not finite or subnormal", "[precision]") {
  const double tokens[] = {1, kInfinity, -kInfinity, kNaN, 0x1p-24, kTiny, 3e38};
  std::size_t index = 0;
  for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F16})
    for (const double special : tokens)
      for (const auto tensor : {&Problem::query, &Problem::key, &Problem::value}) {
        if (!keep_of_few(index++)) continue;
        INFO(special << " in type " << dtype);
        Problem p = in_type(dtype, 53, 131, 47, 25);
        p.want_lse();
        set_window(p, 40, 8, 78);
        (p.*tensor).set_where([](const Axes& at) { return at[2] % 13 == 5 && at[3] % 4 == 1; },
                              special);
        check_exact(p);
      }
}

TEST_CASE("parts: odd sizes, what is not finite or subnormal, and masked NaN", "[precision]") {
  const double tokens[] = {1, kInfinity, -kInfinity, kNaN, 0x1p-140, 0x1p-120, 3.4e38, -3.4e38};
  std::size_t index = 0;
  for (const Index features : {15, 64, 77})
    for (const double special : tokens)
      for (const auto tensor : {&Problem::query, &Problem::key, &Problem::value}) {
        if (!keep_of_few(index++)) continue;
        INFO(special << ", " << features << " features");
        Problem p = in_type(HEED_DTYPE_F32, 53, 131, features, features == 15 ? 9 : features);
        p.want_lse();
        set_window(p, 40, 8, 78);
        (p.*tensor).set_where([](const Axes& at) { return at[2] % 13 == 5 && at[3] % 4 == 1; },
                              special);
        check_problem(p, nullptr, Unspecified::kAllowed);
      }
}

#if defined(__x86_64__)
TEST_CASE("pairs: a score function may use tiles, and release them", "[precision]") {
  ScoreFunction releases = score_function<Shift>();
  releases.call = [](void* user, const heed_score_tile* tile) {
    asm volatile("tilerelease");
    change_tile<Shift>(user, tile);
  };
  for_each_with_pairs([&](const char* isa, const char*) {
    if (std::strcmp(isa, "amx") != 0) return;
    Problem p = in_bfloat16(50, 150, 40, 24);
    p.function = releases;
    CHECK(check_outputs(p, isa, p.run_all(isa), p.expected_all()).worst() <= 1);
  });
}
#endif
