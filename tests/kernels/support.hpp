// What the tests of the kernels share: sizes to sweep, panels, and matrices among canaries.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/dense/panel.hpp"
#include "tests/catch.hpp"
#include "tests/oracle/rounding.hpp"
#include "tests/support/buffer.hpp"
#include "tests/support/isas.hpp"
#include "tests/support/random.hpp"
#include "tests/support/size.hpp"

namespace heed_test {

template <class Real>
inline constexpr Real kInf = std::numeric_limits<Real>::infinity();
template <class Real>
inline constexpr Real kMax = std::numeric_limits<Real>::max();

/// A quiet NaN other than the canaries.
template <class Real>
Real not_a_number() {
  return real_of<Real>(bits_of(kInf<Real>) | bits_of(Real{1.5}) | 1U);
}

inline const std::vector<std::size_t>& feature_counts() {
  static const std::vector<std::size_t> counts = {1,  3,  8,  16,  20,  40,  64,
                                                  72, 80, 96, 112, 128, 160, 256};
  return counts;
}

inline const std::vector<std::size_t>& key_counts() {
  static const std::vector<std::size_t> counts = {1, 2, 7, 8, 15, 16, 17, 23, 24, 25, 64, 77, 128};
  return counts;
}

inline std::size_t round_up(std::size_t n, std::size_t step) {
  return (n + step - 1) / step * step;
}

/// An order of rows that is not theirs in memory, as when heads that share keys are stacked.
inline std::size_t scattered(std::size_t r, std::size_t rows) { return (2 * rows + 1 - r) % rows; }

/// One point of a sweep over sizes and ways to lay out a matrix.
struct Case {
  std::size_t vectors;
  std::size_t features;
  std::size_t keys;
  bool unit;              ///< features of a matrix lie side by side
  std::uint64_t seed;     ///< of its numbers
  std::size_t pitch = 0;  ///< rows of the panel

  void fit(std::size_t lanes) { pitch = vectors * lanes; }
  std::string line() const {
    std::ostringstream text;
    text << "vectors " << vectors << " features " << features << " keys " << keys
         << (unit ? " unit" : " strided");
    return text.str();
  }
};

/// Numbers of rows: a whole panel, one less, one in its last vector, and one more. `keys` serves
/// where it has no other meaning.
inline std::vector<std::size_t> row_counts(const Case& c) {
  return {c.pitch, c.pitch - 1, c.pitch - c.pitch / c.vectors + 1, c.keys < c.pitch ? c.keys : 1};
}

/// Every combination.
inline std::vector<Case> sizes() {
  std::vector<Case> cases;
  std::size_t index = 0;
  for (const std::size_t features : feature_counts())
    for (const std::size_t keys : key_counts())
      for (const bool unit : {true, false})
        for (std::size_t vectors = 1; vectors <= 3; ++vectors)
          if (keep(index++)) cases.push_back({vectors, features, keys, unit, index});
  return cases;
}

/// Those of kernels that see no features, with as many as are asked for: every number of keys and
/// of vectors. A small sweep keeps every 5th: 5 divides neither dimension.
inline std::vector<Case> tiles(std::size_t features = 0) {
  std::vector<Case> cases;
  std::size_t index = 0;
  for (const std::size_t keys : key_counts())
    for (std::size_t vectors = 1; vectors <= 3; ++vectors)
      if (++index; !small() || index % 5 == 0)
        cases.push_back({vectors, features, keys, true, index});
  return cases;
}

/// Every number of vectors.
inline std::vector<Case> panels(std::size_t features, std::size_t keys) {
  return {{1, features, keys, true, 1}, {2, features, keys, true, 2}, {3, features, keys, true, 3}};
}

/// Calls function(kernels, case, generator) for every case. What it returns, if anything, is an
/// error / bound, which must be at most 1.
template <class Real, class AnyCase, class Function>
void check_cases(const Table<Real>& kernels, std::vector<AnyCase> cases, Function&& function) {
  double worst = 0;
  for (AnyCase& c : cases) {
    c.fit(kernels.panels.lanes);
    Random random(c.seed);
    INFO(c.line());
    if constexpr (std::is_void_v<decltype(function(kernels, c, random))>) {
      function(kernels, c, random);
    } else {
      const double ratio = function(kernels, c, random);
      CHECK(ratio <= 1);
      worst = std::max(worst, ratio);
    }
  }
  const std::string name = Catch::getResultCapture().getCurrentTestName();
  if (worst > 0) report(name.c_str(), kernels.isa, worst);
}

/// The same on every instruction set.
template <class Real, class AnyCase, class Function>
void for_each_case(const std::vector<AnyCase>& cases, Function&& function) {
  for_each_table<Real>([&](const Table<Real>& kernels) { check_cases(kernels, cases, function); });
}

/// The same on those that multiply pairs in rows.
template <class AnyCase, class Function>
void for_each_row_pair_case(const std::vector<AnyCase>& cases, Function&& function) {
  for (const Table<float>* const kernels : usable_isas())
    if (kernels->row_pairs != nullptr) DYNAMIC_SECTION("pairs, " << kernels->isa) {
        check_cases(*kernels, cases, function);
      }
}

/// Whether holds(i) for all i < n, or holds(i, j) for all i < n and j < m.
template <class Holds>
bool all(std::size_t n, Holds&& holds) {
  for (std::size_t i = 0; i < n; ++i)
    if (!holds(i)) return false;
  return true;
}
template <class Holds>
bool all(std::size_t n, std::size_t m, Holds&& holds) {
  return all(n, [&](std::size_t i) { return all(m, [&](std::size_t j) { return holds(i, j); }); });
}

/// The largest ratio(i, j) for i < n and j < m, 0 at least.
template <class Ratio>
double worst_of(std::size_t n, std::size_t m, Ratio&& ratio) {
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < m; ++j) worst = std::max<double>(worst, ratio(i, j));
  return worst;
}

/// As an error / bound: nothing but the right result will do.
inline double wrong_unless(bool right) { return right ? 0 : HUGE_VAL; }

/// Ranges as limits make them: each end of a vector's is some keys after that of the vector before.
inline heed::KeyRanges draw_ranges(std::size_t keys, std::size_t vectors, Random& random) {
  const auto up_to = [&](std::size_t most) {
    return static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(most)));
  };
  heed::KeyRanges ranges = heed::all_keys(keys);
  const std::size_t middle = up_to(keys);  // where all have begun and none has ended
  for (std::size_t w = 1; w < vectors; ++w)
    ranges.begin[w] = ranges.begin[w - 1] + up_to(middle - ranges.begin[w - 1]);
  for (std::size_t w = vectors - 1; w > 0; --w)
    ranges.end[w - 1] = middle + up_to(ranges.end[w] - middle);
  return ranges;
}

inline bool needs(const heed::KeyRanges& ranges, std::size_t w, std::size_t j) {
  return j >= ranges.begin[w] && j < ranges.end[w];
}

/// Numbers among canaries, each what next() returns, or next(i).
template <class Real, class Next>
BasicBuffer<Real> filled(std::size_t size, Next&& next) {
  BasicBuffer<Real> numbers(size);
  for (std::size_t i = 0; i < size; ++i)
    if constexpr (std::is_invocable_v<Next, std::size_t>)
      numbers[i] = next(i);
    else
      numbers[i] = next();
  return numbers;
}
template <class Real>
BasicBuffer<Real> normals(std::size_t size, Random& random) {
  return filled<Real>(size, [&] { return random.normal<Real>(); });
}

/// A row-major matrix whose rows, and features if not `unit`, lie apart with canaries between
/// them; some rows lie in reverse order. Its features may lie `step` apart in any case.
template <class Real>
class Matrix {
 public:
  Matrix(std::size_t rows, std::size_t columns, bool unit, std::ptrdiff_t step = 0)
      : columns_(columns),
        step_(step != 0 ? step
              : unit    ? 1
                        : 3),
        row_stride_(static_cast<std::ptrdiff_t>(columns) * step_ + 5),
        buffer_(rows * static_cast<std::size_t>(row_stride_), 1) {
    if (!unit && rows > 0) {
      first_ = static_cast<std::ptrdiff_t>(rows - 1) * row_stride_;
      row_stride_ = -row_stride_;
    }
  }
  Matrix(std::size_t rows, std::size_t columns, bool unit, Random& random, std::ptrdiff_t step = 0)
      : Matrix(rows, columns, unit, step) {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t x = 0; x < columns; ++x) at(r, x) = random.normal<Real>();
  }

  Real& at(std::size_t row, std::size_t column) { return buffer_[offset(row, column)]; }
  Real at(std::size_t row, std::size_t column) const { return buffer_[offset(row, column)]; }
  Real* row(std::size_t index) { return &at(index, 0); }
  std::ptrdiff_t row_stride() const { return row_stride_; }
  std::ptrdiff_t column_stride() const { return step_; }
  heed::MatrixView<Real> view() const { return {buffer_.data() + first_, row_stride_, step_}; }
  /// Of features side by side.
  heed::RowsView<Real> rows() const { return {buffer_.data() + first_, row_stride_}; }

  /// Whether all but so many elements, which must not be canaries themselves, are canaries still.
  bool intact(std::size_t elements) const {
    const Real* const end = buffer_.data() + buffer_.size();
    const auto canaries = std::count_if(buffer_.data(), end, is_canary);
    return buffer_.intact() && static_cast<std::size_t>(canaries) == buffer_.size() - elements;
  }

 private:
  std::size_t offset(std::size_t row, std::size_t column) const {
    return static_cast<std::size_t>(first_ + static_cast<std::ptrdiff_t>(row) * row_stride_ +
                                    static_cast<std::ptrdiff_t>(column) * step_);
  }

  std::size_t columns_;
  std::ptrdiff_t step_;
  std::ptrdiff_t row_stride_;
  std::ptrdiff_t first_ = 0;
  BasicBuffer<Real> buffer_;
};

/// Error / bound, 0 for equal numbers and for NaN where NaN is expected.
template <class Real>
double error_ratio(Real got, Wide<Real> want, Wide<Real> bound) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : HUGE_VAL;
  if (got == want) return 0;
  const Wide<Real> error = std::fabs(got - want);
  return error <= bound ? static_cast<double>(error / bound) : HUGE_VAL;
}

/// The exact value of a sum of products and of what was there before, and how far off a computed
/// one may be: each term sees as many roundings as there are terms at most.
template <class Real>
struct Sum {
  Wide<Real> value = 0;
  Wide<Real> magnitude = std::fabs(value);
  Wide<Real> terms = value == 0 ? 0 : 1;
  Wide<Real> factors = 0;  ///< sizes of those that were multiplied
  Wide<Real> slack = 0;    ///< what it may be off by beside that

  void add(Wide<Real> a, Wide<Real> b) {
    value += a * b;
    magnitude += std::fabs(a * b);
    factors += std::fabs(a) + std::fabs(b);
    terms += 1;
  }
  double ratio(Real got) const { return ratio(got, terms); }
  /// For an order of summation in which no term sees more than `roundings`.
  double ratio(Real got, Wide<Real> roundings) const {
    const Wide<Real> bound =
        gamma_of<Real>(roundings) * magnitude + terms * kUnderflowOf<Real> + slack;
    return error_ratio(got, value, bound);
  }
};

template <class Real>
bool same_bits(Real a, Real b) {
  return bits_of(a) == bits_of(b);
}

/// Equal but for the bits of NaN, which differ from processor to processor.
template <class Real>
bool same_number(Real a, Real b) {
  return same_bits(a, b) || (std::isnan(a) && std::isnan(b));
}

/// Whether the first `n` elements have the same bits.
template <class Real>
bool same_bits(const BasicBuffer<Real>& a, const BasicBuffer<Real>& b, std::size_t n) {
  return all(n, [&](std::size_t i) { return same_bits(a[i], b[i]); });
}
template <class Real>
bool same_bits(const BasicBuffer<Real>& a, const BasicBuffer<Real>& b) {
  return a.size() == b.size() && same_bits(a, b, a.size());
}

/// Runs a kernel on the scores of a panel, which next() draws: the worst error(before, after, key,
/// row). Nothing is written around them, or around what else the kernel reads.
template <class Real, class Next, class Kernel, class Error, class... Inputs>
double change_scores(const Case& c, Next&& next, Kernel&& kernel, Error&& error,
                     const Inputs&... inputs) {
  auto scores = filled<Real>(c.keys * c.pitch, next);
  const auto before = scores;
  kernel(scores.data());
  CHECK((scores.intact() && ... && inputs.intact()));
  return worst_of(c.keys, c.pitch, [&](std::size_t j, std::size_t r) {
    return error(before[j * c.pitch + r], scores[j * c.pitch + r], j, r);
  });
}

}  // namespace heed_test
