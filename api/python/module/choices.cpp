// Options that are words, numbers and flags.
#include <cmath>

#include "api/python/module/call.hpp"

namespace heed::python {
namespace {

/// What "top_left", "bottom_right" or an offset say.
struct Offset {
  std::uint32_t kind;  // heed_causal or heed_alignment, which count alike
  std::int64_t offset;
};
static_assert(static_cast<int>(HEED_CAUSAL_TOP_LEFT) == HEED_ALIGNMENT_TOP_LEFT &&
              static_cast<int>(HEED_CAUSAL_BOTTOM_RIGHT) == HEED_ALIGNMENT_BOTTOM_RIGHT &&
              static_cast<int>(HEED_CAUSAL_OFFSET) == HEED_ALIGNMENT_OFFSET);

Offset read_offset(const char* name, nb::handle from, const char* choices) {
  if (nb::isinstance<nb::str>(from)) {
    if (from.equal(nb::str("top_left"))) return {HEED_CAUSAL_TOP_LEFT, 0};
    if (from.equal(nb::str("bottom_right"))) return {HEED_CAUSAL_BOTTOM_RIGHT, 0};
    refuse("%s is %s; it must be %s", name, nb::repr(from).c_str(), choices);
  }
  if (!is_integer(from))
    refuse_type("%s must be %s, not %s", name, choices, type_text(from).c_str());
  return {HEED_CAUSAL_OFFSET, integer(name, from)};
}

void read_causal(heed_attention_desc& desc, nb::handle from) {
  if (from.ptr() == Py_False) return;
  const Offset read =
      from.ptr() == Py_True
          ? Offset{HEED_CAUSAL_TOP_LEFT, 0}
          : read_offset("causal", from, "False, True, \"top_left\", \"bottom_right\" or an int");
  desc.causal = read.kind;
  desc.causal_offset = read.offset;
}

std::int64_t bound(const char* name, nb::handle from) {
  if (from.is_none()) return -1;
  const std::int64_t value = integer(name, from);
  if (value < -1)
    refuse("%s is %lld; it must be a number of keys, at least 0, or None for no bound", name,
           static_cast<long long>(value));
  return value;
}

void read_window(heed_attention_desc& desc, nb::handle from) {
  if (PySequence_Check(from.ptr()) == 0 || nb::isinstance<nb::str>(from))
    refuse_type("window must be a pair (left, right), not %s", type_text(from).c_str());
  if (nb::len(from) != 2)
    refuse("window has %zu entries; it must be a pair (left, right)", nb::len(from));
  desc.window = 1;
  desc.window_left = bound("window[0]", from[0]);
  desc.window_right = bound("window[1]", from[1]);
}

/// A finite number other than 0, which C takes for "not given".
double factor(const char* name, nb::handle from, const char* for_zero) {
  const double value = number(name, from);
  if (!std::isfinite(value)) refuse("%s is %g; it must be finite", name, value);
  if (value == 0) refuse("%s is 0; %s", name, for_zero);
  return value;
}

std::uint32_t read_point(nb::handle from) {
  static constexpr const char* kPoints[] = {"scores", "capped", "masked", "probabilities"};
  static constexpr char kChoices[] =
      "False, True, \"scores\", \"capped\", \"masked\" or \"probabilities\"";
  if (from.ptr() == Py_False) return HEED_WEIGHTS_NONE;
  if (from.ptr() == Py_True) return HEED_WEIGHTS_PROBABILITIES;
  if (!nb::isinstance<nb::str>(from))
    refuse_type("return_weights must be %s, not %s", kChoices, type_text(from).c_str());
  for (std::uint32_t i = 0; i < 4; ++i)
    if (from.equal(nb::str(kPoints[i]))) return HEED_WEIGHTS_SCORES + i;
  refuse("return_weights is %s; it must be %s", nb::repr(from).c_str(), kChoices);
}

}  // namespace

void read_choices(heed_attention_desc& desc, const Options& options) {
  if (options.causal.is_valid()) read_causal(desc, options.causal);
  if (options.window.is_valid()) read_window(desc, options.window);
  if (options.alignment.is_valid()) {
    if (desc.causal != HEED_CAUSAL_NONE)
      refuse("alignment is given beside causal, which says itself where rows stand");
    const Offset read =
        read_offset("alignment", options.alignment, "\"top_left\", \"bottom_right\" or an int");
    desc.alignment = read.kind;
    desc.alignment_offset = read.offset;
  }
  if (options.scale.is_valid())
    desc.scale = factor("scale", options.scale,
                        "for weights that no score changes give temperature=float(\"inf\")");
  if (options.softcap.is_valid())
    desc.softcap = factor("softcap", options.softcap, "None is no cap");
  if (options.temperature.is_valid()) {
    desc.temperature = number("temperature", options.temperature);
    if (!(desc.temperature > 0))
      refuse("temperature is %g; it must be above 0 (hard=True is its limit)", desc.temperature);
  }
  if (options.hard.is_valid()) desc.hard = flag("hard", options.hard) ? 1 : 0;
  if (options.return_weights.is_valid()) desc.weights_point = read_point(options.return_weights);
  if (options.return_column_sums.is_valid())
    desc.sum_columns = flag("return_column_sums", options.return_column_sums) ? 1 : 0;
}

}  // namespace heed::python
