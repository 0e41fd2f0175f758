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
  Call(const Case& c, std::size_t lanes, Random& random)
      : keys(c.keys),
        features(c.features),
        vectors(c.vectors),
        pitch(c.vectors * lanes),
        key(c.keys, c.features, c.unit),
        panel(c.features * pitch),
        weights((kPending + c.keys) * pitch),
        row_max(pitch),
        sum(pitch),
        accumulators(kValues * pitch) {
    key.fill(c.keys, random);
    panel.fill([&] { return random.normal<Real>(); });
    for (std::size_t i = 0; i < kPending * pitch; ++i)
      weights[i] = static_cast<Real>(random.unit());
    for (std::size_t r = 0; r < pitch; ++r) {
      row_max[r] = 3 * random.normal<Real>();
      sum[r] = 1 + static_cast<Real>(random.unit());
    }
    accumulators.fill([&] { return random.normal<Real>(); });
  }

  void run(const Table<Real>& kernels) {
    const heed::RowState<Real> state = {row_max.data(), sum.data(), accumulators.data(), false};
    kernels.panels.qk_softmax(vectors, key.view(), keys, panel.data(), features,
                              weights.data() + kPending * pitch, kPending, state, kValues);
  }

  bool intact() const {
    return weights.intact() && row_max.intact() && sum.intact() && accumulators.intact();
  }

  std::size_t keys, features, vectors, pitch;
  Matrix<Real> key;
  BasicBuffer<Real> panel, weights, row_max, sum, accumulators;
};

/// A row's exact scores, and the sums of their terms' magnitudes.
template <class Real>
struct Scores {
  std::vector<Wide<Real>> value, magnitude;
};

template <class Real>
Scores<Real> scores_of(const Call<Real>& call, std::size_t r) {
  Scores<Real> scores;
  for (std::size_t j = 0; j < call.keys; ++j) {
    Wide<Real> sum = 0;
    Wide<Real> magnitude = 0;
    for (std::size_t x = 0; x < call.features; ++x) {
      const Wide<Real> product =
          static_cast<Wide<Real>>(call.key.at(j, x)) * call.panel[x * call.pitch + r];
      sum += product;
      magnitude += std::fabs(product);
    }
    scores.value.push_back(sum);
    scores.magnitude.push_back(magnitude);
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
  const auto d = static_cast<Wide<Real>>(call.features);
  const Wide<Real> exponent =
      gamma_of<Real>(d + 1) * (magnitude + largest) + kUnitOf<Real> * (distance + 2 * rise);
  const Wide<Real> moves = std::min(static_cast<Wide<Real>>(call.keys), rise / 4);
  return std::expm1(kLn2 * exponent + 3 * kUnitOf<Real> * (moves + 1));
}

/// Whether the row_max is as it may be.
template <class Real>
bool row_max_is_right(const Table<Real>& kernels, const Call<Real>& before, const Call<Real>& after,
                      const Scores<Real>& scores, std::size_t r) {
  const Real old = before.row_max[r];
  const Real moved = after.row_max[r];
  for (std::size_t j = 0; j < before.keys; ++j) {
    const Wide<Real> slack = gamma_of<Real>(static_cast<Wide<Real>>(before.features) + 2) *
                             (scores.magnitude[j] + std::fabs(moved) + kThreshold);
    if (scores.value[j] - moved > kThreshold + slack) return false;
  }
  if (same_bits(old, moved)) return true;
  BasicBuffer<Real> plain(round_up(before.keys, heed::PanelGeometry::row_padding) * before.pitch);
  kernels.panels.scores(before.vectors, before.key.view(), heed::all_keys(before.keys),
                        before.panel.data(), before.features, plain.data());
  bool is_score = false;
  for (std::size_t j = 0; j < before.keys; ++j)
    is_score = is_score || same_bits(plain[j * before.pitch + r], moved);
  return is_score && moved > old + kThreshold;
}

template <class Real>
double check_weights(const Call<Real>& before, const Call<Real>& after, const Scores<Real>& scores,
                     std::size_t r) {
  const Wide<Real> row_max = after.row_max[r];
  const Wide<Real> rise = row_max - before.row_max[r];
  const Wide<Real> factor = std::exp2(-rise);
  const Wide<Real> scaling = scaling_error<Real>(rise, before.keys);
  const Wide<Real> largest = std::max(std::fabs(after.row_max[r]), std::fabs(before.row_max[r]));
  // What is flushed to 0 where a factor or a weight is no normal number; all are below 2^8.
  constexpr Wide<Real> kFlush = 256 * kSmallestOf<Real>;
  Wide<Real> sum = before.sum[r] * factor;
  Wide<Real> bound = sum * scaling;
  double worst = 0;
  const auto check = [&](Real got, Wide<Real> want, Wide<Real> error) {
    worst = std::max(worst, error_ratio(got, want, error + kFlush));
  };
  for (std::size_t j = 0; j < kPending; ++j) {
    const Wide<Real> want = before.weights[j * before.pitch + r] * factor;
    check(after.weights[j * before.pitch + r], want, want * scaling);
  }
  for (std::size_t j = 0; j < before.keys; ++j) {
    const Wide<Real> difference = scores.value[j] - row_max;
    const Wide<Real> want = std::exp2(difference);
    const Wide<Real> error =
        want * weight_error(before, scores.magnitude[j], largest, rise, std::fabs(difference));
    check(after.weights[(kPending + j) * before.pitch + r], want, error);
    sum += want;
    bound += error + kFlush;
  }
  check(after.sum[r], sum,
        bound + gamma_of<Real>(static_cast<Wide<Real>>(before.keys)) * (sum + bound));
  for (std::size_t x = 0; x < kValues; ++x) {
    const Wide<Real> want = before.accumulators[x * before.pitch + r] * factor;
    check(after.accumulators[x * before.pitch + r], want, std::fabs(want) * scaling);
  }
  return worst;
}

template <class Real>
double check_call(const Table<Real>& kernels, Call<Real>& call) {
  const Call<Real> before = call;
  call.run(kernels);
  double worst = 0;
  bool row_maxima = true;
  for (std::size_t r = 0; r < call.pitch; ++r) {
    const Scores<Real> scores = scores_of(before, r);
    row_maxima = row_maxima && row_max_is_right(kernels, before, call, scores, r);
    worst = std::max(worst, check_weights(before, call, scores, r));
  }
  CHECK(row_maxima);
  CHECK(worst <= 1);
  CHECK(call.intact());
  return worst;
}

/// Adds `slope` per key to every score, through the first feature.
template <class Real>
void climb(Call<Real>& call, Real slope) {
  for (std::size_t r = 0; r < call.pitch; ++r) call.panel[r] = 1;
  for (std::size_t j = 0; j < call.keys; ++j) call.key.at(j, 0) = slope * static_cast<Real>(j);
}

/// The same for one row.
template <class Real>
void climb(Call<Real>& call, Real slope, std::size_t row) {
  climb(call, slope);
  for (std::size_t r = 0; r < call.pitch; ++r) call.panel[r] = r == row ? 1 : 0;
}

/// Whether a row's state and weights are numbers.
template <class Real>
bool row_is_finite(const Call<Real>& call, std::size_t r) {
  bool finite = std::isfinite(call.sum[r]) && std::isfinite(call.row_max[r]);
  for (std::size_t i = r; i < call.weights.size(); i += call.pitch)
    finite = finite && std::isfinite(call.weights[i]);
  return finite;
}

}  // namespace

TEMPLATE_TEST_CASE("qk_softmax is scores and softmax in one", "[qk_softmax]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    double worst = 0;
    sweep([&](const Case& c, Random& random) {
      Case whole = c;
      whole.keys = round_up(c.keys, heed::PanelGeometry::row_padding);
      Call<TestType> call(whole, kernels.panels.lanes, random);
      if (c.features > 1 && random.integer(0, 1) == 1)
        climb(call, static_cast<TestType>(random.integer(-3, 3)) * static_cast<TestType>(0.7));
      worst = std::max(worst, check_call(kernels, call));
    });
    report("qk_softmax", kernels, worst);
  });
}

TEMPLATE_TEST_CASE("qk_softmax of scores that climb steeply", "[qk_softmax]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (std::size_t vectors = 1; vectors <= 3; ++vectors)
      for (const TestType slope : {0.5F, 3.0F, 9.0F, 40.0F, 200.0F, -200.0F}) {
        INFO("vectors " << vectors << " slope " << slope);
        Random random(vectors);
        Call<TestType> call({vectors, 5, 40, true}, kernels.panels.lanes, random);
        climb(call, slope);
        check_call(kernels, call);
      }
  });
}

TEMPLATE_TEST_CASE("qk_softmax of a row that has seen nothing", "[qk_softmax]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (std::size_t vectors = 1; vectors <= 3; ++vectors) {
      INFO("vectors " << vectors);
      Random random(vectors);
      Call<TestType> call({vectors, 20, 24, true}, kernels.panels.lanes, random);
      for (std::size_t r = 0; r < call.pitch; ++r) {
        call.row_max[r] = heed::kNoRowMax<TestType>;
        call.sum[r] = 0;
      }
      call.run(kernels);
      bool right = true;
      for (std::size_t r = 0; r < call.pitch; ++r)
        right = right && row_is_finite(call, r) && std::fabs(call.row_max[r]) < 100 &&
                call.sum[r] > 0x1p-8;
      CHECK(right);
    }
  });
}

TEMPLATE_TEST_CASE("qk_softmax: NaN in one row stays there, however another climbs", "[qk_softmax]",
                   float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (std::size_t vectors = 1; vectors <= 3; ++vectors)
      for (const TestType slope : {0.0F, 10.0F, 90.0F})
        for (std::size_t row = 0; row < vectors * kernels.panels.lanes; ++row)
          for (const std::size_t away : {std::size_t{1}, std::size_t{kernels.panels.lanes},
                                         std::size_t{2} * kernels.panels.lanes}) {
            Random random(row);
            Call<TestType> call({vectors, 6, 16, true}, kernels.panels.lanes, random);
            const std::size_t climber = (row + away) % call.pitch;
            if (climber == row) continue;
            climb(call, slope, climber);
            call.panel[2 * call.pitch + row] = not_a_number<TestType>();
            call.run(kernels);
            bool others = std::isnan(call.sum[row]);
            for (std::size_t r = 0; r < call.pitch; ++r)
              others = others && (r == row || row_is_finite(call, r));
            INFO("vectors " << vectors << " slope " << slope << " NaN in row " << row
                            << ", climbing row " << climber);
            CHECK(others);
          }
  });
}

TEMPLATE_TEST_CASE("qk_softmax: an infinite key gives +inf, -inf and NaN to each row as it is due",
                   "[qk_softmax]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (std::size_t vectors = 1; vectors <= 3; ++vectors)
      for (std::size_t place = 0; place < 16; ++place) {
        INFO("vectors " << vectors << " infinite key " << place);
        Random random(place);
        Call<TestType> call({vectors, 1, 16, true}, kernels.panels.lanes, random);
        call.key.at(place, 0) = kInf<TestType>;
        bool right = true;
        for (std::size_t r = 0; r < call.pitch; ++r)
          call.panel[r] = static_cast<TestType>(random.integer(-1, 1));
        call.run(kernels);
        for (std::size_t r = 0; r < call.pitch; ++r) {
          const TestType weight = call.weights[(kPending + place) * call.pitch + r];
          const TestType sign = call.panel[r];
          right = right && (sign > 0   ? weight == 1 && call.sum[r] == 1
                            : sign < 0 ? weight == 0 && std::isfinite(call.sum[r])
                                       : std::isnan(weight) && std::isnan(call.sum[r]));
        }
        CHECK(right);
      }
  });
}
