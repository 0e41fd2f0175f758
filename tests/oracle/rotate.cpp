#include "tests/oracle/rotate.hpp"

#include <cmath>

#include "tests/oracle/rounding.hpp"

namespace heed_test {
namespace {

using Exact = long double;

constexpr Exact kRounding = kUnitOf<double>;

/// The cosine and sine that a pair is turned by, and how far off heed's may be.
struct Turn {
  Exact cosine, sine;
  Exact error;  ///< of either
};

/// heed's angle p * pow(base, e) has an exponent e off by u |e|, which is a factor of
/// 1 + u |e ln base|, a power off by one last digit, 2 u, and a product. Cosine and sine are no
/// steeper than 1 and again off by one last digit, 2 u at most, before they are rounded to Real.
Turn turn_of(const heed_rotary& rotary, Index turned, Index pair, Index position, Exact unit) {
  if (rotary.table_rows > 0) {
    const Index stride = rotary.table_stride == 0 ? turned / 2 : rotary.table_stride;
    return {rotary.cosines[position * stride + pair], rotary.sines[position * stride + pair], 0};
  }
  const Exact base = rotary.base == 0 ? 10000 : rotary.base;
  const Exact exponent = -2 * static_cast<Exact>(pair) / static_cast<Exact>(turned);
  const Exact angle = static_cast<Exact>(position) * std::pow(base, exponent);
  if (angle == 0) return {1, 0, 0};
  const Exact off =
      std::fabs(angle) * std::expm1(kRounding * (std::fabs(exponent * std::log(base)) + 4));
  return {std::cos(angle), std::sin(angle), off + 2 * kRounding + unit};
}

/// a * x + b * y as heed computes it, with x and y off by `error`.
Element sum_of(Exact a, Exact x, Exact b, Exact y, const Turn& turn, std::uint32_t dtype) {
  const bool wide = dtype == HEED_DTYPE_F64;
  if (std::isnan(a) || std::isnan(b)) return {kNaN, 0};
  // The sign of what an infinity is multiplied with must be known.
  if (std::isinf(a) || std::isinf(b)) {
    if (turn.error > 0 && std::min(std::fabs(x), std::fabs(y)) <= turn.error) return kUnspecified;
    return {static_cast<double>(a * x + b * y), 0};
  }
  const Exact size = std::fabs(a) + std::fabs(b);
  const Exact product =
      std::fabs(a) * (std::fabs(x) + turn.error) + std::fabs(b) * (std::fabs(y) + turn.error);
  const Exact gamma = wide ? gamma_of<double>(2) : gamma_of(2);
  const Exact lost = 3 * (wide ? kUnderflowOf<double> : kUnderflow) * (1 + size);
  return stored(a * x + b * y, size * turn.error + gamma * product + lost, dtype,
                wide ? HEED_DTYPE_F64 : HEED_DTYPE_F32);
}

}  // namespace

std::vector<Element> expect_rotate(const heed_rotate_desc& desc, const Source& from,
                                   const std::int64_t* positions) {
  std::vector<Element> want;
  const heed_rotary& rotary = desc.rotary;
  const std::uint32_t dtype = dtype_of(desc.to.dtype, HEED_DTYPE_F32);
  const Exact unit = dtype == HEED_DTYPE_F64 ? 0 : static_cast<Exact>(kUnit);
  const Index turned = rotary.features == 0 ? desc.features : rotary.features;
  const bool halves = rotary.pairs == HEED_ROTARY_HALVES;
  if (desc.heads == 0 || desc.rows == 0) return want;
  for (Index b = 0; b < desc.batch; ++b)
    for (Index h = 0; h < desc.heads; ++h)
      for (Index i = 0; i < desc.rows; ++i) {
        const Index position =
            positions == nullptr ? desc.position + i : positions[b * desc.rows + i];
        for (Index x = 0; x < desc.features; ++x) {
          const auto number = [&](Index feature) {
            return static_cast<Exact>(from.at(b, h, i, feature));
          };
          if (x >= turned) {
            want.push_back(stored(number(x), Exact{0}, dtype, dtype_of(desc.from.dtype, HEED_DTYPE_F32)));
            continue;
          }
          const Index pair = halves ? x % (turned / 2) : x / 2;
          const bool first = halves ? x < turned / 2 : x % 2 == 0;
          const Exact a = number(halves ? pair : 2 * pair);
          const Exact c = number(halves ? pair + turned / 2 : 2 * pair + 1);
          const Turn turn = turn_of(rotary, turned, pair, position, unit);
          want.push_back(first ? sum_of(a, turn.cosine, -c, turn.sine, turn, dtype)
                               : sum_of(a, turn.sine, c, turn.cosine, turn, dtype));
        }
      }
  return want;
}

}  // namespace heed_test
