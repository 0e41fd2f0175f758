// The instruction sets that tests loop over: all that are compiled in and that this CPU runs.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "engine/context/isa.hpp"
#include "tests/catch.hpp"
#include "tests/support/size.hpp"

namespace heed_test {

template <class Real>
using Table = heed::KernelTable<Real>;

template <class Real>
const Table<Real>& table_of(const heed::Kernels& kernels) {
  if constexpr (std::is_same_v<Real, float>) return kernels.f32;
  if constexpr (std::is_same_v<Real, double>) return kernels.f64;
}

inline std::vector<const heed::Kernels*> usable_kernels() {
  std::vector<const heed::Kernels*> usable;
  for (std::size_t i = 0; i < heed::isa_count(); ++i) {
    const heed::Isa& isa = heed::isa_at(i);
    if (isa.usable() && wanted(isa.kernels.f32.isa)) usable.push_back(&isa.kernels);
  }
  return usable;
}

/// The same, each by its tables of float32: for those who need names, or lanes.
inline std::vector<const Table<float>*> usable_isas() {
  std::vector<const Table<float>*> usable;
  for (const heed::Kernels* const kernels : usable_kernels()) usable.push_back(&kernels->f32);
  return usable;
}

/// Whether float32 vectors of a usable instruction set have `fits(lanes)` lanes.
template <class Fits>
bool any_lanes(Fits&& fits) {
  for (const Table<float>* const isa : usable_isas())
    if (fits(static_cast<std::int64_t>(isa->panels.lanes))) return true;
  return false;
}

/// One section per instruction set, named after it: its kernels for Real. One that has those of the
/// one before, and pairs, needs none.
template <class Real, class Function>
void for_each_table(Function&& function) {
  const Table<Real>* before = nullptr;
  for (const heed::Kernels* const kernels : usable_kernels()) {
    const Table<Real>& table = table_of<Real>(*kernels);
    const bool again = before != nullptr && before->panels.scores == table.panels.scores;
    before = &table;
    if (again) continue;
    DYNAMIC_SECTION(table.isa) { function(table); }
  }
}

}  // namespace heed_test
