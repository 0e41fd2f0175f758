// What the tests of precision share.
#pragma once

#include "api/heed.h"
#include "tests/oracle/dense.hpp"
#include "tests/support/calls.hpp"

namespace heed_test {

/// A context of an instruction set and a precision.
inline Context context_of(const char* isa, heed_precision precision) {
  Choices choices;
  choices.precision = precision;
  return make_context(isa, choices);
}

/// Calls check(name, of the kernels that it has otherwise) for every instruction set with pairs.
template <class Check>
void for_each_with_pairs(Check&& check) {
  const char* plain = nullptr;
  for (const char* const isa : isa_names())
    if (multiplies_pairs(isa))
      check(isa, plain);
    else
      plain = isa;
}

/// Calls check(name) for every instruction set with parts.
template <class Check>
void for_each_with_parts(Check&& check) {
  for (const char* const isa : isa_names())
    if (multiplies_parts(isa)) check(isa);
}

}  // namespace heed_test
