// Rotary embedding, as heed.rotate and caches are told about it.
#pragma once

#include "api/python/module/array.hpp"

namespace heed::python {

struct Rotary {
  heed_rotary rotary = HEED_ROTARY_INIT;
  Array cosines;  // whoever keeps the Rotary keeps these objects
  Array sines;
};

/// The arguments of these names; all but `pairs` may be None.
Rotary read_rotary(nb::handle pairs, nb::handle base, nb::handle features, nb::handle cosines,
                   nb::handle sines);

}  // namespace heed::python
