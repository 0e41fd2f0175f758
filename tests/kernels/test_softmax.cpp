// softmax: one step of online softmax against its definition in float64.
//
// What is expected of a row, from the state before it: the reference stays unless the largest
// score exceeds it by more than 8, then it becomes that score (the largest float32 for +inf);
// sum and accumulators are multiplied by exp2(old - new); weights are exp2(score - reference)
// and the sum grows by them.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

constexpr float kThreshold = 8;
constexpr float kMax = 3.402823466e+38F;

/// A panel's scores and state.
struct Step {
  Step(std::size_t key_count, std::size_t feature_count, std::size_t vector_count,
       std::size_t lanes, bool is_fresh)
      : keys(key_count),
        features(feature_count),
        vectors(vector_count),
        pitch(vector_count * lanes),
        fresh(is_fresh),
        scores(key_count * pitch),
        reference(pitch),
        sum(pitch),
        accumulators(round_up(feature_count, heed::kRowPadding) * pitch) {
    for (std::size_t r = 0; r < pitch; ++r) {
      reference[r] = heed::kNoReference;
      sum[r] = 0;
    }
  }

  void run(const heed::KernelTable& kernels) {
    const heed::RowState state = {reference.data(), sum.data(), accumulators.data(), fresh};
    kernels.softmax(scores.data(), keys, state, features, vectors);
  }

  bool intact() const {
    return scores.intact() && reference.intact() && sum.intact() &&
           accumulators.intact_from(fresh ? 0 : features * pitch);
  }

  std::size_t keys, features, vectors, pitch;
  bool fresh;
  Buffer scores, reference, sum, accumulators;
};

/// 2^(x - reference) as heed computes it is off by one rounding of the difference and 1 ULP.
/// Far below -126.5, where nothing is left, any number does.
double exp2_error(double difference) {
  const double distance = std::min(std::fabs(difference), 1000.0);
  return std::exp2(kUnit * distance) * (1 + 2 * kUnit) - 1;
}

float moved_reference(const Step& before, std::size_t r) {
  float largest = -kInf;
  for (std::size_t j = 0; j < before.keys; ++j)
    largest = std::max(largest, before.scores[j * before.pitch + r]);
  const float old = before.reference[r];
  return largest > old + kThreshold ? std::min(largest, kMax) : old;
}

/// The row's weights and their sum; returns the worst error / bound.
double check_weights(const Step& before, const Step& after, std::size_t r, float reference,
                     double factor, double factor_error) {
  double worst = 0;
  const double kept = static_cast<double>(before.sum[r]) * factor;
  double sum = kept;
  double bound = kept * ((1 + factor_error) * (1 + kUnit) - 1) + 0x1p-117;
  for (std::size_t j = 0; j < before.keys; ++j) {
    const double score = std::min(before.scores[j * before.pitch + r], kMax);
    const double difference = score - reference;
    const double weight = std::exp2(difference);
    const double error = weight * exp2_error(difference);
    const double flush = difference < -125 ? 0x1p-126 : 0;
    const float got = after.scores[j * before.pitch + r];
    worst = std::max(worst, error_ratio(got, weight, weight == 0 ? 0 : error + flush));
    sum += weight;
    bound += error + flush;
  }
  bound += gamma_of(static_cast<double>(before.keys)) * (sum + bound);
  return std::max(worst, error_ratio(after.sum[r], sum, bound));
}

double check_accumulators(const Step& before, const Step& after, std::size_t r, double factor,
                          double factor_error) {
  double worst = 0;
  for (std::size_t x = 0; x < before.features && !before.fresh; ++x) {
    const float old = before.accumulators[x * before.pitch + r];
    const double want = static_cast<double>(old) * factor;
    const double bound = std::fabs(want) * ((1 + factor_error) * (1 + kUnit) - 1) +
                         std::fabs(static_cast<double>(old)) * (factor < 0x1p-125 ? 0x1p-126 : 0) +
                         kUnderflow;
    const float got = after.accumulators[x * before.pitch + r];
    // A row that keeps its reference keeps its bits.
    worst = std::max(
        worst, factor == 1 ? (same_bits(got, old) ? 0 : HUGE_VAL) : error_ratio(got, want, bound));
  }
  return worst;
}

double check_row(const Step& before, const Step& after, std::size_t r) {
  const float reference = moved_reference(before, r);
  if (!same_bits(after.reference[r], reference)) return HUGE_VAL;
  const double difference = static_cast<double>(before.reference[r]) - reference;
  const double factor = std::exp2(difference);
  const double error = difference == 0 ? 0 : exp2_error(difference);
  return std::max(check_weights(before, after, r, reference, factor, error),
                  check_accumulators(before, after, r, factor, error));
}

double check_step(const heed::KernelTable& kernels, Step& step) {
  const Step before = step;
  step.run(kernels);
  double worst = 0;
  for (std::size_t r = 0; r < step.pitch; ++r) worst = std::max(worst, check_row(before, step, r));
  CHECK(step.intact());
  CHECK(worst <= 1);
  return worst;
}

/// Scores of the next step: rows whose maximum stays, creeps up below the threshold, jumps
/// past it, or falls, far and near.
void draw_scores(Step& step, Random& random) {
  constexpr float kShift[] = {0, 3, 6, 9, 20, 150, -5, -200};
  for (std::size_t r = 0; r < step.pitch; ++r) {
    const float base = step.reference[r] == heed::kNoReference ? 0 : step.reference[r];
    const float shift = kShift[random.integer(0, 7)];
    for (std::size_t j = 0; j < step.keys; ++j) {
      const bool excluded = random.integer(0, 9) == 0;
      step.scores[j * step.pitch + r] = excluded ? -kInf : base + shift + 2 * random.normal();
    }
  }
}

/// A state in which every row has seen something.
Step seen_step(const heed::KernelTable& kernels, std::size_t keys, std::size_t features,
               std::size_t vectors, Random& random) {
  Step step(keys, features, vectors, kernels.lanes, false);
  for (std::size_t r = 0; r < step.pitch; ++r) {
    step.reference[r] = 10 * random.normal();
    step.sum[r] = 1 + static_cast<float>(random.unit());
  }
  for (std::size_t i = 0; i < features * step.pitch; ++i) step.accumulators[i] = random.normal();
  return step;
}

/// A step of three keys in which every row has the same scores.
Step uniform_step(const heed::KernelTable& kernels, std::size_t vectors, const float (&scores)[3]) {
  Step step(3, 8, vectors, kernels.lanes, true);
  for (std::size_t i = 0; i < 3 * step.pitch; ++i) step.scores[i] = scores[i / step.pitch];
  return step;
}

bool all_equal(const Buffer& buffer, std::size_t begin, std::size_t end, float want) {
  bool equal = true;
  for (std::size_t i = begin; i < end; ++i) equal = equal && same_bits(buffer[i], want);
  return equal;
}

/// Runs a uniform step and compares every row's weights.
void check_uniform(const heed::KernelTable& kernels, const float (&scores)[3],
                   const float (&weights)[3]) {
  for (std::size_t vectors = 1; vectors <= 3; ++vectors) {
    INFO("vectors " << vectors << ", scores " << scores[0] << " " << scores[1] << " " << scores[2]);
    Step step = uniform_step(kernels, vectors, scores);
    step.run(kernels);
    CHECK(step.intact());
    for (std::size_t j = 0; j < 3; ++j)
      CHECK(all_equal(step.scores, j * step.pitch, (j + 1) * step.pitch, weights[j]));
    CHECK(all_equal(step.sum, 0, step.pitch, weights[0] + weights[1] + weights[2]));
  }
}

}  // namespace

TEST_CASE("softmax follows its definition over several steps", "[softmax]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    double worst = 0;
    sweep([&](const Case& c, Random& random) {
      if (!c.unit) return;  // no strides here
      Step first(c.keys, c.features, c.vectors, kernels.lanes, true);
      draw_scores(first, random);
      worst = std::max(worst, check_step(kernels, first));
      Step next = seen_step(kernels, c.keys, c.features, c.vectors, random);
      for (int i = 0; i < 3; ++i) {
        draw_scores(next, random);
        worst = std::max(worst, check_step(kernels, next));
      }
    });
    report("softmax", kernels.isa, worst);
  });
}

TEST_CASE("softmax moves a reference only past the threshold", "[softmax]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    for (std::size_t vectors = 1; vectors <= 3; ++vectors) {
      for (std::size_t row = 0; row < vectors * kernels.lanes; ++row) {
        for (const float rise : {kThreshold, std::nextafter(kThreshold, 9.0F)}) {
          INFO("vectors " << vectors << " row " << row << " rise " << rise);
          Random random(row + 1);
          Step step = seen_step(kernels, 5, 20, vectors, random);
          for (std::size_t r = 0; r < step.pitch; ++r) step.reference[r] = 0;
          for (std::size_t i = 0; i < 5 * step.pitch; ++i) step.scores[i] = random.normal();
          step.scores[2 * step.pitch + row] = rise;
          check_step(kernels, step);
          CHECK(step.reference[row] == (rise > kThreshold ? rise : 0));
        }
      }
    }
  });
}

TEST_CASE("softmax of a row without scores leaves it as it was", "[softmax]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    check_uniform(kernels, {-kInf, -kInf, -kInf}, {0, 0, 0});
    for (std::size_t vectors = 1; vectors <= 3; ++vectors) {
      Step step = uniform_step(kernels, vectors, {-kInf, -kInf, -kInf});
      step.run(kernels);
      CHECK(all_equal(step.reference, 0, step.pitch, heed::kNoReference));
    }
  });
}

TEST_CASE("softmax shares the weight among scores of +inf", "[softmax]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    check_uniform(kernels, {kInf, 1, kInf}, {1, 0, 1});
    check_uniform(kernels, {-kInf, kInf, 1e38F}, {0, 1, 0});
    check_uniform(kernels, {kInf, kInf, kInf}, {1, 1, 1});
  });
}

TEST_CASE("softmax of +inf forgets what was seen before, and only that row's", "[softmax]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    for (std::size_t vectors = 1; vectors <= 3; ++vectors) {
      for (std::size_t row = 0; row < vectors * kernels.lanes; ++row) {
        INFO("vectors " << vectors << " row " << row);
        Random random(row + 1);
        Step step = seen_step(kernels, 6, 24, vectors, random);
        draw_scores(step, random);
        step.scores[3 * step.pitch + row] = kInf;
        check_step(kernels, step);
        CHECK(step.sum[row] == 1);
        draw_scores(step, random);  // and +inf once more, beside a reference at the largest float
        for (std::size_t j = 0; j < 6; ++j) step.scores[j * step.pitch + row] = j == 5 ? kInf : 0;
        step.run(kernels);
        CHECK(step.sum[row] == 2);
        CHECK(step.reference[row] == kMax);
      }
    }
  });
}

TEST_CASE("softmax handles the largest and smallest finite scores", "[softmax]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    check_uniform(kernels, {kMax, -kMax, 0}, {1, 0, 0});
    check_uniform(kernels, {-kMax, -kMax, -kMax}, {1, 1, 1});
    check_uniform(kernels, {-kInf, 1e30F, 1e30F}, {0, 1, 1});
    check_uniform(kernels, {-1e30F, -kInf, -2e30F}, {1, 0, 0});
  });
}

TEST_CASE("softmax with a NaN makes that row NaN, and no other", "[softmax]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    for (std::size_t vectors = 1; vectors <= 3; ++vectors) {
      const std::size_t pitch = vectors * kernels.lanes;
      for (std::size_t at = 0; at < 7 * pitch; ++at) {
        const std::size_t row = at % pitch;
        INFO("vectors " << vectors << " key " << at / pitch << " row " << row);
        Random random(row + 1);
        Step step = seen_step(kernels, 7, 8, vectors, random);
        draw_scores(step, random);
        Step with_nan = step;
        with_nan.scores[at] = float_of(0x7fc00001U);
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
