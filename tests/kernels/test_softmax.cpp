// softmax, qk_softmax and exponentials: one step of online softmax against its definition in a
// wider type; softmax_gradient: the same backwards.
//
// What is expected of a row, from the state before it: the row_max stays unless a score exceeds it
// by more than 8, then it becomes a score (the largest finite number for +inf) that none exceeds by
// more than 8: of softmax the largest; between which keys qk_softmax moves it is its own business.
// Sum, accumulators and the weights before these are multiplied by exp2(old - new); weights are
// exp2(score - row_max), and the sum grows by them. A row with a NaN is NaN, and no other is.
#include "engine/tensor/dropout.hpp"
#include "tests/kernels/products.hpp"
#include "tests/oracle/dropout.hpp"

using namespace heed_test;

namespace {

constexpr int kThreshold = 8;

/// A distance, in log2 units, beyond which nothing is left of a weight.
template <class Real>
constexpr int kFar = 24 - kSmallestExponentOf<Real>;

/// Weights of keys before these, scores, and the state of rows. `fresh`: nothing is accumulated.
template <class Real>
struct Step {
  Step(const Case& whole, bool is_fresh, std::size_t rows_before)
      : c(whole),
        fresh(is_fresh),
        pending(rows_before),
        ranges(heed::all_keys(c.keys)),
        tile((pending + c.keys) * c.pitch),
        row_max(filled<Real>(c.pitch, [] { return heed::kNoRowMax<Real>; })),
        sum(filled<Real>(c.pitch, [] { return Real{0}; })),
        accumulators(round_up(c.features, kPadding) * c.pitch) {}

  /// Rows that have seen nothing, or something, or +inf.
  void draw_state(Random& random) {
    for (std::size_t r = 0; r < c.pitch; ++r) {
      const std::int64_t kind = random.integer(0, 15);
      if (kind < 2) continue;
      row_max[r] = kind == 2   ? kMax<Real>
                   : kind == 3 ? static_cast<Real>(random.integer(-9, 9))
                               : 10 * random.normal<Real>();
      sum[r] = 1 + static_cast<Real>(random.unit());
    }
    for (std::size_t i = 0; !fresh && i < c.features * c.pitch; ++i)
      accumulators[i] = random.normal<Real>();
    for (std::size_t i = 0; i < pending * c.pitch; ++i) tile[i] = static_cast<Real>(random.unit());
  }
  /// Rows whose maximum stays, creeps up below the threshold, reaches it or jumps past it, or
  /// falls, far and near; some keys are excluded, and of some rows scores are special.
  void draw_scores(Random& random) {
    static const std::vector<Real> special = {
        kInf<Real>, -kInf<Real>, kMax<Real>, -kMax<Real>, 1e30F, -1e30F, not_a_number<Real>()};
    constexpr Real kShift[] = {0, 3, 6, 9, 20, kFar<Real>, -5, -kFar<Real> - 50};
    for (std::size_t r = 0; r < c.pitch; ++r) {
      const Real base = std::fabs(row_max[r]) == kMax<Real> ? 0 : row_max[r];
      const Real shift = kShift[random.integer(0, 7)];
      const std::int64_t kind = random.integer(0, 9);
      for (std::size_t j = 0; j < c.keys; ++j) {
        const std::int64_t excluded = random.integer(0, 9);
        score(j, r) = excluded == 0 ? -kInf<Real> : base + shift + 2 * random.normal<Real>();
        if (kind == 0 && excluded == 1) score(j, r) = random.pick(special);
        if (kind == 1) score(j, r) = base - std::fabs(score(j, r) - base);
      }
      const Real least = base + kThreshold;
      if (kind == 1)
        score(random.bits() % c.keys, r) =
            random.integer(0, 1) == 0 ? least : std::nextafter(least, kInf<Real>);
    }
  }
  void take(const BasicBuffer<Real>& scores) {
    for (std::size_t i = 0; i < c.keys * c.pitch; ++i) tile[pending * c.pitch + i] = scores[i];
  }

  Real* scores() { return tile.data() + pending * c.pitch; }
  Real& score(std::size_t j, std::size_t r) { return tile[(pending + j) * c.pitch + r]; }
  Real score(std::size_t j, std::size_t r) const { return tile[(pending + j) * c.pitch + r]; }
  bool needed(std::size_t j, std::size_t r) const {
    return needs(ranges, r * c.vectors / c.pitch, j);
  }
  heed::RowState<Real> state() { return {row_max.data(), sum.data(), accumulators.data(), fresh}; }
  bool intact() const {
    return tile.intact() && row_max.intact() && sum.intact() &&
           accumulators.intact_from(fresh ? 0 : c.features * c.pitch);
  }

  Case c;
  bool fresh;
  std::size_t pending;
  heed::KeyRanges ranges;
  BasicBuffer<Real> tile, row_max, sum, accumulators;
};

/// A difference as an exponent is off by its rounding, whose effect grows with it, 2^x by 1 ULP,
/// and by both and a product's rounding whenever a row_max has moved since. Where nothing is left,
/// any number does.
template <class Real>
Wide<Real> weight_error(Wide<Real> difference, Wide<Real> rise = 0, Wide<Real> moves = 0) {
  constexpr Wide<Real> kMost = 8 * kFar<Real>;
  const Wide<Real> distance = std::min(std::fabs(difference), kMost) + 2 * std::min(rise, kMost);
  return std::expm1(kUnitOf<Real> * (kLn2 * distance + 2 + 3 * moves));
}

/// A weight as it should be. Next to the smallest normal number and below, it may have been
/// flushed.
template <class Real>
struct Weight {
  Weight(Real score, Wide<Real> row_max, Wide<Real> relative = -1) {
    const Wide<Real> difference = std::min(score, kMax<Real>) - row_max;
    value = std::exp2(difference);
    bound = value * (relative < 0 ? weight_error<Real>(difference) : relative) +
            (difference < kSmallestExponentOf<Real> + 1 ? kSmallestOf<Real> : 0);
  }
  double ratio(Real got) const {
    return value == 0 ? wrong_unless(same_bits(got, Real{0})) : error_ratio(got, value, bound);
  }

  Wide<Real> value, bound;
};

/// What a kernel does beside the definition: `lazy`: maxima may move between any keys; `sums`:
/// weights are summed.
struct Manner {
  bool lazy = false, sums = true;
};

/// The row of a step that a kernel has taken: the worst error / bound.
template <class Real>
double check_row(const Step<Real>& before, const Step<Real>& after, std::size_t r, Manner manner) {
  Real largest = -kInf<Real>, lowest = kMax<Real>;
  const Real old = before.row_max[r], moved = after.row_max[r];
  bool has_nan = false, is_score = false;
  for (std::size_t j = 0; j < before.c.keys; ++j) {
    const Real score = std::min(before.score(j, r), kMax<Real>);
    if (!before.needed(j, r)) {
      if (!same_bits(before.score(j, r), after.score(j, r))) return HUGE_VAL;
      continue;
    }
    if (std::isnan(before.score(j, r))) {
      if (!std::isnan(after.score(j, r))) return HUGE_VAL;
      has_nan = true;
    }
    largest = std::max(largest, score);
    if (score > -kInf<Real>) lowest = std::min(lowest, score);
    is_score = is_score || score == moved;
  }
  if (has_nan) return wrong_unless(!manner.sums || std::isnan(after.sum[r]));
  const bool may_be = manner.lazy
                          ? largest <= moved + kThreshold &&
                                (same_bits(moved, old) || (is_score && moved > old + kThreshold))
                          : moved == (largest > old + kThreshold ? largest : old);
  if (!may_be) return HUGE_VAL;

  const Wide<Real> rise = static_cast<Wide<Real>>(moved) - old;
  const Wide<Real> factor = std::exp2(-rise);
  const Wide<Real> moves = rise == 0 ? 0
                           : manner.lazy
                               ? std::min(static_cast<Wide<Real>>(before.c.keys), rise / 4)
                               : 1;
  const Wide<Real> scaled = rise == 0 ? 0 : weight_error<Real>(rise, 0, moves);
  // Where a factor or a weight on the way is no normal number, all of which are below 2^8.
  const Wide<Real> flush = manner.lazy ? 256 * kSmallestOf<Real> : 0;
  double worst = 0;
  const auto check_scaled = [&](const auto& was, const auto& is, std::size_t rows) {
    for (std::size_t i = r; i < rows * before.c.pitch; i += before.c.pitch) {
      const Wide<Real> want = was[i] * factor;
      const Wide<Real> lost = factor < 2 * kSmallestOf<Real> ? kSmallestOf<Real> : 0;
      worst = std::max(
          worst, rise == 0 ? wrong_unless(same_bits(is[i], was[i]))
                           : error_ratio<Real>(is[i], want,
                                               std::fabs(want) * scaled + std::fabs(was[i]) * lost +
                                                   kUnderflowOf<Real> + flush));
    }
  };
  check_scaled(before.tile, after.tile, before.pending);
  if (!before.fresh) check_scaled(before.accumulators, after.accumulators, before.c.features);

  Wide<Real> sum = before.sum[r] * factor;
  Wide<Real> bound = sum * scaled + 512 * kSmallestOf<Real>;
  // What has a weight before a row_max moves has it from a score of its own row.
  const Wide<Real> risen =
      moves == 0 ? 0 : std::min<Wide<Real>>(rise, largest - lowest + 2 * kThreshold);
  for (std::size_t j = 0; j < before.c.keys; ++j) {
    if (!before.needed(j, r)) continue;
    const Real score = before.score(j, r);
    Weight<Real> weight(score, moved);
    if (manner.lazy && score > -kInf<Real>) {
      const Wide<Real> difference = std::min(score, kMax<Real>) - static_cast<Wide<Real>>(moved);
      weight.bound += flush + weight.value * weight_error<Real>(difference, risen, moves);
      worst = std::max(worst, error_ratio(after.score(j, r), weight.value, weight.bound));
    } else {
      worst = std::max(worst, weight.ratio(after.score(j, r)));
    }
    if (manner.sums) sum += weight.value;
    if (manner.sums) bound += weight.bound;
  }
  bound += gamma_of<Real>(static_cast<Wide<Real>>(before.c.keys)) * (sum + bound);
  return std::max(worst, error_ratio(after.sum[r], sum, bound));
}

template <class Real>
double check_step(const Step<Real>& before, const Step<Real>& after, Manner manner = {}) {
  const double worst = worst_of(before.c.pitch, 1, [&](std::size_t r, std::size_t) {
    return check_row(before, after, r, manner);
  });
  CHECK(after.intact());
  CHECK(worst <= 1);
  return worst;
}

}  // namespace

// Once maxima are final, exponentials make the same of them, bit for bit, and what they sum is
// added to what is there.
TEMPLATE_TEST_CASE("softmax follows its definition, and exponentials do what is left of it",
                   "[softmax][exponentials]", float, double) {
  using Real = TestType;
  for_each_case<Real>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    double worst = 0;
    for (std::size_t i = 0; c.unit && i < 4; ++i) {  // no strides here
      Step<Real> step(c, i == 0, i == 2 ? 8 : 0);
      if (i > 0) step.draw_state(random);
      step.draw_scores(random);
      if (i == 3) {
        step.ranges = draw_ranges(c.keys, c.vectors, random);
        for (std::size_t at = 0; at < step.tile.size(); ++at)
          if (!step.needed(at / c.pitch, at % c.pitch)) step.tile[at] = not_a_number<Real>();
      }
      const Step<Real> before = step;
      kernels.panels.softmax(c.vectors, step.scores(), step.ranges, step.pending, step.state(),
                             c.features);
      worst = std::max(worst, check_step(before, step));
      if (i > 0) continue;
      Step<Real> left = before, added = before;
      added.sum.fill([&] { return static_cast<Real>(10 * random.unit()); });
      const auto others = added.sum;
      for (Step<Real>* const of : {&left, &added}) {
        for (std::size_t r = 0; r < c.pitch; ++r) of->row_max[r] = step.row_max[r];
        kernels.panels.exponentials(c.vectors, of->scores(), c.keys, of->row_max.data(),
                                    of->sum.data());
        CHECK((of->intact() && same_bits(of->row_max, step.row_max)));
      }
      CHECK(all(c.pitch, [&](std::size_t r) {
        return same_number(left.sum[r], step.sum[r]) &&
               same_number(added.sum[r], others[r] + left.sum[r]) &&
               all(c.keys,
                   [&](std::size_t j) { return same_number(left.score(j, r), step.score(j, r)); });
      }));
    }
    return worst;
  });
}

TEST_CASE("pairs: softmax leaves row_sum to accumulate", "[pairs]") {
  for_each_pairs(tiles(11), [](const auto&, const auto& pairs, const Case& c, Random& random) {
    Step<float> step(c, false, 0);
    step.draw_state(random);
    step.draw_scores(random);
    const Step<float> before = step;
    pairs.products.softmax(c.vectors, step.scores(), step.ranges, 0, step.state(), c.features);
    return check_step(before, step, {false, false});
  });
}

TEMPLATE_TEST_CASE("softmax of special scores: the weights, and the row_max if it is one",
                   "[softmax]", float, double) {
  constexpr TestType inf = kInf<TestType>;
  constexpr TestType max = kMax<TestType>;
  const struct {
    TestType scores[3], weights[3], row_max;
  } rows[] = {{{-inf, -inf, -inf}, {0, 0, 0}, heed::kNoRowMax<TestType>},  // as it was
              {{inf, 1, inf}, {1, 0, 1}, max},                             // share the weight
              {{-inf, inf, 1e38F}, {0, 1, 0}, max},
              {{inf, inf, inf}, {1, 1, 1}, max},
              {{max, -max, 0}, {1, 0, 0}, max},
              {{-max, -max, -max}, {1, 1, 1}, -max},
              {{-inf, 1e30F, 1e30F}, {0, 1, 1}, 1e30F},
              {{-1e30F, -inf, -2e30F}, {1, 0, 0}, -1e30F}};
  for_each_case<TestType>(panels(8, 3), [&](const auto& kernels, const Case& c, Random&) {
    for (const auto& row : rows) {
      INFO("scores " << row.scores[0] << " " << row.scores[1] << " " << row.scores[2]);
      Step<TestType> step(c, true, 0);
      for (std::size_t i = 0; i < 3 * c.pitch; ++i) step.tile[i] = row.scores[i / c.pitch];
      kernels.panels.softmax(c.vectors, step.scores(), step.ranges, 0, step.state(), c.features);
      CHECK(step.intact());
      CHECK(all(3 * c.pitch,
                [&](std::size_t i) { return same_bits(step.tile[i], row.weights[i / c.pitch]); }));
      const TestType sum = row.weights[0] + row.weights[1] + row.weights[2];
      CHECK(all(c.pitch, [&](std::size_t r) {
        return same_bits(step.sum[r], sum) && same_bits(step.row_max[r], row.row_max);
      }));
    }
  });
}

// Of scores that climb or fall steeply, of keys with infinities and queries with NaN, too; and with
// something to add, -inf among it.
TEMPLATE_TEST_CASE("qk_softmax is scores and softmax in one", "[pairs][qk_softmax]", float,
                   double) {
  using Real = TestType;
  for_each_products<Real>(
      sizes(), [](const auto&, const Tested<Real>& tested, Case c, Random& random) {
        if (!tested.plain() && !tested.pairs()) return 0.0;
        constexpr std::size_t kPending = 3;
        c.keys = round_up(c.keys, kPadding);
        Queries<Real> q(tested, c, random, 0.7F, c.pitch);
        const std::int64_t kind = random.integer(0, 3);
        const auto slope = random.pick<Real>({0.5F, 3, 9, 40, 200, -200});
        for (std::size_t j = 0; kind == 0 && j < c.keys; ++j)
          q.key.at(j, 0) = tested.number(random) + slope * static_cast<Real>(j);
        for (std::size_t r = 0; kind == 0 && r < c.pitch; ++r) q.rows.at(r, 0) = r % 3 == 0 ? 0 : 1;
        if (kind == 1) q.key.at(random.bits() % c.keys, 0) = kInf<Real>;
        for (std::size_t r = 0; kind == 1 && r < c.pitch; ++r)
          q.rows.at(r, 0) = static_cast<Real>(random.integer(-1, 1));
        if (kind < 2 && c.features > 2)
          q.rows.at(random.bits() % c.pitch, 2) = not_a_number<Real>();
        q.lay_out();
        auto scores = q.scores();
        const auto addend = filled<Real>(c.keys * c.pitch, [&](std::size_t) {
          return random.integer(0, 7) == 0 ? -kInf<Real> : 3 * random.normal<Real>();
        });
        const bool adds = tested.products.adds && random.integer(0, 1) == 1;
        for (std::size_t i = 0; adds && i < c.keys * c.pitch; ++i) scores[i] += addend[i];
        c.features = 11;  // of the accumulators
        Step<Real> step(c, false, kPending);
        step.draw_state(random);
        step.take(scores);
        const Step<Real> before = step;
        auto state = step.state();
        if (adds) state.addend = addend.data();
        tested.products.qk_softmax(c.vectors, q.view(), c.keys, q.panel.data(), q.c.features,
                                   step.scores(), kPending, state, c.features);
        return check_step(before, step, {true, tested.plain()});
      });
}

// Of the same scores. A weight is rounded as parts are, and what is left of it by the score that it
// comes from and wherever a row_max has moved.
TEST_CASE("attend is qk_softmax and accumulate in one", "[pairs][qk_softmax]") {
  for_each_products<float>(sizes(), [](const auto&, const Tested<float>& tested, Case c,
                                       Random& random) {
    if (tested.products.attend == nullptr) return 0.0;
    c.keys = round_up(c.keys, tested.products.depth);
    Queries<float> q(tested, c, random, 0.7F, c.pitch);
    const auto slope = random.pick<float>({0, 0, 0.5F, 9, 200, -200});
    for (std::size_t j = 0; slope != 0 && j < c.keys; ++j)
      q.key.at(j, 0) = rounded(slope * static_cast<float>(j));
    if (random.integer(0, 3) == 0) q.key.at(random.bits() % c.keys, 0) = kInf<float>;
    for (std::size_t r = 0; r < c.pitch; ++r)
      q.rows.at(r, 0) = static_cast<float>(random.integer(-1, 1));
    q.lay_out();
    const Buffer scores = q.scores();

    const Values<float> v(tested, c, random);
    Case state = c;
    state.features = round_up(c.features, kPadding);
    Step<float> step(state, random.integer(0, 1) == 0, 0);
    if (!step.fresh) step.draw_state(random);
    const Step<float> before = step;
    tested.products.attend(c.vectors, q.view(), c.keys, q.panel.data(), c.features, v.view(),
                           c.features, step.state(), state.features);
    CHECK((step.row_max.intact() && step.sum.intact() && step.accumulators.intact()));

    const double rounding = tested.pairs() ? 0x1p-8 : left_out<double>(tested.parts);
    const auto moves = static_cast<double>(c.keys / tested.products.depth + 1);
    return worst_of(c.features + 1, c.pitch, [&](std::size_t x, std::size_t r) {
      const bool of_sum = x == c.features;
      const double row_max = step.row_max[r];
      for (std::size_t j = 0; j < c.keys; ++j)
        if (std::isnan(scores[j * c.pitch + r])) return 0.0;  // of an infinity and 0
      double want = 0;
      double bound = 0;
      const double terms = gamma_of(4 * static_cast<double>(c.keys) + 8);
      const auto add = [&](double exponent, double off, double term) {
        const double all = std::exp2(exponent) * term;
        want += all;
        bound +=
            std::fabs(all) *
                (std::expm1(kUnit * (kLn2 * std::min(off, 0x1p20) + 8 + 3 * moves)) + rounding) *
                (1 + terms) +
            std::fabs(all) * terms + kSmallestOf<float> * (std::fabs(term) + 1) * moves;
      };
      if (of_sum || !before.fresh)
        add(before.row_max[r] - row_max, std::fabs(before.row_max[r] - row_max),
            of_sum ? before.sum[r] : before.accumulators[x * c.pitch + r]);
      for (std::size_t j = 0; j < c.keys; ++j) {
        const double score = std::min(scores[j * c.pitch + r], kMax<float>);
        if (score > row_max + kThreshold + 1e-6 * std::fabs(score)) return kInf<double>;
        add(score - row_max, 2 * std::fabs(score) + std::fabs(score - row_max) + 256 * moves,
            of_sum ? 1 : v.value.at(j, x));
      }
      return error_ratio<float>(of_sum ? step.sum[r] : step.accumulators[x * c.pitch + r], want,
                                bound);
    });
  });
}

// Their difference is rounded once: what is whole is taken off exactly. A score of -inf has no
// gradient, whatever that of its probability and delta are; rows whose log-sum-exp is +inf have
// none either, and of NaN all are NaN.
TEMPLATE_TEST_CASE("softmax_gradient gives probabilities, and gradients of scores",
                   "[softmax_gradient]", float, double) {
  using Real = TestType;
  static const std::vector<Real> special = {not_a_number<Real>(), kInf<Real>, -kInf<Real>};
  for_each_case<Real>(tiles(), [](const auto& kernels, const Case& c, Random& random) {
    // The whole part is 0, as of the order of a probability, or as large as it may be.
    const std::vector<std::int64_t> mosts = {0, 200, static_cast<std::int64_t>(heed::kMostWhole)};
    const auto whole = filled<Real>(c.pitch, [&] {
      const std::int64_t most = random.pick(mosts);
      return static_cast<Real>(random.integer(-most, most));
    });
    const auto rest = filled<Real>(c.pitch, [&] {
      const std::int64_t kind = random.integer(0, 19);
      return kind == 0 ? kInf<Real> : kind == 1 ? not_a_number<Real>() : 20 * random.normal<Real>();
    });
    const auto delta = filled<Real>(c.pitch, [&] {
      return random.integer(0, 9) == 0 ? not_a_number<Real>() : random.normal<Real>();
    });
    auto gradients = normals<Real>(c.keys * c.pitch, random);
    auto scores = filled<Real>(c.keys * c.pitch, [&](std::size_t i) {
      const std::int64_t kind = random.integer(0, 9);
      const Real lse =
          whole[i % c.pitch] + (std::isfinite(rest[i % c.pitch]) ? rest[i % c.pitch] : 0);
      return kind == 0 ? -kInf<Real>
                       : lse + 1 - (kind == 1 ? 3000 : 30) * static_cast<Real>(1 - random.unit());
    });
    for (std::size_t i = 0; i < scores.size(); ++i)
      if (scores[i] == -kInf<Real>) gradients[i] = random.pick(special);
    const auto scores_before = scores, gradients_before = gradients;
    kernels.panels.softmax_gradient(c.vectors, scores.data(), c.keys, whole.data(), rest.data(),
                                    delta.data(), gradients.data());
    CHECK((scores.intact() && gradients.intact() && whole.intact() && rest.intact() &&
           delta.intact()));
    return worst_of(c.keys, c.pitch, [&](std::size_t j, std::size_t r) {
      const std::size_t at = j * c.pitch + r;
      const Real probability = scores[at], gradient = gradients[at];
      if (std::isnan(rest[r]))
        return wrong_unless(scores_before[at] == -kInf<Real> ||
                            (std::isnan(probability) && std::isnan(gradient)));
      const Real from_rest = scores_before[at] - rest[r];
      if (from_rest == -kInf<Real> && (scores_before[at] == -kInf<Real> || !std::isnan(delta[r])))
        return wrong_unless(probability == 0 && gradient == 0);
      const Weight<Real> weight(from_rest, whole[r], weight_error<Real>(0));
      // The probability that is there, times a difference: two roundings.
      const Wide<Real> want =
          probability * (static_cast<Wide<Real>>(gradients_before[at]) - delta[r]);
      return std::max(weight.ratio(probability),
                      error_ratio(gradient, want,
                                  gamma_of<Real>(2) * std::fabs(want) + 2 * kUnderflowOf<Real>));
    });
  });
}

// Of the same scores, which are not rounded before their log-sum-exp is taken off.
TEST_CASE("score_gradients is scores, softmax_gradient and rounding in one", "[pairs]") {
  for_each_products<float>(sizes(), [](const auto&, const Tested<float>& tested, Case c,
                                       Random& random) {
    if (tested.products.score_gradients == nullptr) return 0.0;
    c.keys = round_up(c.keys, tested.products.depth);
    Queries<float> q(tested, c, random, 0.7F, c.pitch);
    const auto slope = random.pick<float>({0, 0, 9, 200});
    for (std::size_t j = 0; slope != 0 && j < c.keys; ++j)
      q.key.at(j, 0) = rounded(slope * static_cast<float>(j));
    q.lay_out();
    const Buffer scores = q.scores();
    Case of_values = c;
    of_values.features = static_cast<std::size_t>(random.integer(1, 80));
    const Queries<float> g(tested, of_values, random, 1, c.pitch);
    const Buffer grads = g.scores();
    // Relative to a log-sum-exp that is not below any score; some rows attend nothing.
    Buffer whole(c.pitch), rest(c.pitch);
    const auto delta = normals<float>(c.pitch, random);
    for (std::size_t r = 0; r < c.pitch; ++r) {
      float top = scores[r];
      for (std::size_t j = 1; j < c.keys; ++j) top = std::max(top, scores[j * c.pitch + r]);
      top += 4 * static_cast<float>(random.unit());
      whole[r] = std::nearbyint(top);
      rest[r] = random.integer(0, 9) == 0 ? kInf<float> : top - whole[r];
    }
    const std::size_t pitch = c.pitch + static_cast<std::size_t>(random.integer(0, 2)) * 16;
    constexpr std::uint16_t kUntouched = 0x5a5a;
    std::vector<std::uint16_t> probs(c.keys * pitch, kUntouched), gradients = probs;
    Buffer paired(c.keys / 2 * c.pitch);
    tested.products.score_gradients(c.vectors, q.view(), g.view(), c.keys,
                                    {q.panel.data(), c.features, g.panel.data(), of_values.features,
                                     whole.data(), rest.data(), delta.data()},
                                    {probs.data(), gradients.data(), pitch, paired.data()});
    CHECK(paired.intact());
    const double u = kUnitOf<float>;
    return worst_of(c.keys, pitch, [&](std::size_t j, std::size_t r) {
      const std::uint16_t prob = probs[j * pitch + r], gradient = gradients[j * pitch + r];
      if (r >= c.pitch) return wrong_unless(prob == kUntouched && gradient == kUntouched);
      std::uint16_t pair[2];
      std::memcpy(pair, paired.data() + j / 2 * c.pitch + r, sizeof pair);
      if (pair[j % 2] != gradient) return kInf<double>;
      const double score = scores[j * c.pitch + r];
      const double from_whole = score - whole[r];
      const double want = std::exp2(from_whole - rest[r]);
      const double off = std::fabs(score) + std::fabs(from_whole) +
                         (std::isinf(rest[r]) ? 0 : std::fabs(from_whole - rest[r]));
      const double relative = std::expm1(u * kLn2 * off) + 5e-6 + 0x1p-8;
      const double difference = static_cast<double>(grads[j * c.pitch + r]) - delta[r];
      const auto ratio = [&](std::uint16_t got, double expected, double error) {
        return error_ratio<float>(half_of(real_of<float>(got), 0), expected,
                                  std::fabs(expected) * error + 2 * kSmallestOf<float>);
      };
      return std::max(ratio(prob, want, relative),
                      ratio(gradient, want * difference, relative + 2 * u));
    });
  });
}

// Exact: a pair is dropped or times the factor, and the sum of what is dropped is in any order.
TEMPLATE_TEST_CASE("drop takes out the pairs that the oracle does, wherever the keys begin",
                   "[drop]", float, double) {
  using Real = TestType;
  for_each_case<Real>(tiles(), [](const auto& kernels, const Case& c, Random& random) {
    std::vector<std::uint32_t> rows(c.pitch), heads(c.pitch);
    for (std::uint32_t& row : rows) row = static_cast<std::uint32_t>(random.bits());
    for (std::uint32_t& head : heads) head = static_cast<std::uint32_t>(random.integer(0, 40));
    const auto seed = random.bits(), offset = random.bits();
    const double dropout = random.pick<double>({0.1, 0.5, 0.002, 0.998});
    const heed::DropoutMask mask(heed::resolve_dropout("dropout", dropout), seed, offset);
    const std::uint64_t first = random.bits() >> random.integer(29, 63);
    const heed::DroppedPairs pairs = {
        {mask.key[0], mask.key[1]}, mask.threshold, 5, rows.data(), heads.data(), first};
    heed::KeyRanges ranges = heed::all_keys(c.keys);
    for (std::size_t w = 1; w < c.vectors; ++w)
      ranges.begin[w] = std::min(ranges.begin[w - 1] + random.bits() % 5, ranges.end[0]);
    const auto from = normals<Real>(c.keys * c.pitch, random);
    auto to = filled<Real>(c.keys * c.pitch, [] { return Real{7}; });
    auto dropped = filled<Real>(c.pitch, [] { return Real{1}; });
    kernels.panels.drop(c.vectors, pairs, ranges, from.data(), 3, to.data(), dropped.data());
    CHECK((to.intact() && dropped.intact()));
    for (std::size_t r = 0; r < c.pitch; ++r) {
      Wide<Real> sum = 1, sizes = 1;
      for (std::size_t j = 0; j < c.keys; ++j) {
        const std::size_t at = j * c.pitch + r;
        const bool needed = needs(ranges, r * c.vectors / c.pitch, j);
        const bool falls = is_dropped(dropout, seed, offset, 5, heads[r], rows[r],
                                      static_cast<std::int64_t>(first + j));
        if (needed && falls) sum += from[at], sizes += std::fabs(from[at]);
        const Real want = !needed ? 7 : falls ? 0 : from[at] * 3;
        if (to[at] != want) FAIL("key " << j << " row " << r << " is " << to[at]);
      }
      CHECK(std::fabs(dropped[r] - sum) <= gamma_of<Real>(static_cast<double>(c.keys)) * sizes);
    }
    auto alone = from;
    kernels.panels.drop(c.vectors, pairs, ranges, alone.data(), 3, alone.data(), nullptr);
    for (std::size_t at = 0; at < to.size(); ++at)
      if (to[at] != 7 && alone[at] != to[at]) FAIL("in place, number " << at);
  });
}
