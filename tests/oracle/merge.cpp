#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/oracle/dense.hpp"
#include "tests/oracle/rounding.hpp"

namespace heed_test {
namespace {

using Exact = long double;

constexpr Exact kRounding = kUnitOf<double>;

/// The shares of the parts in one row, and how far off heed's may be.
struct Shares {
  std::vector<Exact> share;  ///< adding up to 1, or all 0
  std::vector<bool> empty;   ///< whether the part's numbers are not looked at
  std::vector<Exact> error;  ///< relative, in numerator and denominator alike
  Exact sum_error = 0;       ///< of the denominator, relative
  Exact lse;
  Exact lse_bound = 0;
};

/// heed's weight e^x of a part, x = lse_k - m, has an argument off by u |x| and a function off by
/// one last digit, 2 u; it then takes part in a product and in a sum of n terms: gamma(n).
Shares shares_of(const std::vector<Exact>& lses) {
  Exact top = -kInfinite<Exact>;
  bool nan = false;
  for (const Exact l : lses) {
    nan = nan || std::isnan(l);
    top = std::max(top, l);
  }
  Shares shares;
  shares.lse = nan ? std::numeric_limits<Exact>::quiet_NaN() : top;
  shares.share.assign(lses.size(), nan ? shares.lse : 0);
  shares.empty.assign(lses.size(), !nan && top == -kInfinite<Exact>);
  shares.error.assign(lses.size(), gamma_of<double>(static_cast<Exact>(lses.size())));
  if (nan || top == -kInfinite<Exact>) return shares;
  Exact sum = 0;
  for (std::size_t k = 0; k < lses.size(); ++k) {
    const Exact x = std::isinf(top) ? (lses[k] == top ? 0 : -kInfinite<Exact>) : lses[k] - top;
    shares.share[k] = std::exp(x);
    shares.empty[k] = x == -kInfinite<Exact>;
    if (shares.share[k] > 0)
      shares.error[k] += std::expm1(kRounding * std::fabs(x) + 3 * kRounding);
    sum += shares.share[k];
  }
  for (std::size_t k = 0; k < lses.size(); ++k) {
    shares.share[k] /= sum;
    shares.sum_error += shares.share[k] * shares.error[k];
  }
  shares.lse += std::log(sum);
  if (std::isinf(top)) return shares;
  shares.lse_bound = -std::log1p(-shares.sum_error) + 2 * kRounding * std::log(sum) +
                     kRounding * std::fabs(shares.lse);
  return shares;
}

/// The mean of the parts' numbers; empty parts, and finite ones beside +inf, are not looked at.
Element mean_of(const Shares& shares, const std::vector<Exact>& numbers, std::uint32_t dtype) {
  Exact sum = 0;
  Exact error = 0;
  Exact magnitude = 0;
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    if (shares.empty[k]) continue;
    // 0 times infinity: how small a weight is no 0 depends on the type.
    if (std::isinf(numbers[k]) && shares.share[k] < kSmallestOf<double>) return kUnspecified;
    sum += shares.share[k] * numbers[k];
    error += shares.share[k] * shares.error[k] * std::fabs(numbers[k]);
    magnitude = std::max(magnitude, std::fabs(numbers[k]));
  }
  if (std::isnan(sum)) return {kNaN, 0};
  if (std::isinf(sum)) return {static_cast<double>(sum), 0};
  const Exact b = shares.sum_error;
  const Exact quotient = (error + b * std::fabs(sum)) / (1 - b);
  // Weights and products that underflow.
  const Exact lost = static_cast<Exact>(numbers.size()) * 0x1p-1073L * (1 + magnitude);
  return stored(sum, quotient + kRounding * (std::fabs(sum) + quotient) + lost, dtype,
                HEED_DTYPE_F64);
}

}  // namespace

Expected expect_merge(const heed_merge_desc& desc, const std::vector<Source>& outs,
                      const std::vector<Source>& lses) {
  Expected want;
  const std::uint32_t out_dtype = dtype_of(desc.out.dtype, HEED_DTYPE_F32);
  const std::uint32_t lse_dtype = dtype_of(desc.lse.dtype, HEED_DTYPE_F32);
  const auto row = [&](Index b, Index h, Index i) {
    const auto numbers = [&](const std::vector<Source>& parts, Index x) {
      std::vector<Exact> all;
      for (const Source& part : parts) all.push_back(static_cast<Exact>(part.at(b, h, i, x)));
      return all;
    };
    const Shares shares = shares_of(numbers(lses, 0));
    want.lse.push_back(stored(shares.lse, shares.lse_bound, lse_dtype, HEED_DTYPE_F64));
    for (Index x = 0; x < desc.features; ++x)
      want.out.push_back(mean_of(shares, numbers(outs, x), out_dtype));
  };
  if (desc.heads == 0 || desc.rows == 0) return want;  // however many batches there are
  for (Index b = 0; b < desc.batch; ++b)
    for (Index h = 0; h < desc.heads; ++h)
      for (Index i = 0; i < desc.rows; ++i) row(b, h, i);
  return want;
}

}  // namespace heed_test
