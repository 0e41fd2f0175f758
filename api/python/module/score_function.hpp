// Score functions: C's as they are, Python's through the interpreter.
#pragma once

#include <atomic>
#include <memory>

#include "api/python/module/errors.hpp"

namespace heed::python {

/// A Python callable during a run. What it raises first is kept, and nothing called afterwards.
struct PythonScores {
  nb::object callable;
  std::atomic<bool> failed = false;
  nb::object error;
};

struct ScoreFunction {
  heed_score_function function = nullptr;
  void* user = nullptr;
  nb::object keeper;
  std::unique_ptr<PythonScores> python;

  /// Raises what the callable raised during the run.
  void raise() const;
};

/// A Python callable; a function pointer of ctypes or numba; or a pair of such a pointer and what
/// is passed to it.
ScoreFunction read_score_function(nb::handle from);

}  // namespace heed::python
