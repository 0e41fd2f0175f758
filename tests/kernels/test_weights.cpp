// weights: scores and softmax in one, against its definition in float64.
//
// When references move is the kernel's business. What holds whenever they do: a reference that
// moved is the score of some key, more than 8 above the old one, and no score is more than 8
// above it; everything summed before, pending weights included, is scaled by exp2(old - new),
// and weights are exp2(score - reference).
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

constexpr float kThreshold = 8;
constexpr std::size_t kPending = 3;  // rows of weights before the kernel's own
constexpr std::size_t kValues = 11;  // features of the accumulators

/// One call's operands, and what comes of them.
struct Call {
  Call(const Case& c, std::size_t lanes, Random& random)
      : keys(c.keys),
        features(c.features),
        vectors(c.vectors),
        pitch(c.vectors * lanes),
        key(c.keys, c.features, c.unit),
        panel(c.features * pitch),
        weights((kPending + c.keys) * pitch),
        reference(pitch),
        sum(pitch),
        accumulators(kValues * pitch) {
    key.fill(c.keys, random);
    panel.fill([&] { return random.normal(); });
    for (std::size_t i = 0; i < kPending * pitch; ++i)
      weights[i] = static_cast<float>(random.unit());
    for (std::size_t r = 0; r < pitch; ++r) {
      reference[r] = 3 * random.normal();
      sum[r] = 1 + static_cast<float>(random.unit());
    }
    accumulators.fill([&] { return random.normal(); });
  }

  void run(const heed::KernelTable& kernels) {
    const heed::RowState state = {reference.data(), sum.data(), accumulators.data(), false};
    kernels.weights(key.view(), keys, panel.data(), features, weights.data() + kPending * pitch,
                    kPending, state, kValues, vectors);
  }

  bool intact() const {
    return weights.intact() && reference.intact() && sum.intact() && accumulators.intact();
  }

  std::size_t keys, features, vectors, pitch;
  Matrix key;
  Buffer panel, weights, reference, sum, accumulators;
};

/// A row's exact scores, and the sums of their terms' magnitudes.
struct Scores {
  std::vector<double> value, magnitude;
};

Scores scores_of(const Call& call, std::size_t r) {
  Scores scores;
  for (std::size_t j = 0; j < call.keys; ++j) {
    double sum = 0;
    double magnitude = 0;
    for (std::size_t x = 0; x < call.features; ++x) {
      const double product =
          static_cast<double>(call.key.at(j, x)) * call.panel[x * call.pitch + r];
      sum += product;
      magnitude += std::fabs(product);
    }
    scores.value.push_back(sum);
    scores.magnitude.push_back(magnitude);
  }
  return scores;
}

/// Relative error of what was multiplied by exp2(old - new) in at most `keys` moves.
double scaling_error(double rise, std::size_t keys) {
  if (rise == 0) return 0;
  const double moves = std::min(static_cast<double>(keys), rise / 4);
  return std::expm1(kLn2 * kUnit * rise + 3 * kUnit * moves);
}

/// How far a weight's exponent may be off: its score, the reference it was first relative to
/// (at most `largest` in magnitude), and all moves that followed.
double weight_error(const Call& call, double magnitude, double largest, double rise,
                    double distance) {
  const double d = static_cast<double>(call.features);
  const double exponent = gamma_of(d + 1) * (magnitude + largest) + kUnit * (distance + 2 * rise);
  const double moves = std::min(static_cast<double>(call.keys), rise / 4);
  return std::expm1(kLn2 * exponent + 3 * kUnit * (moves + 1));
}

/// Whether the reference is as it may be.
bool reference_is_right(const heed::KernelTable& kernels, const Call& before, const Call& after,
                        const Scores& scores, std::size_t r) {
  const float old = before.reference[r];
  const float moved = after.reference[r];
  for (std::size_t j = 0; j < before.keys; ++j) {
    const double slack = gamma_of(static_cast<double>(before.features) + 2) *
                         (scores.magnitude[j] + std::fabs(static_cast<double>(moved)) + 8);
    if (scores.value[j] > static_cast<double>(moved) + kThreshold + slack) return false;
  }
  if (same_bits(old, moved)) return true;
  Buffer plain(round_up(before.keys, heed::kRowPadding) * before.pitch);
  kernels.scores(before.key.view(), before.keys, before.panel.data(), before.features, plain.data(),
                 before.vectors);
  bool is_score = false;
  for (std::size_t j = 0; j < before.keys; ++j)
    is_score = is_score || same_bits(plain[j * before.pitch + r], moved);
  return is_score && moved > old + kThreshold;
}

double check_weights(const Call& before, const Call& after, const Scores& scores, std::size_t r) {
  const double reference = after.reference[r];
  const double rise = reference - before.reference[r];
  const double factor = std::exp2(-rise);
  const double scaling = scaling_error(rise, before.keys);
  const double largest =
      std::max(std::fabs(reference), std::fabs(static_cast<double>(before.reference[r])));
  double sum = before.sum[r] * factor;
  double bound = sum * scaling;
  double worst = 0;
  const auto check = [&](float got, double want, double error) {
    worst = std::max(worst, error_ratio(got, want, error + 0x1p-118));
  };
  for (std::size_t j = 0; j < kPending; ++j) {
    const double want = before.weights[j * before.pitch + r] * factor;
    check(after.weights[j * before.pitch + r], want, want * scaling);
  }
  for (std::size_t j = 0; j < before.keys; ++j) {
    const double difference = scores.value[j] - reference;
    const double want = std::exp2(difference);
    const double error =
        want * weight_error(before, scores.magnitude[j], largest, rise, std::fabs(difference));
    check(after.weights[(kPending + j) * before.pitch + r], want, error);
    sum += want;
    bound += error + 0x1p-118;
  }
  check(after.sum[r], sum, bound + gamma_of(static_cast<double>(before.keys)) * (sum + bound));
  for (std::size_t x = 0; x < kValues; ++x) {
    const double want = before.accumulators[x * before.pitch + r] * factor;
    check(after.accumulators[x * before.pitch + r], want, std::fabs(want) * scaling);
  }
  return worst;
}

double check_call(const heed::KernelTable& kernels, Call& call) {
  const Call before = call;
  call.run(kernels);
  double worst = 0;
  bool references = true;
  for (std::size_t r = 0; r < call.pitch; ++r) {
    const Scores scores = scores_of(before, r);
    references = references && reference_is_right(kernels, before, call, scores, r);
    worst = std::max(worst, check_weights(before, call, scores, r));
  }
  CHECK(references);
  CHECK(worst <= 1);
  CHECK(call.intact());
  return worst;
}

/// Adds `slope` per key to every score, through the first feature.
void climb(Call& call, float slope) {
  for (std::size_t r = 0; r < call.pitch; ++r) call.panel[r] = 1;
  for (std::size_t j = 0; j < call.keys; ++j) call.key.at(j, 0) = slope * static_cast<float>(j);
}

/// The same for one row.
void climb(Call& call, float slope, std::size_t row) {
  climb(call, slope);
  for (std::size_t r = 0; r < call.pitch; ++r) call.panel[r] = r == row ? 1 : 0;
}

/// Whether a row's state and weights are numbers.
bool row_is_finite(const Call& call, std::size_t r) {
  bool finite = std::isfinite(call.sum[r]) && std::isfinite(call.reference[r]);
  for (std::size_t i = r; i < call.weights.size(); i += call.pitch)
    finite = finite && std::isfinite(call.weights[i]);
  return finite;
}

}  // namespace

TEST_CASE("weights are scores and softmax in one", "[weights]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    double worst = 0;
    sweep([&](const Case& c, Random& random) {
      Case whole = c;
      whole.keys = round_up(c.keys, heed::kRowPadding);
      Call call(whole, kernels.lanes, random);
      if (c.features > 1 && random.integer(0, 1) == 1)
        climb(call, static_cast<float>(random.integer(-3, 3)) * 0.7F);
      worst = std::max(worst, check_call(kernels, call));
    });
    report("weights", kernels.isa, worst);
  });
}

TEST_CASE("weights of scores that climb steeply", "[weights]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    for (std::size_t vectors = 1; vectors <= 3; ++vectors)
      for (const float slope : {0.5F, 3.0F, 9.0F, 40.0F, 200.0F, -200.0F}) {
        INFO("vectors " << vectors << " slope " << slope);
        Random random(vectors);
        Call call({vectors, 5, 40, true}, kernels.lanes, random);
        climb(call, slope);
        check_call(kernels, call);
      }
  });
}

TEST_CASE("weights of a row that has seen nothing", "[weights]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    for (std::size_t vectors = 1; vectors <= 3; ++vectors) {
      INFO("vectors " << vectors);
      Random random(vectors);
      Call call({vectors, 20, 24, true}, kernels.lanes, random);
      for (std::size_t r = 0; r < call.pitch; ++r) {
        call.reference[r] = heed::kNoReference;
        call.sum[r] = 0;
      }
      call.run(kernels);
      bool right = true;
      for (std::size_t r = 0; r < call.pitch; ++r)
        right = right && row_is_finite(call, r) && std::fabs(call.reference[r]) < 100 &&
                call.sum[r] > 0x1p-8F;
      CHECK(right);
    }
  });
}

TEST_CASE("weights: NaN in one row stays there, however another climbs", "[weights]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    for (std::size_t vectors = 1; vectors <= 3; ++vectors)
      for (const float slope : {0.0F, 10.0F, 90.0F})
        for (std::size_t row = 0; row < vectors * kernels.lanes; ++row)
          for (const std::size_t away :
               {std::size_t{1}, std::size_t{kernels.lanes}, std::size_t{2} * kernels.lanes}) {
            Random random(row);
            Call call({vectors, 6, 16, true}, kernels.lanes, random);
            const std::size_t climber = (row + away) % call.pitch;
            if (climber == row) continue;
            climb(call, slope, climber);
            call.panel[2 * call.pitch + row] = float_of(0x7fc00001U);
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

TEST_CASE("weights: an infinite key gives +inf, -inf and NaN to each row as it is due",
          "[weights]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    for (std::size_t vectors = 1; vectors <= 3; ++vectors)
      for (std::size_t place = 0; place < 16; ++place) {
        INFO("vectors " << vectors << " infinite key " << place);
        Random random(place);
        Call call({vectors, 1, 16, true}, kernels.lanes, random);
        call.key.at(place, 0) = kInf;
        bool right = true;
        for (std::size_t r = 0; r < call.pitch; ++r)
          call.panel[r] = static_cast<float>(random.integer(-1, 1));
        call.run(kernels);
        for (std::size_t r = 0; r < call.pitch; ++r) {
          const float weight = call.weights[(kPending + place) * call.pitch + r];
          const float sign = call.panel[r];
          right = right && (sign > 0   ? weight == 1 && call.sum[r] == 1
                            : sign < 0 ? weight == 0 && std::isfinite(call.sum[r])
                                       : std::isnan(weight) && std::isnan(call.sum[r]));
        }
        CHECK(right);
      }
  });
}
