// What precision asks for, of dense attention, its gradients and blocks: `exact` has the bits of
// float32 kernels or keeps weights of float32; by `default` bfloat16 multiplies in pairs and
// float16 in parts where there are any, float32 with `high`; `medium` rounds float32. Each has
// bounds of its own, special numbers included. Emulated CPUs run these tests alone of random ones.
#include <cstring>
#include <functional>

#include "tests/operations/operations.hpp"

using namespace heed_test;

namespace {

/// A context of an instruction set and a precision.
Context context_of(const char* isa, heed_precision precision) {
  Choices choices;
  choices.precision = precision;
  return make_context(isa, choices);
}

/// Calls check(name, of the kernels that it has otherwise) for every instruction set with pairs.
template <class Check>
void for_each_with_pairs(Check&& check) {
  const char* plain = nullptr;
  for (const char* const isa : isa_names())
    if (multiplies_pairs(isa))
      check(isa, plain);
    else
      plain = isa;
}

// ---- Against the oracle ----

/// Whether that precision has bounds of its own on an instruction set: elsewhere nothing is
/// rounded, as sweeps see. `exact` has them where weights of bfloat16 are parts.
bool has_bounds(const std::string& isa, heed_precision precision) {
  const bool parts = precision == HEED_PRECISION_EXACT || precision == HEED_PRECISION_HIGH;
  return parts ? multiplies_parts(isa) : multiplies_pairs(isa) || multiplies_parts(isa);
}

template <class Runnable>
void check_precision(Runnable& p, heed_precision precision) {
  const auto isas = isa_names();
  if (std::none_of(isas.begin(), isas.end(), [&](auto isa) { return has_bounds(isa, precision); }))
    return;
  const Wanted want = wanted(p.expected(precision));
  for (const char* const isa : isas) {
    if (!has_bounds(isa, precision)) continue;
    INFO("precision " << precision);
    check_results(isa + (": " + line_of(p)), run(p, context_of(isa, precision)), want, isa,
                  Unspecified::kAllowed);
  }
}

struct Asked {
  heed_precision precision;
  std::uint32_t dtype;
};
constexpr Asked kAsked[] = {{HEED_PRECISION_EXACT, HEED_DTYPE_BF16},
                            {HEED_PRECISION_DEFAULT, HEED_DTYPE_BF16},
                            {HEED_PRECISION_DEFAULT, HEED_DTYPE_F16},
                            {HEED_PRECISION_HIGH, HEED_DTYPE_F32},
                            {HEED_PRECISION_MEDIUM, HEED_DTYPE_F32}};

/// Calls check(problem) for so many random problems of this type, with any options.
template <class Check>
void for_each_of(std::uint32_t dtype, std::size_t problems, Check&& check) {
  std::size_t seen = 0;
  for (std::uint64_t seed = 1; seen < problems; ++seed) {
    Problem p = draw_problem(seed);
    if (p.query.dtype() != dtype || p.key.dtype() != dtype || p.value.dtype() != dtype) continue;
    INFO("seed " << seed << ": " << line_of(p));
    ++seen;
    check(p);
  }
}

/// The same for random blocks that are not float64; `bfloat16`: whose inputs and matrices are that.
template <class Check>
void for_each_block(std::size_t blocks, bool bfloat16, Check&& check) {
  check_drawn(blocks, blocks / 2, draw_block, [&](Block& block, std::uint64_t) {
    if (is_float64(block.attention.desc)) return false;
    if (bfloat16)
      block.each_laid([](Tensor& tensor, const LaidOut& laid) {
        if (!laid.written()) lay(tensor, laid, {HEED_DTYPE_BF16});
      });
    check(block);
    return true;
  });
}

// ---- Problems ----

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

BackwardProblem gradients_in(Sizes sizes, std::uint32_t dtype, std::uint32_t of_out) {
  sizes.types = all_of(dtype);
  return all_gradients_of(filled(sizes, 3), 1, {of_out});
}
BackwardProblem gradients_in_bfloat16(const Sizes& sizes) {
  return gradients_in(sizes, HEED_DTYPE_BF16, HEED_DTYPE_BF16);
}

/// A long head whose splits are apart, and heads that share keys, with limits at any key.
std::vector<Sizes> long_and_many() {
  Sizes one_head = {1300, 150, 8, 8};
  one_head.causal = HEED_CAUSAL_TOP_LEFT;
  Sizes many = {61, 77, 12, 9, 3, 6, 2};
  many.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  return small() ? std::vector<Sizes>{many} : std::vector<Sizes>{one_head, many};
}

Block self_attention(std::uint32_t dtype, Index rows = 29) {
  heed_multihead_desc desc = block_desc(dtype, 150);
  desc.width_out = 70;
  Block block = plain_block(rows, 0, 4, 20, desc, 2, 2, 18);
  block.fill(77, 0.7);
  return block;
}

/// Numbers that do not fit into bfloat16, or into its normal ones: 2^-129 is subnormal there as in
/// float32, and a second part of 2^-120 would be.
constexpr double kTiny = 0x1p-129;
constexpr double kTokens[] = {1,     kInfinity, -kInfinity, kNaN,   0x1p-140, 0x1p-24,
                              kTiny, 0x1p-120,  3e38,       3.4e38, -3.4e38};

}  // namespace

// ---- Exact ----

TEST_CASE("exact: bfloat16 has the bits of the kernels without pairs or parts", "[precision]") {
  for_each_with_pairs([](const char* isa, const char* plain) {
    if (plain == nullptr) return;  // it is the only one that is tested
    const Context exact = context_of(isa, HEED_PRECISION_EXACT);
    std::size_t rounded = 0;
    const auto check = [&](auto& p) {
      const Outputs want = p.run_all(plain);
      check_same(isa, p.run_all(exact), want);
      rounded += same_bits(p.run_all(isa).out, want.out) ? 0 : 1;
    };
    if (!multiplies_parts(isa)) for_each_of(HEED_DTYPE_BF16, count(500), check);
    for_each_block(150, true, check);
    CHECK((small() || rounded > 0));  // the unit was used
    for (const Sizes& sizes : long_and_many()) {
      BackwardProblem p = gradients_in_bfloat16(sizes);
      check_bits(isa, run(p, exact), run(p, make_context(plain)));
      CHECK(!same_bits(p.run(make_context(isa)), p.run(exact)));
    }
  });
}

// ---- Bounds ----

TEST_CASE("random problems of every precision, with any options", "[precision]") {
  for (const Asked& asked : kAsked)
    for_each_of(asked.dtype, count(500), [&](Problem& p) { check_precision(p, asked.precision); });
}

TEST_CASE("random blocks of every precision, with any options", "[precision]") {
  for_each_block(300, true, [](Block& b) { check_precision(b, HEED_PRECISION_DEFAULT); });
  for (const heed_precision precision :
       {HEED_PRECISION_DEFAULT, HEED_PRECISION_HIGH, HEED_PRECISION_MEDIUM})
    for_each_block(300, false, [&](Block& block) { check_precision(block, precision); });
}

TEST_CASE("what is not finite, subnormal or too large follows the rules, in odd sizes",
          "[precision]") {
  std::size_t index = 0;
  for (const Asked& asked : kAsked)
    for (const Index features : {15, 64, 77})
      for (const double special : kTokens)
        for (const auto tensor : {&Problem::query, &Problem::key, &Problem::value}) {
          if (!keep_of_few(index++) || (small() && index % 3 != 0)) continue;
          INFO(special << ", " << features << " features, " << name_of_dtype(asked.dtype));
          Problem p = in_type(asked.dtype, 53, 131, features, features == 15 ? 9 : features);
          p.want_lse();
          set_window(p, 40, 8, 78);  // which begins at odd keys, too
          (p.*tensor).set_where([](const Axes& at) { return at[2] % 13 == 5 && at[3] % 4 == 1; },
                                special);
          check_precision(p, asked.precision);
        }
}

TEST_CASE("what is not finite, subnormal or too large follows the rules in blocks", "[precision]") {
  std::size_t index = 0;
  for (const double special : kTokens)
    for (const Asked& asked : kAsked)
      for (const int place : {0, 1, 2, 3}) {
        if (asked.precision == HEED_PRECISION_EXACT || !keep_of_few(index++)) continue;
        INFO(special << ", place " << place << ", " << name_of_dtype(asked.dtype));
        Block block = self_attention(asked.dtype, 9);
        block.attention.want_lse();
        if (place == 0) {
          block.input_query.set_where(
              [](const Axes& at) { return at[2] % 13 == 5 && at[3] % 4 == 1; }, special);
        } else {
          WeightMatrix* const matrices[] = {&block.w_query, &block.w_value, &*block.w_out};
          matrices[place - 1]->set(0, 3, 7, special);
        }
        check_precision(block, asked.precision);
      }
}

// ---- Numbers that meet in a tile, and what is computed apart ----

namespace {

struct Case {
  const char* name;
  std::function<Problem()> make;
};

Case computed_again(std::uint32_t dtype, std::uint32_t shown) {
  return {"rows that are computed again show weights that are, and the others theirs", [=] {
            Problem p = in_type(dtype, 100, 150, 40, 24);
            set_window(p, 60, 20, 50);
            p.key.set_where([](const Axes& at) { return at[2] % 50 == 7; }, 4);  // maxima move late
            p.query.set({0, 0, 3, 0}, kNaN);
            p.key.set({0, 0, 90, 1}, kInfinity);
            p.value.set({0, 0, 140, 4}, kInfinity);
            p.want_lse();
            p.want_weights(HEED_WEIGHTS_PROBABILITIES, shown);
            return p;
          }};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const double special : {kNaN, kInfinity})
    all.push_back({"a value that few rows attend spoils no other block of its tile", [=] {
                     Problem p = in_bfloat16(31, 260, 23, 23);
                     set_window(p, 40, -1, 101);  // rows begin at the keys 61 to 91
                     p.value.set({0, 0, 70, 15}, special);
                     return p;
                   }});
  all.push_back({"values that nobody attends", [] {
                   Problem p = in_bfloat16(150, 300, 40, 24);
                   set_window(p, 70, 20, 100);  // the last row ends with key 269
                   p.value.set({0, 0, 280, 3}, kNaN);
                   return p;
                 }});
  all.push_back({"a panel that is computed without pairs leaves the others their queries", [] {
                   Problem p = in_bfloat16(140, 140, 24, 9);
                   p.desc.causal = HEED_CAUSAL_TOP_LEFT;
                   p.query.set({0, 0, 3, 0}, kNaN);    // a row of the first panel
                   p.value.set({0, 0, 80, 4}, kNaN);   // seen by some rows of the second
                   p.value.set({0, 0, 135, 4}, kNaN);  // and of the last
                   return p;
                 }});
  for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F16, HEED_DTYPE_F32})
    for (const std::uint32_t shown : {HEED_DTYPE_F32, HEED_DTYPE_BF16})
      all.push_back(computed_again(dtype, shown));
  // A query of 2^-129 counts as 0 to pairs, and 0 times infinity is NaN: float32 says infinity.
  all.push_back({"an infinity is not lost where it meets a subnormal number", [] {
                   Problem p = in_bfloat16(20, 30, 2, 3);
                   p.desc.scale = 1;
                   p.query.fill([](const Axes& at) { return at[3] == 0 ? kTiny : 1; });
                   p.key.fill(
                       [](const Axes& at) { return at[2] == 7 && at[3] == 0 ? kInfinity : 1; });
                   return p;
                 }});
  // Scores of which all but one count as nothing, and rows of -infinity alone.
  for (const double step : {-8.0, -kInfinity})
    all.push_back({"weights that are lost leave 0, and no row its sums", [=] {
                     Problem p = in_bfloat16(20, 70, 1, 5);
                     p.desc.scale = 1;
                     p.query.fill([] { return 1; });
                     p.key.fill([&](const Axes& at) {
                       return std::isinf(step) ? step : step * static_cast<double>(at[2] % 35);
                     });
                     p.want_lse();
                     return p;
                   }});
  return all;
}

}  // namespace

TEST_CASE("pairs: what is computed apart leaves the rest as it is, whatever the tiles",
          "[precision]") {
  for (const Case& c : cases()) {
    INFO(c.name);
    Problem p = c.make();
    check_problem(p, Unspecified::kAllowed);
    for_each_with_pairs([&](const char* isa, const char*) {
      const Outputs want = p.run_all(isa);
      for (const std::uint32_t tile_q : {48U, 144U})
        for (const std::uint32_t tile_kv : {64U, 128U, 192U})
          check_same(isa, p.run_all(make_context(isa, {"serial", 1, tile_q, tile_kv})), want);
    });
  }
}

// ---- What a plan says ----

namespace {

/// Of attention over many rows of a type.
heed_precision in_effect(const char* isa, heed_precision asked, std::uint32_t dtype) {
  if (asked == HEED_PRECISION_EXACT) return asked;
  if (dtype == HEED_DTYPE_BF16)
    return multiplies_pairs(isa) ? HEED_PRECISION_DEFAULT : HEED_PRECISION_EXACT;
  const bool wide = dtype == HEED_DTYPE_F32;
  if (wide && asked == HEED_PRECISION_MEDIUM && multiplies_pairs(isa)) return asked;
  if (!multiplies_parts(isa) || (wide && asked != HEED_PRECISION_HIGH)) return HEED_PRECISION_EXACT;
  return wide ? asked : HEED_PRECISION_DEFAULT;
}

}  // namespace

TEST_CASE("plans say what precision is in effect, and that is where bits change", "[precision]") {
  for (const char* const isa : isa_names())
    for (const heed_precision asked :
         {HEED_PRECISION_EXACT, HEED_PRECISION_DEFAULT, HEED_PRECISION_HIGH, HEED_PRECISION_MEDIUM})
      for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F16, HEED_DTYPE_F32}) {
        INFO(isa << ", precision " << asked << ", " << name_of_dtype(dtype));
        const Context context = context_of(isa, asked);
        const Context exact = context_of(isa, HEED_PRECISION_EXACT);
        Problem p = in_type(dtype, 60, 90, 24, 20);
        const heed_precision of_many = in_effect(isa, asked, dtype);
        CHECK(describe(make_plan(context, p.desc)).precision == of_many);
        CHECK(same_bits(p.run_all(context).out, p.run_all(exact).out) ==
              (of_many == HEED_PRECISION_EXACT));
        if (dtype == HEED_DTYPE_BF16) {
          heed_attention_desc decoded = p.desc;
          decoded.query_length = 2;
          CHECK(describe(make_plan(context, decoded)).precision == of_many);
          decoded.query.dtype = HEED_DTYPE_F32;
          decoded.key.dtype = decoded.value.dtype = HEED_DTYPE_I8;
          CHECK(describe(make_plan(context, decoded)).precision == of_many);
          decoded.query_length = 1;  // as slow as memory: as exact as ever
          CHECK(describe(make_plan(context, decoded)).precision == HEED_PRECISION_EXACT);
        }

        const bool pairs =
            multiplies_pairs(isa) && (dtype == HEED_DTYPE_BF16 || asked == HEED_PRECISION_MEDIUM);
        const bool parts =
            multiplies_parts(isa) && (dtype == HEED_DTYPE_F16 || asked == HEED_PRECISION_HIGH);
        const bool multiplies = (pairs || parts) && asked != HEED_PRECISION_EXACT;
        heed_precision want = multiplies ? asked : HEED_PRECISION_EXACT;
        if (pairs && want == HEED_PRECISION_HIGH) want = HEED_PRECISION_DEFAULT;
        CHECK(describe(make_plan(context, self_attention(dtype).desc())).precision == want);

        for (const std::uint32_t of_out : {HEED_DTYPE_BF16, HEED_DTYPE_F32}) {
          BackwardProblem gradients = gradients_in({60, 90, 24, 20}, dtype, of_out);
          const bool all = dtype == HEED_DTYPE_BF16 && of_out == HEED_DTYPE_BF16;
          const bool in_pairs = all && multiplies_pairs(isa) && asked != HEED_PRECISION_EXACT;
          CHECK(describe(make_plan(context, gradients.desc())).precision ==
                (in_pairs ? HEED_PRECISION_DEFAULT : HEED_PRECISION_EXACT));
          CHECK(same_bits(gradients.run(context), gradients.run(exact)) == !in_pairs);
        }
      }
}

// ---- Gradients ----

TEST_CASE("gradients of pairs: odd sizes, windows that begin at odd keys, threads and tiles",
          "[backward][precision][threads]") {
  std::vector<Sizes> all = long_and_many();
  for (const Index features : {1, 7, 33, 64, 77})
    for (const auto& [rows, keys] : std::vector<std::pair<Index, Index>>{{7, 23}, {53, 65}})
      all.push_back({rows, keys, features, features == 33 ? 7 : features, 1, 2, 1});
  for (const Sizes& sizes : all) {
    BackwardProblem p = gradients_in_bfloat16(sizes);
    check_problem(p);
    check_shared(p);
    if (sizes.causal != HEED_CAUSAL_NONE) continue;
    set_window(p.forward, 5, 8, sizes.key_length - sizes.query_length);
    p.attend(plain_contexts()[0]);
    check_problem(p);
  }
}

TEST_CASE("gradients of pairs: a head that is not finite is computed without them",
          "[backward][precision]") {
  // Which panels are summed score by score is the same whether they have two or three vectors: the
  // last 32 rows of a pack of 128 are one, and all rows attend the first keys.
  const Sizes sizes = {64, 74, 12, 9, 2, 4, 2, HEED_CAUSAL_BOTTOM_RIGHT};
  BackwardProblem finite = gradients_in_bfloat16(sizes);
  std::size_t index = 4;  // keys are among few
  for (const double special : {kInfinity, kNaN})
    for (int tensor = 0; tensor < 6; ++tensor) {
      if (!keep_of_few(index++)) continue;
      BackwardProblem p = gradients_in_bfloat16(sizes);
      Tensor* const all[] = {&p.forward.query, &p.forward.key,  &p.forward.value,
                             &p.grad_out,      &*p.forward.lse, &*p.grad_lse};
      const bool of_keys = tensor == 1 || tensor == 2;
      all[tensor]->set({1, 1, of_keys ? 3 : 50, 0}, special);
      check_problem(p, Unspecified::kAllowed);
      for_each_with_pairs([&](const char* isa, const char*) {
        const Gradients pairs = finite.run(make_context(isa));
        const Gradients exact = p.run(context_of(isa, HEED_PRECISION_EXACT));
        const Gradients got = p.run(make_context(isa));
        // Of grad_query, head by head of both items.
        const std::size_t rows = got[kGradQuery].size() / 8;
        std::size_t wrong = 0;
        for (std::size_t n = 0; n < 8 * rows; ++n) {
          const std::size_t head = n / rows;
          const bool apart = of_keys ? head >= 6 : head == 4 || head == 5;
          const Gradients& want = apart ? exact : pairs;
          wrong += got[kGradQuery].bits[n] == want[kGradQuery].bits[n] ? 0 : 1;
        }
        CHECK(wrong == 0);
      });
    }
}

// ---- Prepared matrices ----

namespace {

/// The matrices of a block, prepared, and what they are called with.
struct Prepared {
  Prepared(const Block& block, const Context& context) {
    Block from = block;
    for (WeightMatrix* const w : from.matrices()) w->prepared = true;
    all = from.prepare(context);
  }

  /// The status of a run with these matrices.
  heed_status run(Block& block, const Context& context) const {
    const heed_multihead_desc desc = block.desc();
    heed_multihead_args args = block.args(all);
    args.w_query = args.w_key = args.w_value = args.w_out = nullptr;
    args.b_query = args.b_key = args.b_value = args.b_out = nullptr;
    block.out.clear();
    return heed_multihead(context.get(), &desc, &args);
  }

  Block::Prepared all;
};

}  // namespace

TEST_CASE(
    "pairs: a matrix prepared for any precision and instruction set has the bits of a raw one",
    "[precision]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F32}) {
    Block block = self_attention(dtype);
    std::vector<Context> contexts;
    for (const char* const isa : isa_names())
      for (const heed_precision precision : {HEED_PRECISION_EXACT, HEED_PRECISION_DEFAULT})
        contexts.push_back(context_of(isa, precision));
    for (const Context& from : contexts) {
      const Prepared prepared(block, from);
      for (const Context& context : contexts) {
        const Numbers want = block.run_all(context).out;
        require_ok(prepared.run(block, context));
        check_same("prepared elsewhere", block.out.numbers(), want);
      }
    }
  }
}

TEST_CASE("pairs: a prepared matrix of bfloat16 is half as large", "[precision]") {
  for_each_with_pairs([](const char* isa, const char*) {
    const Block block = plain_block(5, 5, 4, 32, block_desc(HEED_DTYPE_BF16, 320));
    const auto bytes = [&](heed_precision precision) {
      heed_weights_info info = HEED_WEIGHTS_INFO_INIT;
      const Prepared prepared(block, context_of(isa, precision));
      require_ok(heed_weights_describe(prepared.all[0].get(), &info));
      return info.bytes;
    };
    CHECK(bytes(HEED_PRECISION_EXACT) == (320 + 1) * 128 * 4);  // numbers, and a bias
    CHECK(bytes(HEED_PRECISION_DEFAULT) == (320 / 2 + 1) * 128 * 4);
  });
}

TEST_CASE("medium: blocks whose products are not heed's round nothing", "[precision]") {
  for_each_with_pairs([](const char* isa, const char*) {
    for (std::size_t i = 1; i < heed_product_count(); ++i) {
      Choices choices;
      choices.product = heed_product_name(i);
      choices.precision = HEED_PRECISION_EXACT;
      Block block = self_attention(HEED_DTYPE_F32);
      const Outputs want = block.run_all(make_context(isa, choices));
      choices.precision = HEED_PRECISION_MEDIUM;
      check_same(choices.product, block.run_all(make_context(isa, choices)), want);
    }
  });
}

TEST_CASE("medium: a matrix that was rounded is refused where it must not be", "[precision]") {
  for_each_with_pairs([](const char* isa, const char*) {
    const Context medium = context_of(isa, HEED_PRECISION_MEDIUM);
    Block block = self_attention(HEED_DTYPE_F32);
    const Prepared rounded(block, medium);
    const Numbers want = block.run_all(medium).out;
    require_ok(rounded.run(block, medium));
    check_same("medium", block.out.numbers(), want);
    for (const heed_precision precision : {HEED_PRECISION_EXACT, HEED_PRECISION_DEFAULT}) {
      CHECK(rounded.run(block, context_of(isa, precision)) == HEED_STATUS_INVALID_ARGUMENT);
      CHECK(std::string(heed_last_error()) ==
            "args.p_query is prepared with a context whose precision is \"medium\", "
            "which rounded it to bfloat16; this plan does not round matrices");
    }
    // Nothing of bfloat16 is lost.
    Block given = self_attention(HEED_DTYPE_BF16);
    require_ok(Prepared(given, medium).run(given, context_of(isa, HEED_PRECISION_DEFAULT)));
  });
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
    check_results(isa, run(p, make_context(isa)), wanted(p), isa);
  });
}
#endif
