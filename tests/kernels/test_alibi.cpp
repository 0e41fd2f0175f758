// alibi: a bias that grows with the distance between query and key.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// Queries among the keys, before and after them, and as far away as whole numbers go.
template <class Real>
Real position_of(std::size_t row, std::size_t keys, Random& random) {
  const auto limit = static_cast<std::int64_t>(2 / std::numeric_limits<Real>::epsilon());
  if (row % 7 == 3) return -static_cast<Real>(random.integer(1, 5000));
  if (row % 7 == 4) return static_cast<Real>(random.integer(1000, 1000000));
  if (row % 7 == 5) return static_cast<Real>(random.integer(-limit, limit));
  return static_cast<Real>(random.integer(0, static_cast<std::int64_t>(keys)));
}

/// Positive as in the paper, or 0, or negative.
template <class Real>
Real slope_of(std::size_t row, Random& random) {
  if (row % 5 == 4) return 0;
  return static_cast<Real>(row % 5 == 3 ? -random.unit() : random.unit());
}

/// Mostly numbers; infinities and NaN stay what they are.
template <class Real>
Real score_of(Random& random) {
  const std::int64_t kind = random.integer(0, 19);
  return kind == 0   ? not_a_number<Real>()
         : kind == 1 ? kInf<Real>
         : kind == 2 ? -kInf<Real>
                     : 20 * random.normal<Real>();
}

/// A panel, before and after.
template <class Real>
struct Call {
  Call(const Table<Real>& kernels, std::size_t key_count, std::size_t vector_count)
      : keys(key_count),
        vectors(vector_count),
        pitch(vector_count * kernels.panels.lanes),
        scores(keys * pitch),
        position(pitch),
        slope(pitch) {}

  void run(const Table<Real>& kernels) {
    kernels.panels.alibi(vectors, scores.data(), keys, position.data(), slope.data());
  }
  bool intact() const { return scores.intact() && position.intact() && slope.intact(); }

  std::size_t keys, vectors, pitch;
  BasicBuffer<Real> scores, position, slope;
};

/// The score sees one rounding, the bias that of its product and the sum, and of the distance
/// where that is not a Real.
template <class Real>
double check(const Call<Real>& before, const Call<Real>& after, std::size_t j, std::size_t r) {
  const std::size_t at = j * before.pitch + r;
  const Wide<Real> score = before.scores[at];
  const Wide<Real> distance =
      std::fabs(static_cast<Wide<Real>>(before.position[r]) - static_cast<Wide<Real>>(j));
  const Wide<Real> bias = before.slope[r] * distance;
  if (before.slope[r] == 0 && !std::isnan(before.scores[at]))
    return same_bits(before.scores[at], after.scores[at]) ? 0 : HUGE_VAL;
  const bool exact = static_cast<Wide<Real>>(static_cast<Real>(distance)) == distance;
  const Wide<Real> bound = gamma_of<Real>(1) * std::fabs(score) +
                           gamma_of<Real>(exact ? 2 : 3) * std::fabs(bias) + kUnderflowOf<Real>;
  return error_ratio<Real>(after.scores[at], score - bias, bound);
}

}  // namespace

TEMPLATE_TEST_CASE("alibi takes slope times distance off every score", "[alibi]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    double worst = 0;
    sweep_tiles([&](std::size_t keys, std::size_t vectors, Random& random) {
      Call<TestType> call(kernels, keys, vectors);
      call.scores.fill([&] { return score_of<TestType>(random); });
      for (std::size_t r = 0; r < call.pitch; ++r) {
        call.position[r] = position_of<TestType>(r, keys, random);
        call.slope[r] = slope_of<TestType>(r, random);
      }
      const Call<TestType> before = call;
      call.run(kernels);
      double ratio = 0;
      for (std::size_t j = 0; j < keys; ++j)
        for (std::size_t r = 0; r < call.pitch; ++r)
          ratio = std::max(ratio, check(before, call, j, r));
      CHECK(ratio <= 1);
      CHECK(call.intact());
      worst = std::max(worst, ratio);
    });
    report("alibi", kernels, worst);
  });
}

TEMPLATE_TEST_CASE("alibi is exact where the numbers are whole", "[alibi]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    sweep_tiles([&](std::size_t keys, std::size_t vectors, Random& random) {
      Call<TestType> call(kernels, keys, vectors);
      call.scores.fill([&] { return static_cast<TestType>(random.integer(-1000, 1000)); });
      for (std::size_t r = 0; r < call.pitch; ++r) {
        call.position[r] = static_cast<TestType>(random.integer(-200, 200));
        call.slope[r] = std::ldexp(TestType{1}, static_cast<int>(random.integer(-8, 0)));
      }
      const Call<TestType> before = call;
      call.run(kernels);
      bool equal = true;
      for (std::size_t j = 0; j < keys; ++j)
        for (std::size_t r = 0; r < call.pitch; ++r) {
          const std::size_t at = j * call.pitch + r;
          const TestType distance = std::fabs(before.position[r] - static_cast<TestType>(j));
          equal = equal && call.scores[at] == before.scores[at] - before.slope[r] * distance;
        }
      CHECK(equal);
    });
  });
}
