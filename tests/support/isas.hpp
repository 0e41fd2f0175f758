// The instruction sets that tests loop over: all that are compiled in and that this CPU runs.
#pragma once

#include <vector>

#include "engine/runtime/isa.hpp"
#include "tests/catch.hpp"

namespace heed_test {

inline std::vector<const heed::KernelTable*> usable_isas() {
  std::vector<const heed::KernelTable*> usable;
  for (std::size_t i = 0; i < heed::isa_count(); ++i)
    if (heed::isa_at(i).usable()) usable.push_back(heed::isa_at(i).kernels);
  return usable;
}

/// One section per instruction set, named after it.
template <class Function>
void for_each_isa(Function&& function) {
  for (const heed::KernelTable* const kernels : usable_isas()) {
    DYNAMIC_SECTION(kernels->isa) { function(*kernels); }
  }
}

}  // namespace heed_test
