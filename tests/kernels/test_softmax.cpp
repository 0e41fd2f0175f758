// softmax: one step of online softmax against its definition in a wider type.
//
// What is expected of a row, from the state before it: the row_max stays unless the largest
// score exceeds it by more than 8, then it becomes that score (the largest finite number for +inf);
// sum and accumulators are multiplied by exp2(old - new); weights are exp2(score - row_max)
// and the sum grows by them.
#include "tests/kernels/softmax.hpp"

using namespace heed_test;

namespace {

constexpr int kThreshold = 8;

/// What is off by a factor 1 + error, and then rounded once more, is off by this.
template <class Real>
Wide<Real> and_rounded(Wide<Real> error) {
  return error + (1 + error) * kUnitOf<Real>;
}

template <class Real>
Real moved_row_max(const Step<Real>& before, std::size_t r) {
  Real largest = -kInf<Real>;
  for (std::size_t j = 0; j < before.c.keys; ++j)
    largest = std::max(largest, before.scores[j * before.c.pitch + r]);
  const Real old = before.row_max[r];
  return largest > old + kThreshold ? std::min(largest, kMax<Real>) : old;
}

/// The row's weights and their sum; returns the worst error / bound.
template <class Real>
double check_weights(const Step<Real>& before, const Step<Real>& after, std::size_t r, Real row_max,
                     Wide<Real> factor, Wide<Real> factor_error) {
  double worst = 0;
  const Wide<Real> kept = before.sum[r] * factor;
  Wide<Real> sum = kept;
  Wide<Real> bound = kept * and_rounded<Real>(factor_error) + 512 * kSmallestOf<Real>;
  for (std::size_t i = r; i < before.scores.size(); i += before.c.pitch) {
    const Weight<Real> weight(before.scores[i], row_max);
    worst = std::max(worst, weight.ratio(after.scores[i]));
    sum += weight.value;
    bound += weight.bound;
  }
  bound += gamma_of<Real>(static_cast<Wide<Real>>(before.c.keys)) * (sum + bound);
  return std::max(worst, error_ratio(after.sum[r], sum, bound));
}

template <class Real>
double check_accumulators(const Step<Real>& before, const Step<Real>& after, std::size_t r,
                          Wide<Real> factor, Wide<Real> factor_error) {
  if (before.fresh) return 0;
  return worst_of(before.c.features, 1, [&](std::size_t x, std::size_t) {
    const Real old = before.accumulators[x * before.c.pitch + r];
    const Real got = after.accumulators[x * before.c.pitch + r];
    // A row that keeps its row_max keeps its bits.
    if (factor == 1) return wrong_unless(same_bits(got, old));
    const Wide<Real> want = old * factor;
    const Wide<Real> flush = factor < 2 * kSmallestOf<Real> ? kSmallestOf<Real> : 0;
    return error_ratio(got, want,
                       std::fabs(want) * and_rounded<Real>(factor_error) + std::fabs(old) * flush +
                           kUnderflowOf<Real>);
  });
}

template <class Real>
double check_row(const Step<Real>& before, const Step<Real>& after, std::size_t r) {
  const Real row_max = moved_row_max(before, r);
  if (!same_bits(after.row_max[r], row_max)) return HUGE_VAL;
  const Wide<Real> difference = static_cast<Wide<Real>>(before.row_max[r]) - row_max;
  const Wide<Real> factor = std::exp2(difference);
  const Wide<Real> error = difference == 0 ? 0 : exp2_error<Real>(difference);
  return std::max(check_weights(before, after, r, row_max, factor, error),
                  check_accumulators(before, after, r, factor, error));
}

template <class Real>
double check_step(const Table<Real>& kernels, Step<Real>& step) {
  const Step<Real> before = step;
  step.softmax(kernels);
  const double worst = worst_of(
      step.c.pitch, 1, [&](std::size_t r, std::size_t) { return check_row(before, step, r); });
  CHECK(step.intact());
  CHECK(worst <= 1);
  return worst;
}

/// Scores of the next step: rows whose maximum stays, creeps up below the threshold, jumps
/// past it, or falls, far and near.
template <class Real>
void draw_scores(Step<Real>& step, Random& random) {
  constexpr Real kShift[] = {0, 3, 6, 9, 20, kFar<Real>, -5, -kFar<Real> - 50};
  for (std::size_t r = 0; r < step.c.pitch; ++r) {
    const Real base = step.row_max[r] == heed::kNoRowMax<Real> ? 0 : step.row_max[r];
    const Real shift = kShift[random.integer(0, 7)];
    for (std::size_t i = r; i < step.scores.size(); i += step.c.pitch) {
      const bool excluded = random.integer(0, 9) == 0;
      step.scores[i] = excluded ? -kInf<Real> : base + shift + 2 * random.normal<Real>();
    }
  }
}

/// A step whose rows have all seen something.
template <class Real>
Step<Real> seen_step(const Case& c, Random& random) {
  Step<Real> step(c, false);
  step.row_max.fill([&] { return 10 * random.normal<Real>(); });
  step.sum.fill([&] { return 1 + static_cast<Real>(random.unit()); });
  for (std::size_t i = 0; i < c.features * c.pitch; ++i)
    step.accumulators[i] = random.normal<Real>();
  draw_scores(step, random);
  return step;
}

}  // namespace

TEMPLATE_TEST_CASE("softmax follows its definition over several steps", "[softmax]", float,
                   double) {
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    if (!c.unit) return 0.0;  // no strides here
    Step<TestType> first(c, true);
    draw_scores(first, random);
    double worst = check_step(kernels, first);
    auto next = seen_step<TestType>(c, random);
    for (int i = 0; i < 3; ++i) {
      worst = std::max(worst, check_step(kernels, next));
      draw_scores(next, random);
    }
    return worst;
  });
}

TEMPLATE_TEST_CASE("softmax rescales pending weights as accumulators", "[softmax]", float, double) {
  constexpr std::size_t kPending = 8;
  for_each_case<TestType>(tiles(kPending), [](const auto& kernels, const Case& c, Random& random) {
    auto step = seen_step<TestType>(c, random);
    Step<TestType> with_pending = step;
    const std::size_t before = kPending * c.pitch;
    auto tile = filled<TestType>(before + c.keys * c.pitch, [&](std::size_t i) {
      return i < before ? step.accumulators[i] : step.scores[i - before];
    });
    step.softmax(kernels);
    kernels.panels.softmax(c.vectors, tile.data() + before, heed::all_keys(c.keys), kPending,
                           with_pending.state(), kPending);
    CHECK(all(tile.size(), [&](std::size_t i) {
      return same_bits(tile[i], i < before ? step.accumulators[i] : step.scores[i - before]);
    }));
    CHECK(tile.intact());
    CHECK(with_pending.same_state(step));
  });
}

TEMPLATE_TEST_CASE("softmax takes keys that a vector does not need as excluded", "[softmax]", float,
                   double) {
  for_each_case<TestType>(tiles(8), [](const auto& kernels, const Case& c, Random& random) {
    auto step = seen_step<TestType>(c, random);
    const heed::KeyRanges ranges = draw_ranges(c.keys, c.vectors, random);
    const auto needed = [&](std::size_t i) {
      return needs(ranges, i % c.pitch / kernels.panels.lanes, i / c.pitch);
    };
    Step<TestType> excluded = step;
    for (std::size_t i = 0; i < step.scores.size(); ++i) {
      if (needed(i)) continue;
      excluded.scores[i] = -kInf<TestType>;
      step.scores[i] = not_a_number<TestType>();
    }
    excluded.softmax(kernels);
    step.softmax(kernels, ranges);
    CHECK(all(step.scores.size(), [&](std::size_t i) {
      return needed(i) ? same_bits(step.scores[i], excluded.scores[i]) : std::isnan(step.scores[i]);
    }));
    CHECK(step.intact());
    CHECK(step.same_state(excluded));
  });
}

TEMPLATE_TEST_CASE("softmax moves a row_max only past the threshold", "[softmax]", float, double) {
  constexpr TestType threshold = kThreshold;
  for_each_case<TestType>(panels(20, 5), [](const auto& kernels, const Case& c, Random& random) {
    for (std::size_t row = 0; row < c.pitch; ++row)
      for (const TestType rise : {threshold, std::nextafter(threshold, kInf<TestType>)}) {
        INFO("row " << row << " rise " << rise);
        auto step = seen_step<TestType>(c, random);
        step.row_max.fill([] { return TestType{0}; });
        step.scores.fill([&] { return random.normal<TestType>(); });
        step.scores[2 * c.pitch + row] = rise;
        check_step(kernels, step);
        CHECK(step.row_max[row] == (rise > threshold ? rise : 0));
      }
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
      Step<TestType> step(c, true);
      for (std::size_t i = 0; i < 3 * c.pitch; ++i) step.scores[i] = row.scores[i / c.pitch];
      step.softmax(kernels);
      CHECK(step.intact());
      CHECK(all(3 * c.pitch, [&](std::size_t i) {
        return same_bits(step.scores[i], row.weights[i / c.pitch]);
      }));
      const TestType sum = row.weights[0] + row.weights[1] + row.weights[2];
      CHECK(all(c.pitch, [&](std::size_t r) {
        return same_bits(step.sum[r], sum) && same_bits(step.row_max[r], row.row_max);
      }));
    }
  });
}

TEMPLATE_TEST_CASE("softmax of +inf forgets what was seen before, and only that row's", "[softmax]",
                   float, double) {
  constexpr TestType inf = kInf<TestType>;
  for_each_case<TestType>(panels(24, 6), [](const auto& kernels, const Case& c, Random& random) {
    for (std::size_t row = 0; row < c.pitch; ++row) {
      INFO("row " << row);
      auto step = seen_step<TestType>(c, random);
      step.scores[3 * c.pitch + row] = inf;
      check_step(kernels, step);
      CHECK(step.sum[row] == 1);
      draw_scores(step, random);  // and +inf once more, beside a row_max at the largest number
      for (std::size_t j = 0; j < c.keys; ++j) step.scores[j * c.pitch + row] = j == 5 ? inf : 0;
      step.softmax(kernels);
      CHECK(step.sum[row] == 2);
      CHECK(step.row_max[row] == kMax<TestType>);
    }
  });
}

TEMPLATE_TEST_CASE("softmax with a NaN makes that row NaN, and no other", "[softmax]", float,
                   double) {
  for_each_case<TestType>(panels(8, 7), [](const auto& kernels, const Case& c, Random& random) {
    for (std::size_t at = 0; at < c.keys * c.pitch; ++at) {
      const std::size_t row = at % c.pitch;
      INFO("key " << at / c.pitch << " row " << row);
      auto step = seen_step<TestType>(c, random);
      Step<TestType> with_nan = step;
      with_nan.scores[at] = not_a_number<TestType>();
      step.softmax(kernels);
      with_nan.softmax(kernels);
      CHECK(all(c.pitch, [&](std::size_t r) {
        return r == row || same_bits(step.sum[r], with_nan.sum[r]);
      }));
      CHECK(std::isnan(with_nan.sum[row]));
      CHECK(std::isnan(with_nan.scores[at]));
    }
  });
}
