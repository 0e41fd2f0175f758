#include "api/python/module/combine.hpp"

namespace heed::python {

std::uint32_t read_combine(nb::handle from, heed_combine last) {
  static constexpr const char* kNames[] = {"concat", "weighted", "mean", "max", "tensor"};
  std::string choices;
  for (std::uint32_t i = 0; i <= static_cast<std::uint32_t>(last); ++i) {
    if (nb::isinstance<nb::str>(from) && from.equal(nb::str(kNames[i]))) return i;
    choices += (i == 0                                  ? "\""
                : i == static_cast<std::uint32_t>(last) ? " or \""
                                                        : ", \"") +
               std::string(kNames[i]) + "\"";
  }
  if (!nb::isinstance<nb::str>(from))
    refuse_type("combine must be %s, not %s", choices.c_str(), type_text(from).c_str());
  refuse("combine is %s; it must be %s", nb::repr(from).c_str(), choices.c_str());
}

const void* read_head_weights(std::uint32_t combine, nb::handle from, bool float64,
                              std::int64_t heads, Reals& reals) {
  const bool wanted = combine == HEED_COMBINE_WEIGHTED;
  if (wanted == from.is_none())
    refuse("head_weights %s; %s", wanted ? "is None" : "is given",
           wanted ? "combine=\"weighted\" needs a number for each head"
                  : "only combine=\"weighted\" has them");
  return read_reals("head_weights", wanted ? from : nb::handle(), float64, heads, reals);
}

}  // namespace heed::python
