// What options do to scores: alibi, add_rows, mask_rows and mask.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// One number in `rarity` each is NaN, +inf or -inf.
template <class Real>
Real score_of(Random& random, std::int64_t rarity) {
  const std::int64_t kind = random.integer(1, rarity);
  return kind == 1   ? not_a_number<Real>()
         : kind == 2 ? kInf<Real>
         : kind == 3 ? -kInf<Real>
                     : 20 * random.normal<Real>();
}

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

/// The worst error(before, after, position, slope, key) of alibi.
template <class Real, class Score, class Error>
double check_alibi(const Table<Real>& kernels, const Case& c, const BasicBuffer<Real>& position,
                   const BasicBuffer<Real>& slope, Score&& score, Error&& error) {
  return change_scores<Real>(
      c, score,
      [&](Real* scores) {
        kernels.panels.alibi(c.vectors, scores, c.keys, position.data(), slope.data());
      },
      [&](Real before, Real after, std::size_t j, std::size_t r) {
        return error(before, after, position[r], slope[r], static_cast<Real>(j));
      },
      position, slope);
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

/// The worst error(before, after, addend) of add_rows, for a few numbers of rows; rows that are not
/// there stay as they are.
template <class Real, class Score, class Addend, class Error>
double check_add_rows(const Table<Real>& kernels, const Case& c, Real factor, Score&& score,
                      Addend&& addend, Error&& error) {
  double worst = 0;
  for (const std::size_t rows : row_counts(c)) {
    INFO(rows << " rows, factor " << factor);
    const Addends<Real> addends(rows, c.keys, addend);
    const double ratio = change_scores<Real>(
        c, score,
        [&](Real* scores) {
          kernels.panels.add_rows(c.vectors, scores, c.keys, addends.data(), rows, factor);
        },
        [&](Real before, Real after, std::size_t j, std::size_t r) {
          return r < rows ? error(before, after, addends.at(r, j))
                          : wrong_unless(same_number(before, after));
        });
    CHECK(ratio <= 1);
    worst = std::max(worst, ratio);
  }
  return worst;
}

using Bytes = std::vector<std::uint8_t>;

/// Rows of bytes, each with memory of its own that ends where it does. Most bytes are 0, 1 or 255,
/// some have a single bit set.
std::vector<Bytes> draw_bytes(std::size_t rows, std::size_t keys, Random& random) {
  std::vector<Bytes> bytes(rows, Bytes(keys));
  for (Bytes& row : bytes)
    for (std::uint8_t& byte : row) {
      const std::int64_t kind = random.integer(0, 5);
      byte = kind < 3    ? std::uint8_t{0}
             : kind == 3 ? std::uint8_t{1}
             : kind == 4 ? std::uint8_t{255}
                         : static_cast<std::uint8_t>(1U << random.integer(0, 7));
    }
  return bytes;
}

/// Whether a score is what a mask leaves: the same bits, or -inf.
template <class Real>
double check_masked(Real before, Real after, bool kept) {
  return wrong_unless(same_bits(after, kept ? before : -kInf<Real>));
}

template <class Real, class Score>
double check_mask_rows(const Table<Real>& kernels, const Case& c, const std::vector<Bytes>& bytes,
                       Score&& score) {
  std::vector<const std::uint8_t*> rows;
  for (const Bytes& row : bytes) rows.push_back(row.data());
  return change_scores<Real>(
      c, score,
      [&](Real* scores) {
        kernels.panels.mask_rows(c.vectors, scores, c.keys, rows.data(), rows.size());
      },
      [&](Real before, Real after, std::size_t j, std::size_t r) {
        return check_masked(before, after, r >= rows.size() || bytes[r][j] != 0);
      });
}

/// Bounds of every kind: none, all, before the first key, past the end, and each number between.
template <class Real>
Real bound_of(std::size_t kind, std::size_t keys, Random& random) {
  if (kind % 5 == 0) return 0;
  if (kind % 5 == 1) return static_cast<Real>(keys);
  if (kind % 5 == 2) return static_cast<Real>(keys + 100);
  if (kind % 5 == 3) return -static_cast<Real>(random.integer(1, 1000000));
  return static_cast<Real>(random.integer(0, static_cast<std::int64_t>(keys)));
}

}  // namespace

// The score sees one rounding, the bias that of its product and the sum, and of the distance where
// that is not a Real.
TEMPLATE_TEST_CASE("alibi takes slope times distance off every score", "[alibi]", float, double) {
  using Real = TestType;
  for_each_case<Real>(tiles(), [](const auto& kernels, const Case& c, Random& random) {
    const auto position =
        filled<Real>(c.pitch, [&](std::size_t r) { return position_of<Real>(r, c.keys, random); });
    const auto slope =
        filled<Real>(c.pitch, [&](std::size_t r) { return slope_of<Real>(r, random); });
    return check_alibi(
        kernels, c, position, slope, [&] { return score_of<Real>(random, 20); },
        [](Real before, Real after, Wide<Real> at, Wide<Real> factor, Wide<Real> key) {
          if (factor == 0 && !std::isnan(before)) return wrong_unless(same_bits(before, after));
          const Wide<Real> distance = std::fabs(at - key);
          const Wide<Real> bias = factor * distance;
          const Wide<Real> score = before;
          const bool exact = static_cast<Wide<Real>>(static_cast<Real>(distance)) == distance;
          const Wide<Real> bound = gamma_of<Real>(1) * std::fabs(score) +
                                   gamma_of<Real>(exact ? 2 : 3) * std::fabs(bias) +
                                   kUnderflowOf<Real>;
          return error_ratio<Real>(after, score - bias, bound);
        });
  });
}

TEMPLATE_TEST_CASE("alibi is exact where the numbers are whole", "[alibi]", float, double) {
  using Real = TestType;
  for_each_case<Real>(tiles(), [](const auto& kernels, const Case& c, Random& random) {
    const auto whole = [&](std::int64_t most) {
      return [&random, most] { return static_cast<Real>(random.integer(-most, most)); };
    };
    const auto power = [&] { return std::ldexp(Real{1}, static_cast<int>(random.integer(-8, 0))); };
    return check_alibi(kernels, c, filled<Real>(c.pitch, whole(200)), filled<Real>(c.pitch, power),
                       whole(1000),
                       [](Real before, Real after, Real position, Real slope, Real key) {
                         return wrong_unless(after == before - slope * std::fabs(position - key));
                       });
  });
}

TEMPLATE_TEST_CASE("add_rows adds rows times a factor", "[add_rows]", float, double) {
  using Real = TestType;
  for_each_case<Real>(tiles(), [](const auto& kernels, const Case& c, Random& random) {
    const auto next = [&] { return score_of<Real>(random, 20); };
    double worst = 0;
    for (const Real factor : {static_cast<Real>(kLog2E), Real{1}, Real{0.3F}, Real{0}}) {
      const auto error = [factor](Real before, Real after, Real addend) {
        if (addend == -kInf<Real>) return wrong_unless(same_bits(after, addend));
        Wide<Real> product = static_cast<Wide<Real>>(addend) * factor;
        const Wide<Real> score = before;
        const Wide<Real> bound = gamma_of<Real>(1) * std::fabs(score) +
                                 gamma_of<Real>(2) * std::fabs(product) + kUnderflowOf<Real>;
        return error_ratio<Real>(after, score + product, bound);
      };
      worst = std::max(worst, check_add_rows(kernels, c, factor, next, next, error));
    }
    return worst;
  });
}

// What is finite stays finite, and below what stands for +inf; the other numbers as IEEE 754 has
// them.
TEMPLATE_TEST_CASE("add_rows: finite numbers have finite products and sums", "[add_rows]", float,
                   double) {
  using Real = TestType;
  constexpr Real most = kMax<Real>;
  static const std::vector<Real> any = {
      0, 1, most, -most, most / 2, -most / 2, kInf<Real>, -kInf<Real>, not_a_number<Real>()};
  for_each_case<Real>(tiles(), [](const auto& kernels, const Case& c, Random& random) {
    const auto next = [&] { return random.pick(any); };
    for (const Real factor : {static_cast<Real>(kLog2E), Real{1}, Real{7}, Real{0}})
      check_add_rows(
          kernels, c, factor, next, next, [factor](Real before, Real after, Real addend) {
            const auto held = [](Real x, bool finite) {
              if (!finite || !std::isinf(x)) return x;
              return x < 0 ? -most : std::nextafter(most, Real{0});
            };
            const bool finite = std::isfinite(addend);
            const Real product = held(addend * factor, finite);
            const Real sum = held(before + product, finite && std::isfinite(before));
            return wrong_unless(same_number(after, addend == -kInf<Real> ? addend : sum));
          });
    return 0.0;
  });
}

TEMPLATE_TEST_CASE("add_rows: an addend of -inf masks whatever the score and the factor",
                   "[add_rows]", float, double) {
  constexpr TestType inf = kInf<TestType>;
  static const std::vector<TestType> any = {0,   TestType{-0.0F},          1,   -1, kMax<TestType>,
                                            inf, not_a_number<TestType>(), -inf};
  for_each_case<TestType>(tiles(), [](const auto& kernels, const Case& c, Random& random) {
    for (const TestType factor : any)
      check_add_rows(
          kernels, c, factor, [&] { return random.pick(any); }, [] { return -inf; },
          [](TestType, TestType after, TestType) { return wrong_unless(after == -inf); });
  });
}

TEMPLATE_TEST_CASE("add_rows rounds once where the factor is a power of two", "[add_rows]", float,
                   double) {
  for_each_case<TestType>(tiles(), [](const auto& kernels, const Case& c, Random& random) {
    const auto next = [&] { return random.normal<TestType>(); };
    for (const TestType factor : {TestType{1}, TestType{0.25F}})
      check_add_rows(kernels, c, factor, next, next,
                     [factor](TestType before, TestType after, TestType addend) {
                       return wrong_unless(after == before + addend * factor);
                     });
  });
}

TEMPLATE_TEST_CASE("mask_rows excludes a key where the row's byte is 0", "[mask_rows]", float,
                   double) {
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    const auto rows =
        static_cast<std::size_t>(random.integer(1, static_cast<std::int64_t>(c.pitch)));
    return check_mask_rows(kernels, c, draw_bytes(rows, c.keys, random),
                           [&] { return score_of<TestType>(random, 10); });
  });
}

TEMPLATE_TEST_CASE("mask_rows tells all bytes apart from 0, each on its own", "[mask_rows]", float,
                   double) {
  const std::vector<Case> cases = {{1, 0, 128, true, 0}};
  for_each_case<TestType>(cases, [](const auto& kernels, const Case& c, Random&) {
    double worst = 0;
    for (unsigned value = 0; value < 256; ++value)
      for (const unsigned others : {0U, 255U}) {
        Bytes row(c.keys, static_cast<std::uint8_t>(others));
        row[value % c.keys] = static_cast<std::uint8_t>(value);
        worst = std::max(worst, check_mask_rows(kernels, c, std::vector<Bytes>(c.pitch, row),
                                                [] { return TestType{1}; }));
      }
    return worst;
  });
}

TEMPLATE_TEST_CASE("mask excludes the keys before each row's first and from its limit on", "[mask]",
                   float, double) {
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    const auto limit = filled<TestType>(
        c.pitch, [&](std::size_t r) { return bound_of<TestType>(r, c.keys, random); });
    // Every pair of kinds: empty ranges, and whole ones.
    const auto first = filled<TestType>(c.pitch, [&](std::size_t r) {
      return r % 11 == 10 ? limit[r] : bound_of<TestType>(c.features + r / 5, c.keys, random);
    });
    return change_scores<TestType>(
        c, [&] { return score_of<TestType>(random, 10); },
        [&](TestType* scores) {
          kernels.panels.mask(c.vectors, scores, c.keys, first.data(), limit.data());
        },
        [&](TestType before, TestType after, std::size_t j, std::size_t r) {
          const auto key = static_cast<TestType>(j);
          return check_masked(before, after, first[r] <= key && key < limit[r]);
        },
        first, limit);
  });
}
