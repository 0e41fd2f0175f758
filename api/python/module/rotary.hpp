// Rotary embedding, as heed.rotate and caches are told about it.
#pragma once

#include "api/python/module/numbers.hpp"

namespace heed::python {

struct Rotary {
  heed_rotary rotary = HEED_ROTARY_INIT;
  Array cosines;  // whoever keeps the Rotary keeps these objects
  Array sines;
};

/// Positions as C has them, [batch, rows]; given may be [rows] for all.
Vector<std::int64_t> read_positions(nb::handle from, std::int64_t batch, std::int64_t rows);

/// The arguments of these names; all but `pairs` may be None.
Rotary read_rotary(nb::handle pairs, nb::handle base, nb::handle features, nb::handle cosines,
                   nb::handle sines);

}  // namespace heed::python
