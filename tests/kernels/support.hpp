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
  bool unit;  ///< features of a matrix lie side by side

  std::string line() const {
    std::ostringstream text;
    text << "vectors " << vectors << " features " << features << " keys " << keys
         << (unit ? " unit" : " strided");
    return text.str();
  }
};

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

/// Calls function(case, generator seeded for the case) for every combination.
template <class Function>
void sweep(Function&& function) {
  std::size_t index = 0;
  for (const std::size_t features : feature_counts())
    for (const std::size_t keys : key_counts())
      for (const bool unit : {true, false})
        for (std::size_t vectors = 1; vectors <= 3; ++vectors, ++index) {
          if (!keep(index)) continue;
          const Case c = {vectors, features, keys, unit};
          Random random(index + 1);
          INFO(c.line());
          function(c, random);
        }
}

/// The same for kernels that see no features: every number of keys and of vectors, and the
/// generator. A small one keeps every 5th: 5 divides neither dimension.
template <class Function>
void sweep_tiles(Function&& function) {
  std::size_t index = 0;
  for (const std::size_t keys : key_counts())
    for (std::size_t vectors = 1; vectors <= 3; ++vectors) {
      Random random(++index);
      if (small() && index % 5 != 0) continue;
      INFO("vectors " << vectors << " keys " << keys);
      function(keys, vectors, random);
    }
}

/// A row-major matrix whose rows, and features if not `unit`, lie apart with canaries between
/// them; some rows lie in reverse order.
template <class Real>
class Matrix {
 public:
  Matrix(std::size_t rows, std::size_t columns, bool unit)
      : columns_(columns),
        step_(unit ? 1 : 3),
        row_stride_(static_cast<std::ptrdiff_t>(columns) * step_ + 5),
        buffer_(rows * static_cast<std::size_t>(row_stride_), 1) {
    if (!unit && rows > 0) {
      first_ = static_cast<std::ptrdiff_t>(rows - 1) * row_stride_;
      row_stride_ = -row_stride_;
    }
  }

  Real& at(std::size_t row, std::size_t column) { return buffer_[offset(row, column)]; }
  Real at(std::size_t row, std::size_t column) const { return buffer_[offset(row, column)]; }
  Real* row(std::size_t index) { return &at(index, 0); }
  std::ptrdiff_t row_stride() const { return row_stride_; }
  std::ptrdiff_t column_stride() const { return step_; }
  heed::MatrixView<Real> view() const {
    return {buffer_.data() + first_, row_stride_, static_cast<std::ptrdiff_t>(step_)};
  }

  void fill(std::size_t rows, Random& random) {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t x = 0; x < columns_; ++x) at(r, x) = random.normal<Real>();
  }

  /// Canaries that are still there; elements must not be canaries themselves.
  std::size_t canaries() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < buffer_.size(); ++i) count += is_canary(buffer_[i]) ? 1U : 0U;
    return count;
  }
  bool intact(std::size_t elements) const {
    return buffer_.intact() && canaries() == buffer_.size() - elements;
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

/// The same as without a table, of its type and instruction set.
template <class Real>
void report(const char* what, const Table<Real>& kernels, double ratio) {
  const char* const type = std::is_same_v<Real, float> ? ", float32" : ", float64";
  report((what + std::string(type)).c_str(), kernels.isa, ratio);
}

template <class Real>
bool same_bits(Real a, Real b) {
  return bits_of(a) == bits_of(b);
}

/// Equal but for the bits of NaN, which differ from processor to processor.
template <class Real>
bool same_number(Real a, Real b) {
  return same_bits(a, b) || (std::isnan(a) && std::isnan(b));
}

/// Same bits from element `begin` on, up to `end`.
template <class Real>
bool same_bits(const BasicBuffer<Real>& a, const BasicBuffer<Real>& b, std::size_t begin,
               std::size_t end) {
  bool equal = true;
  for (std::size_t i = begin; i < end; ++i) equal = equal && same_bits(a[i], b[i]);
  return equal;
}

}  // namespace heed_test
