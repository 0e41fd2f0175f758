// exponentials: what softmax does once row maxima are final.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// A panel's scores, row maxima and sums.
template <class Real>
struct Call {
  Call(const Table<Real>& kernels, std::size_t key_count, std::size_t vector_count)
      : keys(key_count),
        vectors(vector_count),
        pitch(vector_count * kernels.panels.lanes),
        scores(keys * pitch),
        row_max(pitch),
        sum(pitch) {}

  void run(const Table<Real>& kernels) {
    kernels.panels.exponentials(vectors, scores.data(), keys, row_max.data(), sum.data());
  }
  bool intact() const { return scores.intact() && row_max.intact() && sum.intact(); }

  std::size_t keys, vectors, pitch;
  BasicBuffer<Real> scores, row_max, sum;
};

/// Scores from 8 above a row's row_max, as lazy row maxima allow, to far below it; -inf is a
/// masked key.
template <class Real>
void draw(Call<Real>& call, Random& random) {
  for (std::size_t r = 0; r < call.pitch; ++r) {
    call.row_max[r] = 20 * random.normal<Real>();
    call.sum[r] = static_cast<Real>(10 * random.unit());
  }
  for (std::size_t i = 0; i < call.scores.size(); ++i) {
    const std::int64_t kind = random.integer(0, 9);
    const Real below = kind == 0 ? kInf<Real> : kind == 1 ? 3000 : 30;
    call.scores[i] =
        call.row_max[i % call.pitch] + 8 - below * static_cast<Real>(1 - random.unit());
  }
}

/// One rounding of the difference, whose effect grows with it, and 1 ULP of exp2. Next to the
/// smallest normal number and below, the result may have been flushed.
template <class Real>
double check_weight(Real score, Real row_max, Real weight) {
  const Wide<Real> difference = static_cast<Wide<Real>>(score) - row_max;
  const Wide<Real> want = std::exp2(difference);
  if (want == 0) return same_bits(weight, Real{0}) ? 0 : HUGE_VAL;
  const Wide<Real> distance = std::min(std::fabs(difference), Wide<Real>{10000});
  const Wide<Real> bound = want * (std::exp2(kUnitOf<Real> * distance) * (1 + 2 * kUnitOf<Real>)-1);
  const bool flushed = difference < kSmallestExponentOf<Real> + 1;
  return error_ratio<Real>(weight, want, bound + (flushed ? kSmallestOf<Real> : 0));
}

/// Whether sums grew by the sum of the weights, one by one, in order.
template <class Real>
bool sums_follow(const Call<Real>& before, const Call<Real>& after) {
  bool equal = true;
  for (std::size_t r = 0; r < before.pitch; ++r) {
    Real sum = 0;
    for (std::size_t j = 0; j < before.keys; ++j) sum += after.scores[j * before.pitch + r];
    equal = equal && same_number(before.sum[r] + sum, after.sum[r]);
  }
  return equal;
}

}  // namespace

TEMPLATE_TEST_CASE("exponentials turn scores into weights and sum them in order", "[exponentials]",
                   float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    double worst = 0;
    sweep_tiles([&](std::size_t keys, std::size_t vectors, Random& random) {
      Call<TestType> call(kernels, keys, vectors);
      draw(call, random);
      const Call<TestType> before = call;
      call.run(kernels);
      double ratio = 0;
      for (std::size_t i = 0; i < call.scores.size(); ++i)
        ratio = std::max(
            ratio, check_weight(before.scores[i], before.row_max[i % call.pitch], call.scores[i]));
      CHECK(ratio <= 1);
      CHECK(sums_follow(before, call));
      CHECK(same_bits(before.row_max, call.row_max, 0, call.pitch));
      CHECK(call.intact());
      worst = std::max(worst, ratio);
    });
    report("exponentials", kernels, worst);
  });
}

// Scores of +inf included, which make the row_max the largest finite number.
TEMPLATE_TEST_CASE("exponentials give the bits that softmax gives", "[exponentials]", float,
                   double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    sweep_tiles([&](std::size_t keys, std::size_t vectors, Random& random) {
      Call<TestType> call(kernels, keys, vectors);
      draw(call, random);
      for (std::size_t i = 0; i < call.scores.size(); ++i)
        if (i % call.pitch % 3 == 1 && random.integer(0, 2) == 0) call.scores[i] = kInf<TestType>;
      Call<TestType> other = call;
      for (std::size_t r = 0; r < call.pitch; ++r) {
        other.row_max[r] = heed::kNoRowMax<TestType>;
        other.sum[r] = 0;
      }
      const heed::RowState<TestType> state = {other.row_max.data(), other.sum.data(), nullptr,
                                              true};
      kernels.panels.softmax(vectors, other.scores.data(), heed::all_keys(keys), 0, state, 0);
      for (std::size_t r = 0; r < call.pitch; ++r) {
        call.row_max[r] = other.row_max[r];
        call.sum[r] = 0;
      }
      call.run(kernels);
      CHECK(same_bits(call.scores, other.scores, 0, call.scores.size()));
      CHECK(same_bits(call.sum, other.sum, 0, call.pitch));
    });
  });
}

TEMPLATE_TEST_CASE("exponentials of infinities and NaN", "[exponentials]", float, double) {
  constexpr TestType inf = kInf<TestType>;
  constexpr TestType max = kMax<TestType>;
  const TestType nan = not_a_number<TestType>();
  const struct {
    TestType row_max, score, weight;
  } cases[] = {
      {max, inf, 1},   {max, max, 1},   {max, 0, 0},   {max, -inf, 0},  {3, -inf, 0},
      {3, nan, nan},   {max, nan, nan}, {nan, 3, nan}, {-max, -inf, 0},  // nothing attended
      {-max, -max, 1}, {3, 3, 1},       {3, 5, 4}};
  for_each_table<TestType>([&](const Table<TestType>& kernels) {
    for (std::size_t vectors = 1; vectors <= 3; ++vectors)
      for (std::size_t first = 0; first < 12; ++first) {  // so that each comes to lie in each lane
        Call<TestType> call(kernels, 2, vectors);
        for (std::size_t r = 0; r < call.pitch; ++r) {
          call.row_max[r] = cases[(first + r) % 12].row_max;
          call.sum[r] = 1;
          call.scores[r] = cases[(first + r) % 12].score;
          call.scores[call.pitch + r] = -inf;
        }
        call.run(kernels);
        bool right = call.intact();
        for (std::size_t r = 0; r < call.pitch; ++r) {
          const TestType weight = cases[(first + r) % 12].weight;
          right = right && same_number(call.scores[r], weight) &&
                  same_number(call.sum[r],
                              std::isnan(cases[(first + r) % 12].row_max) ? nan : 1 + weight);
        }
        INFO("vectors " << vectors << " first case " << first);
        CHECK(right);
      }
  });
}
