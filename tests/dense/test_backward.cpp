// Gradients of every option, shape and type, against the oracle.
#include "tests/dense/edges.hpp"
#include "tests/dense/gradients.hpp"
#include "tests/dense/properties.hpp"

using namespace heed_test;

namespace {

/// Options beside those that are properties' too.
const std::vector<Option>& differentiable_options() {
  static const std::vector<Option> all = [] {
    std::vector<Option> list = options();
    list.push_back({"bend", [](Problem& p) { p.function = score_function<Bend>(); }});
    list.push_back({"ceiling", [](Problem& p) { p.function = score_function<Ceiling>(); }});
    list.push_back({"hide", [](Problem& p) { p.function = score_function<Hide>(); }});
    list.push_back({"infinite temperature", [](Problem& p) { p.desc.temperature = kInfinity; }});
    list.push_back({"negative scale", [](Problem& p) { p.desc.scale = -0.3; }});
    list.push_back({"scale / temperature below the normal numbers", [](Problem& p) {
                      p.desc.scale = 1e-30;
                      p.desc.temperature = 1e12;
                    }});
    list.push_back({"shared bias", [](Problem& p) {
                      p.add_bias({1, 1, 1, p.desc.key_length}).fill([n = 0]() mutable {
                        return 0.1 * (n++ % 7);
                      });
                    }});
    list.push_back({"everything", [](Problem& p) {
                      for (const Option& option : options())
                        if (std::string(option.name) != "function") option.set(p);
                      p.desc.alignment = HEED_ALIGNMENT_DEFAULT;  // causal has its own
                      p.function = score_function<Bend>();
                    }});
    return list;
  }();
  return all;
}

Sizes grouped(Index queries, Index keys, const Types& types = {}) {
  Sizes sizes = {queries, keys, 12, 9, 2, 6, 2};
  sizes.types = types;
  return sizes;
}

void check_zero(const Numbers& numbers) {
  CHECK(numbers.size() > 0);
  CHECK(all_are(numbers, 0));
}

Gradients run_first(BackwardProblem& p) { return p.run(plain_contexts()[0]); }

}  // namespace

TEST_CASE("the gradients of every option", "[backward]") {
  Report report("gradients of options");
  check_options(differentiable_options(), [&](Problem& drawn) {
    BackwardProblem p = all_gradients_of(std::move(drawn));
    check_backward(p, &report);
  });
}

TEST_CASE("a gradient has the same bits alone as beside others", "[backward][same]") {
  check_options(differentiable_options(), [](Problem& drawn) {
    BackwardProblem p = all_gradients_of(std::move(drawn));
    std::vector<Gradients> all;
    for (std::size_t n = 0; n < plain_contexts().size(); ++n)
      all.push_back(p.run(plain_contexts()[n]));
    for (const GradientOf gradient : all_gradients()) {
      if (!p.can_want(gradient)) continue;
      p.want_nothing();
      p.want(gradient);
      for (std::size_t n = 0; n < plain_contexts().size(); ++n)
        check_same(std::string(IsaContexts::name(n)) + ", " + name_of(gradient),
                   p.run(plain_contexts()[n])[gradient], all[n][gradient]);
    }
  });
}

TEST_CASE("gradients of every shape", "[backward][shapes]") {
  Report report("gradients of shapes");
  std::size_t index = 0;
  const std::vector<Index> lengths = {1, 7, 23, 77, 197};
  for (const Index queries : lengths)
    for (const Index keys : lengths)
      for (const Index features : {1, 8, 33, 64})
        for (const Index value_features : {1, 24, 65}) {
          if (!keep(index++) || (index % 3 != 0 && queries + keys > 200)) continue;
          Sizes sizes = {queries, keys, features, value_features};
          sizes.causal = index % 2 == 0 ? HEED_CAUSAL_BOTTOM_RIGHT : HEED_CAUSAL_NONE;
          BackwardProblem p = all_gradients_of(filled(sizes, index));
          check_backward(p, &report);
        }
}

TEST_CASE("gradients of grouped heads and batches, in every type", "[backward]") {
  Report report("gradients of groups");
  std::size_t index = 0;
  for (const Kind& kind : kinds())
    for (const auto& [queries, keys] : std::vector<std::pair<Index, Index>>{{5, 30}, {77, 140}}) {
      if (small() && queries > 5 && index++ % (brief() ? 6 : 3) != 0) continue;
      Problem forward = filled(grouped(queries, keys, kind.types), 3);
      BackwardProblem p = all_gradients_of(std::move(forward));
      check_backward(p, &report);
      p.accumulate(7);
      check_backward(p, &report);
    }
}

TEST_CASE("gradients of sequences longer than a split, a tile and a fold", "[backward][large]") {
  Report report("gradients of long sequences");
  for (const auto& [queries, keys, heads] : std::vector<std::array<Index, 3>>{
           {1100, 130, 1}, {60, 4200, 1}, {3, 4300, 4}, {400, 70, 3}}) {
    if ((small() && queries > 1000) || (brief() && queries > 5)) continue;
    Sizes sizes = {queries, keys, 8, 8, 1, heads, 1};
    Problem forward = filled(sizes, 5);
    forward.desc.softcap = 20;
    BackwardProblem p = all_gradients_of(std::move(forward));
    check_backward(p, &report);
  }
}

TEST_CASE("16-bit gradients are float32 ones, rounded once", "[backward][same]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_BF16, HEED_DTYPE_F16}) {
    Problem forward = filled(grouped(30, 50), 9);
    forward.add_bias({1, 6, 1, 50});
    BackwardProblem p = all_gradients_of(std::move(forward));
    const std::vector<GradientOf> some = {kGradQuery, kGradKey, kGradValue, kGradBias};
    for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
      for (const GradientOf gradient : some) p.want(gradient);
      const Gradients wide = p.run(plain_contexts()[n]);
      for (const GradientOf gradient : some) p.want(gradient, {dtype});
      const Gradients narrow = p.run(plain_contexts()[n]);
      for (const GradientOf gradient : some) {
        INFO(IsaContexts::name(n) << ", " << name_of(gradient));
        bool same = wide[gradient].size() == narrow[gradient].size();
        for (std::size_t i = 0; same && i < wide[gradient].size(); ++i)
          same = encode(dtype, wide[gradient][i]) == narrow[gradient].bits[i];
        CHECK(same);
      }
    }
  }
}

TEST_CASE("gradients that accumulate are sums with what was there", "[backward][same]") {
  for (const Kind& kind : exact_kinds()) {
    Problem forward = filled(grouped(20, 40, kind.types), 10);
    forward.sinks.numbers = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6};
    BackwardProblem p = all_gradients_of(std::move(forward));
    const Gradients alone = run_first(p);
    p.accumulate(4);
    p.expected();  // leaves there what was there
    Gradients before;
    for (const GradientOf gradient : all_gradients())
      if (p.gradients[gradient]) before[gradient] = p.gradients[gradient]->numbers();
    const Gradients sums = run_first(p);
    for (const GradientOf gradient : {kGradQuery, kGradKey, kGradValue}) {
      const std::uint32_t dtype = sums[gradient].dtype;
      if (format_of(dtype).bytes < 4) continue;  // rounded only after the sum
      bool same = true;
      for (std::size_t i = 0; i < sums[gradient].size(); ++i)
        same = same &&
               sums[gradient].bits[i] == encode(dtype, before[gradient][i] + alone[gradient][i]);
      INFO(kind.name << ", " << name_of(gradient));
      CHECK(same);
    }
    check_backward(p);
  }
}

TEST_CASE("gradients through a softcap whose reciprocal is no number", "[backward]") {
  for (const bool wide : {false, true}) {
    Problem forward =
        filled(grouped(20, 40, all_of(wide ? HEED_DTYPE_F64 : HEED_DTYPE_DEFAULT)), 21);
    forward.desc.softcap = wide ? 1e-310 : 1e-40;
    forward.desc.scale = forward.desc.softcap / 3;
    BackwardProblem p = all_gradients_of(std::move(forward));
    check_backward(p);
  }
}

TEST_CASE("rows that attend nothing and keys that nobody attends get 0", "[backward][zero]") {
  for (const Kind& kind : exact_kinds()) {
    Problem forward = filled(grouped(20, 30, kind.types), 12);
    forward.add_mask({1, 1, 20, 30}).fill([](const Axes& at) {
      return at[2] % 3 == 0 || at[3] >= 17 ? 0 : 1;
    });
    BackwardProblem p = all_gradients_of(std::move(forward));
    check_backward(p);
    const Gradients got = run_first(p);
    std::size_t n = 0;
    p.gradients[kGradQuery]->each([&](const Axes& at) {
      if (at[2] % 3 == 0) CHECK(same_number(got[kGradQuery][n], 0));
      ++n;
    });
    for (const GradientOf gradient : {kGradKey, kGradValue}) {
      n = 0;
      p.gradients[gradient]->each([&](const Axes& at) {
        if (at[2] >= 17) CHECK(same_number(got[gradient][n], 0));
        ++n;
      });
    }
  }
}

TEST_CASE("problems without rows, keys or batches have gradients of 0, or none",
          "[backward][zero]") {
  struct Case {
    Index batch, heads, key_heads, queries, keys;
    bool repeats;  ///< the bias, over what there is nothing of too
  };
  for (const Case& c : std::vector<Case>{{2, 1, 1, 0, 5, false},
                                         {2, 1, 1, 5, 0, false},
                                         {0, 1, 1, 5, 5, false},
                                         {2, 1, 1, 0, 0, false},
                                         {2, 1, 1, 0, 5, true},
                                         {2, 1, 1, 5, 0, true},
                                         {0, 1, 1, 5, 5, true},
                                         {2, 0, 0, 5, 5, true},
                                         {2, 0, 3, 5, 5, false}}) {
    Sizes sizes = {c.queries, c.keys, 4, 3, c.batch, c.heads, c.key_heads};
    Problem forward = filled(sizes, 13);
    if (c.heads > 0) forward.sinks.numbers = forward.slopes.numbers = {0.5};
    forward.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    forward.add_bias(c.repeats ? Axes{1, 1, 1, 1} : forward.pairs());
    BackwardProblem p = all_gradients_of(std::move(forward));
    INFO(line_of(p));
    check_backward(p);
    const Gradients got = run_first(p);
    for (const GradientOf gradient : {kGradKey, kGradValue, kGradScale, kGradTemperature})
      CHECK(all_are(got[gradient], 0));
    check_zero(got[kGradScale]);
    p.accumulate(3);
    check_backward(p);
  }
}

TEST_CASE("what is masked reaches no gradient, whatever it holds", "[backward][special]") {
  for (const Kind& kind : exact_kinds())
    for (const bool biased : {false, true}) {
      Problem forward = filled(grouped(24, 150, kind.types), 14);
      // Rows 0, 5 .. attend nothing; keys from 100 on nobody.
      const auto masked = [](Index i, Index j) {
        return i % 5 == 0 || j >= 100 || (i + j) % 7 == 0;
      };
      if (biased)
        forward.add_bias({1, 1, 24, 150}).fill([&](const Axes& at) {
          return masked(at[2], at[3]) ? -kInfinity : 0.25;
        });
      else
        forward.add_mask({1, 1, 24, 150}).fill([&](const Axes& at) {
          return masked(at[2], at[3]) ? 0 : 1;
        });
      BackwardProblem p = all_gradients_of(std::move(forward));
      const ExpectedGradients want = p.expected();
      const auto of_row = [](const Axes& at) { return at[2] % 5 == 0; };
      const auto of_key = [](const Axes& at) { return at[2] >= 100; };
      for (const double special : {kNaN, kInfinity}) {
        p.forward.query.set_where(of_row, special);
        p.grad_out.set_where(of_row, -special);
        p.forward.key.set_where(of_key, special);
        p.forward.value.set_where(of_key, special);
        for (std::size_t n = 0; n < plain_contexts().size(); ++n)
          check_gradients(IsaContexts::name(n) + (": " + line_of(p)), p, p.run(plain_contexts()[n]),
                          want.on(IsaContexts::name(n)));
      }
    }
}

TEST_CASE("NaN and infinities that are attended arrive where they must", "[backward][special]") {
  for (const double special : {kNaN, kInfinity, -kInfinity})
    for (int tensor = 0; tensor < 5; ++tensor) {
      Problem forward = filled(grouped(24, 150), 15);
      forward.desc.causal = HEED_CAUSAL_TOP_LEFT;
      BackwardProblem p = all_gradients_of(std::move(forward));
      Tensor* const all[] = {&p.forward.query, &p.forward.key, &p.forward.value, &p.grad_out,
                             &*p.grad_lse};
      all[tensor]->set({1, 0, 9, 0}, special);
      p.attend(plain_contexts()[0]);
      INFO("tensor " << tensor << " is " << special);
      check_backward(p, nullptr, Unspecified::kAllowed);
    }
}

TEST_CASE("a row's log-sum-exp says whether it has gradients at all", "[backward][special]") {
  for (const Kind& kind : exact_kinds())
    for (const double lse : {-kInfinity, kInfinity, kNaN}) {
      Problem forward = filled(grouped(24, 150, kind.types), 16);
      forward.desc.causal = HEED_CAUSAL_TOP_LEFT;
      forward.sinks.numbers = {0, 0, 0, 0, 0, 0};
      BackwardProblem p = all_gradients_of(std::move(forward));
      p.forward.lse->set({1, 2, 9, 0}, lse);
      check_backward(p);
      const Gradients got = run_first(p);
      const std::size_t row = ((1 * 6 + 2) * 24 + 9) * 12;
      INFO(kind.name << ", lse " << lse);
      for (std::size_t x = 0; x < 12; ++x)
        CHECK(same_number(got[kGradQuery][row + x], lse == -kInfinity ? 0 : kNaN));
    }
}
