// add_rows: bias or mask rows, as they lie in memory, added to transposed scores.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// One number in `rarity` is special: -inf half the time, +inf or NaN.
template <class Real>
Real number_of(Random& random, std::int64_t rarity) {
  if (random.integer(1, rarity) != 1) return 4 * random.normal<Real>();
  constexpr Real kInfinity = kInf<Real>;
  return random.pick(std::vector<Real>{-kInfinity, -kInfinity, kInfinity, not_a_number<Real>()});
}

/// Rows to add, each at the very end of an allocation of its own and so at any alignment: an
/// AddressSanitizer sees who reads past it. Some rows are the same.
template <class Real>
class Addends {
 public:
  template <class Next>
  Addends(std::size_t row_count, std::size_t keys, Next&& next) {
    for (std::size_t r = 0; r < row_count; ++r) {
      const std::size_t before = (5 * r + keys) % 16;
      storage_.emplace_back(before + keys);
      for (std::size_t j = 0; j < keys; ++j) storage_[r][before + j] = next();
      pointers_.push_back(r % 4 == 3 ? pointers_[r - 2] : storage_[r].data() + before);
    }
  }

  const Real* const* data() const { return pointers_.data(); }
  Real at(std::size_t r, std::size_t j) const { return pointers_[r][j]; }

 private:
  std::vector<std::vector<Real>> storage_;
  std::vector<const Real*> pointers_;  // exactly row_count of them
};

/// Calls check(scores before, scores after, addends, row count) after add_rows, for a few
/// numbers of rows.
template <class Real, class Score, class Addend, class Check>
void run(const Table<Real>& kernels, std::size_t keys, std::size_t vectors, Real factor,
         Score&& score, Addend&& addend, Check&& check) {
  const std::size_t pitch = vectors * kernels.panels.lanes;
  std::vector<std::size_t> row_counts = {pitch, pitch - 1, pitch - kernels.panels.lanes + 1, 1};
  if (keys < pitch) row_counts.push_back(keys);
  for (const std::size_t row_count : row_counts) {
    INFO(row_count << " rows, factor " << factor);
    const Addends<Real> addends(row_count, keys, addend);
    BasicBuffer<Real> scores(keys * pitch);
    scores.fill(score);
    const BasicBuffer<Real> before = scores;
    kernels.panels.add_rows(vectors, scores.data(), keys, addends.data(), row_count, factor);
    CHECK(scores.intact());
    check(before, scores, addends, row_count);
  }
}

/// What becomes of a score: error / bound.
template <class Real>
double check_sum(Real score, Real addend, Real factor, Real got) {
  if (addend == -kInf<Real>) return same_bits(got, addend) ? 0 : HUGE_VAL;
  Wide<Real> product = static_cast<Wide<Real>>(addend) * factor;
  if (product < -static_cast<Wide<Real>>(kMax<Real>)) product = -kMax<Real>;
  const Wide<Real> bound = gamma_of<Real>(1) * std::fabs(static_cast<Wide<Real>>(score)) +
                           gamma_of<Real>(2) * std::fabs(product) + kUnderflowOf<Real>;
  return error_ratio<Real>(got, score + product, bound);
}

}  // namespace

TEMPLATE_TEST_CASE("add_rows adds rows times a factor", "[add_rows]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    double worst = 0;
    sweep_tiles([&](std::size_t keys, std::size_t vectors, Random& random) {
      const auto next = [&] { return number_of<TestType>(random, 8); };
      for (const TestType factor :
           {static_cast<TestType>(kLog2E), TestType{1}, TestType{-0.3F}, TestType{0}})
        run(kernels, keys, vectors, factor, next, next,
            [&](const auto& before, const auto& after, const auto& addends, std::size_t rows) {
              const std::size_t pitch = vectors * kernels.panels.lanes;
              double ratio = 0;
              bool others = true;
              for (std::size_t j = 0; j < keys; ++j)
                for (std::size_t r = 0; r < pitch; ++r) {
                  const std::size_t at = j * pitch + r;
                  if (r < rows)
                    ratio =
                        std::max(ratio, check_sum(before[at], addends.at(r, j), factor, after[at]));
                  else
                    others = others && same_number(before[at], after[at]);
                }
              CHECK(ratio <= 1);
              CHECK(others);
              worst = std::max(worst, ratio);
            });
    });
    report("add_rows", kernels, worst);
  });
}

TEMPLATE_TEST_CASE("add_rows: an addend of -inf masks whatever the score and the factor",
                   "[add_rows]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    constexpr TestType inf = kInf<TestType>;
    const std::vector<TestType> all = {0,   TestType{-0.0F},          1,   -1, kMax<TestType>,
                                       inf, not_a_number<TestType>(), -inf};
    sweep_tiles([&](std::size_t keys, std::size_t vectors, Random& random) {
      for (const TestType factor : all)
        run(
            kernels, keys, vectors, factor, [&] { return random.pick(all); }, [&] { return -inf; },
            [&](const auto& before, const auto& after, const auto&, std::size_t rows) {
              const std::size_t pitch = vectors * kernels.panels.lanes;
              bool right = true;  // and rows that are not there stay as they are
              for (std::size_t i = 0; i < keys * pitch; ++i)
                right = right && same_number(after[i], i % pitch < rows ? -inf : before[i]);
              CHECK(right);
            });
    });
  });
}

TEMPLATE_TEST_CASE("add_rows rounds once where the factor is a power of two", "[add_rows]", float,
                   double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    sweep_tiles([&](std::size_t keys, std::size_t vectors, Random& random) {
      const auto next = [&] { return random.normal<TestType>(); };
      for (const TestType factor : {TestType{1}, TestType{-0.25F}})
        run(kernels, keys, vectors, factor, next, next,
            [&](const auto& before, const auto& after, const auto& addends, std::size_t rows) {
              const std::size_t pitch = vectors * kernels.panels.lanes;
              bool equal = true;
              for (std::size_t j = 0; j < keys; ++j)
                for (std::size_t r = 0; r < rows; ++r) {
                  const std::size_t at = j * pitch + r;
                  equal = equal && after[at] == before[at] + addends.at(r, j) * factor;
                }
              CHECK(equal);
            });
    });
  });
}
