// The instruction sets compiled in, and which of them this machine can run.
#pragma once

#include <cstddef>

#include "engine/context/cpu.hpp"
#include "engine/kernels/table.hpp"

namespace heed {

struct Isa {
  const Kernels* kernels;
  bool (*usable)();                    ///< asks the CPU and the operating system, never assumes
  bool (*faster)(const CpuName& cpu);  ///< than those before it, where it is usable
};

/// From the plainest to the widest; the first is always usable.
std::size_t isa_count();
const Isa& isa_at(std::size_t index);

/// The kernels of the named instruction set, or for nullptr of the last that is usable and faster
/// on this CPU. Throws an Error that lists the choices; `source` names where the name came from.
const Kernels& choose_isa(const char* name, const char* source, const CpuName& cpu);

/// Whether the pairs of AVX512-BF16 are faster than float32 on the CPU of this name, which has
/// them. Measured: on Zen 4 they do twice the products in a cycle, on Sapphire Rapids less than
/// half. So they are on AMD's families from 25 on, where Zen 4 is the first with AVX512-BF16, and
/// nowhere else.
bool has_fast_pairs(const CpuName& cpu);

}  // namespace heed
