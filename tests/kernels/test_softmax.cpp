// softmax: one step of online softmax against its definition in a wider type.
//
// What is expected of a row, from the state before it: the row_max stays unless the largest
// score exceeds it by more than 8, then it becomes that score (the largest finite number for +inf);
// sum and accumulators are multiplied by exp2(old - new); weights are exp2(score - row_max)
// and the sum grows by them.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

constexpr int kThreshold = 8;

/// A distance, in log2 units, beyond which nothing is left of a weight.
template <class Real>
constexpr int kFar = 24 - kSmallestExponentOf<Real>;

/// A panel's scores and state.
template <class Real>
struct Step {
  Step(std::size_t key_count, std::size_t feature_count, std::size_t vector_count,
       std::size_t lanes, bool is_fresh)
      : keys(key_count),
        features(feature_count),
        vectors(vector_count),
        pitch(vector_count * lanes),
        fresh(is_fresh),
        scores(key_count * pitch),
        row_max(pitch),
        sum(pitch),
        accumulators(round_up(feature_count, heed::PanelGeometry::row_padding) * pitch) {
    for (std::size_t r = 0; r < pitch; ++r) {
      row_max[r] = heed::kNoRowMax<Real>;
      sum[r] = 0;
    }
  }

  void run(const Table<Real>& kernels) { run(kernels, heed::all_keys(keys)); }
  void run(const Table<Real>& kernels, const heed::KeyRanges& ranges) {
    const heed::RowState<Real> state = {row_max.data(), sum.data(), accumulators.data(), fresh};
    kernels.panels.softmax(vectors, scores.data(), ranges, 0, state, features);
  }

  bool intact() const {
    return scores.intact() && row_max.intact() && sum.intact() &&
           accumulators.intact_from(fresh ? 0 : features * pitch);
  }

  std::size_t keys, features, vectors, pitch;
  bool fresh;
  BasicBuffer<Real> scores, row_max, sum, accumulators;
};

/// What is off by a factor 1 + error, and then rounded once more, is off by this.
template <class Real>
Wide<Real> and_rounded(Wide<Real> error) {
  return error + (1 + error) * kUnitOf<Real>;
}

/// 2^(x - row_max) as heed computes it is off by one rounding of the difference and 1 ULP.
/// Where nothing is left, any number does.
template <class Real>
Wide<Real> exp2_error(Wide<Real> difference) {
  constexpr Wide<Real> kRounding = kUnitOf<Real>;
  const Wide<Real> distance = std::min(std::fabs(difference), Wide<Real>{8 * kFar<Real>});
  return std::exp2(kRounding * distance) * (1 + 2 * kRounding) - 1;
}

template <class Real>
Real moved_row_max(const Step<Real>& before, std::size_t r) {
  Real largest = -kInf<Real>;
  for (std::size_t j = 0; j < before.keys; ++j)
    largest = std::max(largest, before.scores[j * before.pitch + r]);
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
  for (std::size_t j = 0; j < before.keys; ++j) {
    const Wide<Real> score = std::min(before.scores[j * before.pitch + r], kMax<Real>);
    const Wide<Real> difference = score - row_max;
    const Wide<Real> weight = std::exp2(difference);
    const Wide<Real> error = weight * exp2_error<Real>(difference);
    const Wide<Real> flush = difference < kSmallestExponentOf<Real> + 1 ? kSmallestOf<Real> : 0;
    const Real got = after.scores[j * before.pitch + r];
    worst = std::max(worst, error_ratio(got, weight, weight == 0 ? 0 : error + flush));
    sum += weight;
    bound += error + flush;
  }
  bound += gamma_of<Real>(static_cast<Wide<Real>>(before.keys)) * (sum + bound);
  return std::max(worst, error_ratio(after.sum[r], sum, bound));
}

template <class Real>
double check_accumulators(const Step<Real>& before, const Step<Real>& after, std::size_t r,
                          Wide<Real> factor, Wide<Real> factor_error) {
  double worst = 0;
  for (std::size_t x = 0; x < before.features && !before.fresh; ++x) {
    const Real old = before.accumulators[x * before.pitch + r];
    const Wide<Real> want = old * factor;
    const Wide<Real> flush = factor < 2 * kSmallestOf<Real> ? kSmallestOf<Real> : 0;
    const Wide<Real> bound = std::fabs(want) * and_rounded<Real>(factor_error) +
                             std::fabs(old) * flush + kUnderflowOf<Real>;
    const Real got = after.accumulators[x * before.pitch + r];
    // A row that keeps its row_max keeps its bits.
    worst = std::max(
        worst, factor == 1 ? (same_bits(got, old) ? 0 : HUGE_VAL) : error_ratio(got, want, bound));
  }
  return worst;
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
  step.run(kernels);
  double worst = 0;
  for (std::size_t r = 0; r < step.pitch; ++r) worst = std::max(worst, check_row(before, step, r));
  CHECK(step.intact());
  CHECK(worst <= 1);
  return worst;
}

/// Scores of the next step: rows whose maximum stays, creeps up below the threshold, jumps
/// past it, or falls, far and near.
template <class Real>
void draw_scores(Step<Real>& step, Random& random) {
  constexpr Real kShift[] = {0, 3, 6, 9, 20, kFar<Real>, -5, -kFar<Real> - 50};
  for (std::size_t r = 0; r < step.pitch; ++r) {
    const Real base = step.row_max[r] == heed::kNoRowMax<Real> ? 0 : step.row_max[r];
    const Real shift = kShift[random.integer(0, 7)];
    for (std::size_t j = 0; j < step.keys; ++j) {
      const bool excluded = random.integer(0, 9) == 0;
      step.scores[j * step.pitch + r] =
          excluded ? -kInf<Real> : base + shift + 2 * random.normal<Real>();
    }
  }
}

/// A state in which every row has seen something.
template <class Real>
Step<Real> seen_step(const Table<Real>& kernels, std::size_t keys, std::size_t features,
                     std::size_t vectors, Random& random) {
  Step<Real> step(keys, features, vectors, kernels.panels.lanes, false);
  for (std::size_t r = 0; r < step.pitch; ++r) {
    step.row_max[r] = 10 * random.normal<Real>();
    step.sum[r] = 1 + static_cast<Real>(random.unit());
  }
  for (std::size_t i = 0; i < features * step.pitch; ++i)
    step.accumulators[i] = random.normal<Real>();
  return step;
}

/// A step of three keys in which every row has the same scores.
template <class Real>
Step<Real> uniform_step(const Table<Real>& kernels, std::size_t vectors, const Real (&scores)[3]) {
  Step<Real> step(3, 8, vectors, kernels.panels.lanes, true);
  for (std::size_t i = 0; i < 3 * step.pitch; ++i) step.scores[i] = scores[i / step.pitch];
  return step;
}

template <class Real>
bool all_equal(const BasicBuffer<Real>& buffer, std::size_t begin, std::size_t end, Real want) {
  bool equal = true;
  for (std::size_t i = begin; i < end; ++i) equal = equal && same_bits(buffer[i], want);
  return equal;
}

/// Runs a uniform step and compares every row's weights.
template <class Real>
void check_uniform(const Table<Real>& kernels, const Real (&scores)[3], const Real (&weights)[3]) {
  for (std::size_t vectors = 1; vectors <= 3; ++vectors) {
    INFO("vectors " << vectors << ", scores " << scores[0] << " " << scores[1] << " " << scores[2]);
    Step<Real> step = uniform_step(kernels, vectors, scores);
    step.run(kernels);
    CHECK(step.intact());
    for (std::size_t j = 0; j < 3; ++j)
      CHECK(all_equal(step.scores, j * step.pitch, (j + 1) * step.pitch, weights[j]));
    CHECK(all_equal(step.sum, 0, step.pitch, weights[0] + weights[1] + weights[2]));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("softmax follows its definition over several steps", "[softmax]", float,
                   double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    double worst = 0;
    sweep([&](const Case& c, Random& random) {
      if (!c.unit) return;  // no strides here
      Step<TestType> first(c.keys, c.features, c.vectors, kernels.panels.lanes, true);
      draw_scores(first, random);
      worst = std::max(worst, check_step(kernels, first));
      Step<TestType> next = seen_step(kernels, c.keys, c.features, c.vectors, random);
      for (int i = 0; i < 3; ++i) {
        draw_scores(next, random);
        worst = std::max(worst, check_step(kernels, next));
      }
    });
    report("softmax", kernels, worst);
  });
}

TEMPLATE_TEST_CASE("softmax rescales pending weights as accumulators", "[softmax]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    sweep_tiles([&](std::size_t keys, std::size_t vectors, Random& random) {
      constexpr std::size_t kPending = 8;
      Step<TestType> step = seen_step(kernels, keys, kPending, vectors, random);
      draw_scores(step, random);
      const std::size_t before = kPending * step.pitch;
      BasicBuffer<TestType> tile(before + keys * step.pitch);
      for (std::size_t i = 0; i < before; ++i) tile[i] = step.accumulators[i];
      for (std::size_t i = 0; i < keys * step.pitch; ++i) tile[before + i] = step.scores[i];
      Step<TestType> with_pending = step;
      step.run(kernels);
      const heed::RowState<TestType> state = {with_pending.row_max.data(), with_pending.sum.data(),
                                              with_pending.accumulators.data(), false};
      kernels.panels.softmax(vectors, tile.data() + before, heed::all_keys(keys), kPending, state,
                             kPending);
      bool equal = true;
      for (std::size_t i = 0; i < before; ++i)
        equal = equal && same_bits(tile[i], step.accumulators[i]);
      for (std::size_t i = 0; i < keys * step.pitch; ++i)
        equal = equal && same_bits(tile[before + i], step.scores[i]);
      CHECK(equal);
      CHECK(tile.intact());
      CHECK(same_bits(with_pending.accumulators, step.accumulators, 0, before));
      CHECK(same_bits(with_pending.row_max, step.row_max, 0, step.pitch));
      CHECK(same_bits(with_pending.sum, step.sum, 0, step.pitch));
    });
  });
}

TEMPLATE_TEST_CASE("softmax takes keys that a vector does not need as excluded", "[softmax]", float,
                   double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    sweep_tiles([&](std::size_t keys, std::size_t vectors, Random& random) {
      constexpr std::size_t kFeatures = 8;
      Step<TestType> step = seen_step(kernels, keys, kFeatures, vectors, random);
      draw_scores(step, random);
      const heed::KeyRanges ranges = draw_ranges(keys, vectors, random);
      const auto needed = [&](std::size_t i) {
        return needs(ranges, i % step.pitch / kernels.panels.lanes, i / step.pitch);
      };
      Step<TestType> excluded = step;
      for (std::size_t i = 0; i < keys * step.pitch; ++i) {
        if (needed(i)) continue;
        excluded.scores[i] = -kInf<TestType>;
        step.scores[i] = not_a_number<TestType>();
      }
      excluded.run(kernels);
      step.run(kernels, ranges);
      bool equal = true;
      for (std::size_t i = 0; i < keys * step.pitch; ++i)
        equal = equal && (needed(i) ? same_bits(step.scores[i], excluded.scores[i])
                                    : std::isnan(step.scores[i]));
      CHECK(equal);
      CHECK(step.intact());
      CHECK(same_bits(step.row_max, excluded.row_max, 0, step.pitch));
      CHECK(same_bits(step.sum, excluded.sum, 0, step.pitch));
      CHECK(same_bits(step.accumulators, excluded.accumulators, 0, kFeatures * step.pitch));
    });
  });
}

TEMPLATE_TEST_CASE("softmax moves a row_max only past the threshold", "[softmax]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (std::size_t vectors = 1; vectors <= 3; ++vectors) {
      for (std::size_t row = 0; row < vectors * kernels.panels.lanes; ++row) {
        for (const TestType rise :
             {TestType{kThreshold}, std::nextafter(TestType{kThreshold}, kInf<TestType>)}) {
          INFO("vectors " << vectors << " row " << row << " rise " << rise);
          Random random(row + 1);
          Step<TestType> step = seen_step(kernels, 5, 20, vectors, random);
          for (std::size_t r = 0; r < step.pitch; ++r) step.row_max[r] = 0;
          for (std::size_t i = 0; i < 5 * step.pitch; ++i)
            step.scores[i] = random.normal<TestType>();
          step.scores[2 * step.pitch + row] = rise;
          check_step(kernels, step);
          CHECK(step.row_max[row] == (rise > kThreshold ? rise : 0));
        }
      }
    }
  });
}

TEMPLATE_TEST_CASE("softmax of a row without scores leaves it as it was", "[softmax]", float,
                   double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    constexpr TestType inf = kInf<TestType>;
    check_uniform<TestType>(kernels, {-inf, -inf, -inf}, {0, 0, 0});
    for (std::size_t vectors = 1; vectors <= 3; ++vectors) {
      Step<TestType> step = uniform_step<TestType>(kernels, vectors, {-inf, -inf, -inf});
      step.run(kernels);
      CHECK(all_equal(step.row_max, 0, step.pitch, heed::kNoRowMax<TestType>));
    }
  });
}

TEMPLATE_TEST_CASE("softmax shares the weight among scores of +inf", "[softmax]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    constexpr TestType inf = kInf<TestType>;
    check_uniform<TestType>(kernels, {inf, 1, inf}, {1, 0, 1});
    check_uniform<TestType>(kernels, {-inf, inf, 1e38F}, {0, 1, 0});
    check_uniform<TestType>(kernels, {inf, inf, inf}, {1, 1, 1});
  });
}

TEMPLATE_TEST_CASE("softmax of +inf forgets what was seen before, and only that row's", "[softmax]",
                   float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    constexpr TestType inf = kInf<TestType>;
    for (std::size_t vectors = 1; vectors <= 3; ++vectors) {
      for (std::size_t row = 0; row < vectors * kernels.panels.lanes; ++row) {
        INFO("vectors " << vectors << " row " << row);
        Random random(row + 1);
        Step<TestType> step = seen_step(kernels, 6, 24, vectors, random);
        draw_scores(step, random);
        step.scores[3 * step.pitch + row] = inf;
        check_step(kernels, step);
        CHECK(step.sum[row] == 1);
        draw_scores(step, random);  // and +inf once more, beside a row_max at the largest number
        for (std::size_t j = 0; j < 6; ++j) step.scores[j * step.pitch + row] = j == 5 ? inf : 0;
        step.run(kernels);
        CHECK(step.sum[row] == 2);
        CHECK(step.row_max[row] == kMax<TestType>);
      }
    }
  });
}

TEMPLATE_TEST_CASE("softmax handles the largest and smallest finite scores", "[softmax]", float,
                   double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    constexpr TestType inf = kInf<TestType>;
    constexpr TestType max = kMax<TestType>;
    check_uniform<TestType>(kernels, {max, -max, 0}, {1, 0, 0});
    check_uniform<TestType>(kernels, {-max, -max, -max}, {1, 1, 1});
    check_uniform<TestType>(kernels, {-inf, 1e30F, 1e30F}, {0, 1, 1});
    check_uniform<TestType>(kernels, {-1e30F, -inf, -2e30F}, {1, 0, 0});
  });
}

TEMPLATE_TEST_CASE("softmax with a NaN makes that row NaN, and no other", "[softmax]", float,
                   double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (std::size_t vectors = 1; vectors <= 3; ++vectors) {
      const std::size_t pitch = vectors * kernels.panels.lanes;
      for (std::size_t at = 0; at < 7 * pitch; ++at) {
        const std::size_t row = at % pitch;
        INFO("vectors " << vectors << " key " << at / pitch << " row " << row);
        Random random(row + 1);
        Step<TestType> step = seen_step(kernels, 7, 8, vectors, random);
        draw_scores(step, random);
        Step<TestType> with_nan = step;
        with_nan.scores[at] = not_a_number<TestType>();
        step.run(kernels);
        with_nan.run(kernels);
        bool others = true;
        for (std::size_t r = 0; r < pitch; ++r)
          others = others && (r == row || same_bits(step.sum[r], with_nan.sum[r]));
        CHECK(others);
        CHECK(std::isnan(with_nan.sum[row]));
        CHECK(std::isnan(with_nan.scores[at]));
      }
    }
  });
}
