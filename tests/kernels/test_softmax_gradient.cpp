// softmax_gradient: scores become probabilities, and gradients of these those of scores.
#include "tests/kernels/softmax.hpp"

using namespace heed_test;

namespace {

/// A panel of scores up to a row's lse, or a little above, and the gradients of probabilities.
template <class Real>
struct Panel {
  Panel(const Case& of, Random& random)
      : c(of),
        whole(filled<Real>(c.pitch, [&] { return whole_number(random); })),
        rest(filled<Real>(c.pitch, [&] { return 20 * random.normal<Real>(); })),
        delta(normals<Real>(c.pitch, random)),
        gradients(normals<Real>(c.keys * c.pitch, random)),
        scores(c.keys * c.pitch) {
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const std::int64_t kind = random.integer(0, 9);
      const Real below = kind == 0 ? kInf<Real> : kind == 1 ? 3000 : 30;
      const Real lse = whole[i % c.pitch] + rest[i % c.pitch];
      scores[i] = lse + 1 - below * static_cast<Real>(1 - random.unit());
    }
  }

  void run(const Table<Real>& kernels) {
    kernels.panels.softmax_gradient(c.vectors, scores.data(), c.keys, whole.data(), rest.data(),
                                    delta.data(), gradients.data());
  }
  bool intact() const {
    return scores.intact() && gradients.intact() && whole.intact() && rest.intact() &&
           delta.intact();
  }
  /// 0, as of the order of a probability, or as large as it may be.
  static Real whole_number(Random& random) {
    const std::int64_t kind = random.integer(0, 2);
    const auto most = static_cast<std::int64_t>(kind == 0 ? 0 : kind == 1 ? 200 : heed::kMostWhole);
    return static_cast<Real>(random.integer(-most, most));
  }

  Case c;
  BasicBuffer<Real> whole, rest, delta, gradients, scores;
};

}  // namespace

TEMPLATE_TEST_CASE("softmax_gradient gives probabilities, and gradients of scores",
                   "[softmax_gradient]", float, double) {
  for_each_case<TestType>(tiles(), [](const auto& kernels, const Case& c, Random& random) {
    Panel<TestType> panel(c, random);
    const Panel<TestType> before = panel;
    panel.run(kernels);
    CHECK(panel.intact());
    CHECK((same_bits(panel.whole, before.whole) && same_bits(panel.rest, before.rest) &&
           same_bits(panel.delta, before.delta)));
    return worst_of(c.keys, c.pitch, [&](std::size_t j, std::size_t r) {
      const std::size_t at = j * c.pitch + r;
      // Their difference is rounded once: what is whole is taken off exactly.
      const TestType from_rest = before.scores[at] - before.rest[r];
      const Weight<TestType> weight(from_rest, before.whole[r], false);
      // The probability that is there, times a difference: two roundings.
      const Wide<TestType> gradient = before.gradients[at];
      const Wide<TestType> difference = gradient - before.delta[r];
      const Wide<TestType> want = panel.scores[at] * difference;
      const Wide<TestType> bound =
          gamma_of<TestType>(2) * std::fabs(want) + 2 * kUnderflowOf<TestType>;
      return std::max(weight.ratio(panel.scores[at]),
                      error_ratio(panel.gradients[at], want, bound));
    });
  });
}

TEMPLATE_TEST_CASE("a score of -inf has no gradient, whatever that of its probability is",
                   "[softmax_gradient]", float, double) {
  for_each_case<TestType>(panels(1, 5), [](const auto& kernels, const Case& c, Random& random) {
    Panel<TestType> panel(c, random);
    panel.scores.fill([&] { return random.normal<TestType>(); });
    const TestType specials[] = {not_a_number<TestType>(), kInf<TestType>, -kInf<TestType>};
    for (std::size_t i = 0; i < panel.scores.size(); ++i) {
      if (i % 2 == 0) panel.scores[i] = -kInf<TestType>;
      if (i % 2 == 0) panel.gradients[i] = specials[i / 2 % 3];
    }
    for (std::size_t r = 0; r < c.pitch; r += 5) panel.delta[r] = not_a_number<TestType>();
    panel.run(kernels);
    CHECK(all(panel.scores.size(), [&](std::size_t i) {
      if (i % 2 == 0)
        return same_bits(panel.scores[i], TestType{0}) &&
               same_bits(panel.gradients[i], TestType{0});
      return std::isnan(panel.gradients[i]) == (i % c.pitch % 5 == 0);
    }));
  });
}

TEMPLATE_TEST_CASE("rows whose lse is infinite or NaN", "[softmax_gradient]", float, double) {
  for_each_case<TestType>(panels(1, 5), [](const auto& kernels, const Case& c, Random& random) {
    Panel<TestType> panel(c, random);
    panel.scores.fill([&] { return random.normal<TestType>(); });
    for (std::size_t r = 0; r < c.pitch; ++r)
      panel.rest[r] = r % 2 == 0 ? kInf<TestType> : not_a_number<TestType>();
    panel.run(kernels);
    CHECK(all(panel.scores.size(), [&](std::size_t i) {
      const bool none = i % c.pitch % 2 == 0;
      return none ? panel.scores[i] == 0 && panel.gradients[i] == 0
                  : std::isnan(panel.scores[i]) && std::isnan(panel.gradients[i]);
    }));
  });
}
