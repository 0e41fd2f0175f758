// Problems of all operations behind one interface: what holds for dense attention, blocks and
// graphs is tested once, over kinds().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/api/forms.hpp"
#include "tests/support/fenced.hpp"

namespace api_test {

using heed_test::End;
using heed_test::FencedTensors;

struct Kind {
  const char* name;
  const char* of;
  std::function<void(Form&)> change;
  bool prepared = false;
  bool large = false;  ///< enough for several threads

  /// In memory of its own.
  std::unique_ptr<Form> problem() const {
    auto form = std::make_unique<Form>(of);
    change(*form);
    form->place(prepared);
    return form;
  }
};

/// Problems of every operation with plans, with and without options, the first of each operation
/// large.
const std::vector<Kind>& kinds();
std::vector<Kind> large_kinds();
/// And of operations without plans, which have the one call alone.
const std::vector<Kind>& unplanned_kinds();

/// What the one call gives on one thread.
std::vector<unsigned char> expected(const Kind& kind);

}  // namespace api_test
