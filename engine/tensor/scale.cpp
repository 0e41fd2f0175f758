#include "engine/tensor/scale.hpp"

#include <cmath>

#include "engine/runtime/error.hpp"
#include "engine/tensor/layout.hpp"

namespace heed {
namespace {

/// A factor must not overflow: 0 times infinity would be NaN.
void check_factor(bool float64, const char* field, double value, double factor) {
  const double largest = float64 ? 1.7976931348623157e+308 : 3.4028234663852886e+38;
  if (!(std::fabs(factor) <= largest))
    refuse("desc.%s is %g; with it scores would be multiplied by %g, which must be at most %g",
           field, value, factor, largest);
}

}  // namespace

Scaling resolve_scaling(double scale, double softcap, double temperature, std::uint32_t hard,
                        std::int64_t features, bool float64) {
  check_choice("hard", hard, "a switch", 1);
  if (!std::isfinite(scale)) refuse("desc.scale is %g; it must be finite", scale);
  if (!(softcap >= 0 && std::isfinite(softcap)))
    refuse("desc.softcap is %g; it must be finite and at least 0", softcap);
  if (!(temperature >= 0))
    refuse("desc.temperature is %g; it must be above 0, or 0 for the default 1", temperature);
  if (hard != 0 && temperature != 0)
    refuse("desc.temperature is %g; it must be 0 with desc.hard", temperature);
  Scaling s{};
  s.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(features));
  s.softcap = softcap;
  s.temperature = temperature == 0 ? 1 : temperature;
  s.hard = hard != 0;
  s.log2_unit = kLog2E / s.temperature;
  check_factor(float64, "temperature", s.temperature, s.log2_unit);
  check_factor(float64, "scale", s.scale, s.scale * s.log2_unit);
  if (s.softcap == 0) return s;
  s.cap_scale = 2 * kLog2E * s.scale / s.softcap;
  check_factor(float64, "softcap", s.softcap, s.cap_scale);
  check_factor(float64, "softcap", s.softcap, s.softcap * s.log2_unit);
  return s;
}

}  // namespace heed
