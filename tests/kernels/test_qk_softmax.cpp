// qk_softmax: scores and softmax in one, against its definition in a wider type.
//
// When row maxima move is the kernel's business. What holds whenever they do: a row_max that
// moved is the score of some key, more than 8 above the old one, and no score is more than 8
// above it; everything summed before, pending weights included, is scaled by exp2(old - new),
// and weights are exp2(score - row_max).
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

constexpr int kThreshold = 8;
constexpr std::size_t kPending = 3;  // rows of weights before the kernel's own
constexpr std::size_t kValues = 11;  // features of the accumulators

/// One call's operands, and what comes of them.
template <class Real>
struct Call {
  Call(const Case& whole, Random& random)
      : c(whole),
        key(c.keys, c.features, c.unit, random, 1),
        panel(normals<Real>(c.features * c.pitch, random)),
        weights((kPending + c.keys) * c.pitch),
        row_max(filled<Real>(c.pitch, [&] { return 3 * random.normal<Real>(); })),
        sum(filled<Real>(c.pitch, [&] { return 1 + static_cast<Real>(random.unit()); })),
        accumulators(normals<Real>(kValues * c.pitch, random)) {
    for (std::size_t i = 0; i < kPending * c.pitch; ++i)
      weights[i] = static_cast<Real>(random.unit());
  }

  void run(const Table<Real>& kernels) {
    const heed::RowState<Real> state = {row_max.data(), sum.data(), accumulators.data(), false};
    kernels.panels.qk_softmax(c.vectors, key.rows(), c.keys, panel.data(), c.features,
                              weights.data() + kPending * c.pitch, kPending, state, kValues);
  }

  /// Adds `slope` per key to the scores of `rows` rows from `first` on, through the first feature,
  /// which others leave out.
  void climb(Real slope, std::size_t first, std::size_t rows) {
    for (std::size_t r = 0; r < c.pitch; ++r) panel[r] = r >= first && r < first + rows ? 1 : 0;
    for (std::size_t j = 0; j < c.keys; ++j) key.at(j, 0) = slope * static_cast<Real>(j);
  }

  bool intact() const {
    return weights.intact() && row_max.intact() && sum.intact() && accumulators.intact();
  }
  /// Whether a row's state and weights are numbers.
  bool finite(std::size_t r) const {
    return std::isfinite(sum[r]) && std::isfinite(row_max[r]) &&
           all(kPending + c.keys,
               [&](std::size_t j) { return std::isfinite(weights[j * c.pitch + r]); });
  }

  Case c;
  Matrix<Real> key;
  BasicBuffer<Real> panel, weights, row_max, sum, accumulators;
};

/// A row's exact scores, and the sums of their terms' magnitudes.
template <class Real>
std::vector<Sum<Real>> scores_of(const Call<Real>& call, std::size_t r) {
  std::vector<Sum<Real>> scores;
  for (std::size_t j = 0; j < call.c.keys; ++j) {
    Sum<Real> sum;
    for (std::size_t x = 0; x < call.c.features; ++x)
      sum.add(call.key.at(j, x), call.panel[x * call.c.pitch + r]);
    scores.push_back(sum);
  }
  return scores;
}

/// Relative error of what was multiplied by exp2(old - new) in at most `keys` moves.
template <class Real>
Wide<Real> scaling_error(Wide<Real> rise, std::size_t keys) {
  if (rise == 0) return 0;
  const Wide<Real> moves = std::min(static_cast<Wide<Real>>(keys), rise / 4);
  return std::expm1(kUnitOf<Real> * (kLn2 * rise + 3 * moves));
}

/// How far a weight's exponent may be off: its score, the row_max it was first relative to
/// (at most `largest` in magnitude), and all moves that followed.
template <class Real>
Wide<Real> weight_error(const Call<Real>& call, Wide<Real> magnitude, Wide<Real> largest,
                        Wide<Real> rise, Wide<Real> distance) {
  const auto d = static_cast<Wide<Real>>(call.c.features);
  const Wide<Real> exponent =
      gamma_of<Real>(d + 1) * (magnitude + largest) + kUnitOf<Real> * (distance + 2 * rise);
  const Wide<Real> moves = std::min(static_cast<Wide<Real>>(call.c.keys), rise / 4);
  return std::expm1(kLn2 * exponent + 3 * kUnitOf<Real> * (moves + 1));
}

/// Whether the row_max is as it may be; `plain` are the scores that `scores` gives.
template <class Real>
bool row_max_is_right(const Call<Real>& before, const Call<Real>& after,
                      const std::vector<Sum<Real>>& scores, const BasicBuffer<Real>& plain,
                      std::size_t r) {
  const Real old = before.row_max[r];
  const Real moved = after.row_max[r];
  const bool above_none = all(scores.size(), [&](std::size_t j) {
    const Wide<Real> slack = gamma_of<Real>(static_cast<Wide<Real>>(before.c.features) + 2) *
                             (scores[j].magnitude + std::fabs(moved) + kThreshold);
    return !(scores[j].value - moved > kThreshold + slack);
  });
  const bool is_score = !all(scores.size(), [&](std::size_t j) {
    return !same_bits(plain[j * before.c.pitch + r], moved);
  });
  return above_none && (same_bits(old, moved) || (is_score && moved > old + kThreshold));
}

template <class Real>
double check_weights(const Call<Real>& before, const Call<Real>& after,
                     const std::vector<Sum<Real>>& scores, std::size_t r) {
  const std::size_t keys = before.c.keys;
  const Wide<Real> row_max = after.row_max[r];
  const Wide<Real> rise = row_max - before.row_max[r];
  const Wide<Real> factor = std::exp2(-rise);
  const Wide<Real> scaling = scaling_error<Real>(rise, keys);
  const Wide<Real> largest = std::max(std::fabs(after.row_max[r]), std::fabs(before.row_max[r]));
  // What is flushed to 0 where a factor or a weight is no normal number; all are below 2^8.
  constexpr Wide<Real> kFlush = 256 * kSmallestOf<Real>;
  Wide<Real> sum = before.sum[r] * factor;
  Wide<Real> bound = sum * scaling;
  double worst = 0;
  const auto check = [&](Real got, Wide<Real> want, Wide<Real> error) {
    worst = std::max(worst, error_ratio(got, want, error + kFlush));
  };
  const auto check_scaled = [&](const BasicBuffer<Real>& old, const BasicBuffer<Real>& now,
                                std::size_t rows) {
    for (std::size_t i = r; i < rows * before.c.pitch; i += before.c.pitch)
      check(now[i], old[i] * factor, std::fabs(old[i] * factor) * scaling);
  };
  check_scaled(before.weights, after.weights, kPending);
  check_scaled(before.accumulators, after.accumulators, kValues);
  for (std::size_t j = 0; j < keys; ++j) {
    const Wide<Real> difference = scores[j].value - row_max;
    const Wide<Real> want = std::exp2(difference);
    const Wide<Real> error =
        want * weight_error(before, scores[j].magnitude, largest, rise, std::fabs(difference));
    check(after.weights[(kPending + j) * before.c.pitch + r], want, error);
    sum += want;
    bound += error + kFlush;
  }
  check(after.sum[r], sum, bound + gamma_of<Real>(static_cast<Wide<Real>>(keys)) * (sum + bound));
  return worst;
}

/// Runs a call; the worst error / bound.
template <class Real>
double check_call(const Table<Real>& kernels, Call<Real>& call) {
  const Call<Real> before = call;
  const Case& c = call.c;
  call.run(kernels);
  BasicBuffer<Real> plain(round_up(c.keys, heed::PanelGeometry::row_padding) * c.pitch);
  kernels.panels.scores(c.vectors, before.key.rows(), heed::all_keys(c.keys), before.panel.data(),
                        c.features, plain.data());
  double worst = 0;
  CHECK(all(c.pitch, [&](std::size_t r) {
    const std::vector<Sum<Real>> scores = scores_of(before, r);
    worst = std::max(worst, check_weights(before, call, scores, r));
    return row_max_is_right(before, call, scores, plain, r);
  }));
  CHECK(worst <= 1);
  CHECK(call.intact());
  return worst;
}

}  // namespace

TEMPLATE_TEST_CASE("qk_softmax is scores and softmax in one", "[qk_softmax]", float, double) {
  for_each_case<TestType>(sizes(), [](const auto& kernels, Case c, Random& random) {
    c.keys = round_up(c.keys, heed::PanelGeometry::row_padding);
    Call<TestType> call(c, random);
    if (c.features > 1 && random.integer(0, 1) == 1)
      call.climb(static_cast<TestType>(random.integer(-3, 3)) * TestType{0.7F}, 0, c.pitch);
    return check_call(kernels, call);
  });
}

TEMPLATE_TEST_CASE("qk_softmax of scores that climb steeply", "[qk_softmax]", float, double) {
  for_each_case<TestType>(panels(5, 40), [](const auto& kernels, const Case& c, Random& random) {
    for (const TestType slope : {0.5F, 3.0F, 9.0F, 40.0F, 200.0F, -200.0F}) {
      INFO("slope " << slope);
      Call<TestType> call(c, random);
      call.climb(slope, 0, c.pitch);
      check_call(kernels, call);
    }
  });
}

TEMPLATE_TEST_CASE("qk_softmax of a row that has seen nothing", "[qk_softmax]", float, double) {
  for_each_case<TestType>(panels(20, 24), [](const auto& kernels, const Case& c, Random& random) {
    Call<TestType> call(c, random);
    call.row_max.fill([] { return heed::kNoRowMax<TestType>; });
    call.sum.fill([] { return TestType{0}; });
    call.run(kernels);
    CHECK(all(c.pitch, [&](std::size_t r) {
      return call.finite(r) && std::fabs(call.row_max[r]) < 100 && call.sum[r] > 0x1p-8;
    }));
  });
}

TEMPLATE_TEST_CASE("qk_softmax: NaN in one row stays there, however another climbs", "[qk_softmax]",
                   float, double) {
  for_each_case<TestType>(panels(6, 16), [](const auto& kernels, const Case& c, Random& random) {
    const std::size_t lanes = kernels.panels.lanes;
    for (const TestType slope : {0.0F, 10.0F, 90.0F})
      for (std::size_t row = 0; row < c.pitch; ++row)
        for (const std::size_t away : {std::size_t{1}, lanes, 2 * lanes}) {
          const std::size_t climber = (row + away) % c.pitch;
          if (climber == row) continue;
          INFO("slope " << slope << " NaN in row " << row << ", climbing row " << climber);
          Call<TestType> call(c, random);
          call.climb(slope, climber, 1);
          call.panel[2 * c.pitch + row] = not_a_number<TestType>();
          call.run(kernels);
          CHECK((std::isnan(call.sum[row]) &&
                 all(c.pitch, [&](std::size_t r) { return r == row || call.finite(r); })));
        }
  });
}

TEMPLATE_TEST_CASE("qk_softmax: an infinite key gives +inf, -inf and NaN to each row as it is due",
                   "[qk_softmax]", float, double) {
  for_each_case<TestType>(panels(1, 16), [](const auto& kernels, const Case& c, Random& random) {
    for (std::size_t place = 0; place < c.keys; ++place) {
      INFO("infinite key " << place);
      Call<TestType> call(c, random);
      call.key.at(place, 0) = kInf<TestType>;
      call.panel.fill([&] { return static_cast<TestType>(random.integer(-1, 1)); });
      call.run(kernels);
      CHECK(all(c.pitch, [&](std::size_t r) {
        const TestType weight = call.weights[(kPending + place) * c.pitch + r];
        const TestType sign = call.panel[r];
        return sign > 0   ? weight == 1 && call.sum[r] == 1
               : sign < 0 ? weight == 0 && std::isfinite(call.sum[r])
                          : std::isnan(weight) && std::isnan(call.sum[r]);
      }));
    }
  });
}
