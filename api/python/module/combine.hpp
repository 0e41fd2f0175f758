// How heads become one, in blocks and over graphs.
#pragma once

#include "api/python/module/call.hpp"

namespace heed::python {

/// A heed_combine by its name, up to `last`.
std::uint32_t read_combine(nb::handle from, heed_combine last);

/// Given if, and only if, `combine` is HEED_COMBINE_WEIGHTED.
const void* read_head_weights(std::uint32_t combine, nb::handle from, bool float64,
                              std::int64_t heads, Reals& reals);

}  // namespace heed::python
