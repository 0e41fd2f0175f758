// Sums of the weights of every key over the rows of a head: one number per row, in any order, which
// is off by gamma(rows) besides.
#pragma once

#include <cmath>
#include <vector>

#include "tests/oracle/row.hpp"

namespace heed_test {

template <class Real>
class ColumnSums {
  using Wide = typename Arithmetic<Real>::Wide;

 public:
  explicit ColumnSums(const heed_attention_desc& desc)
      : desc_(desc), sums_(static_cast<std::size_t>(desc.key_length), {0, 0}) {}

  /// All rows of the head, one after the other.
  void add(const Row<Real>& row, Index keys) {
    rows_ += 1;
    for (Index j = 0; j < keys; ++j) {
      const Bounded<Wide> p = row.probability_of(j);
      sums_[static_cast<std::size_t>(j)].value += p.value;
      sums_[static_cast<std::size_t>(j)].bound += p.bound;
    }
  }

  Element element(Index j) const {
    const Bounded<Wide>& sum = sums_[static_cast<std::size_t>(j)];
    if (std::isnan(sum.value) && std::isfinite(sum.bound)) return {kNaN, 0};
    const std::uint32_t real = real_dtype(desc_);
    return stored(sum.value, sum.bound + gamma_of<Real>(rows_) * (sum.value + sum.bound),
                  dtype_of(desc_.column_sums.dtype, real), real);
  }

 private:
  const heed_attention_desc& desc_;
  std::vector<Bounded<Wide>> sums_;
  Wide rows_ = 0;
};

}  // namespace heed_test
