// The instruction sets compiled in, and which of them this machine can run.
#pragma once

#include <cstddef>

#include "engine/kernels/table.hpp"

namespace heed {

struct Isa {
  const Kernels* kernels;
  bool (*usable)();  ///< asks the CPU and the operating system, never assumes
};

/// From the plainest to the widest; the first is always usable.
std::size_t isa_count();
const Isa& isa_at(std::size_t index);

/// The kernels of the named instruction set, or of the widest usable one for nullptr. Throws
/// an Error that lists the choices; `source` names where the name came from.
const Kernels& choose_isa(const char* name, const char* source);

}  // namespace heed
