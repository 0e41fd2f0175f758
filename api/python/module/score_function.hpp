// Score functions: C's as they are, Python's through the interpreter.
#pragma once

#include <atomic>
#include <memory>

#include "api/python/module/errors.hpp"

namespace heed::python {

/// Python callables during a run. What one raises first is kept, and nothing called afterwards.
struct PythonScores {
  nb::object callable;
  nb::object gradient;
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

/// A score function's derivative: a callable beside a callable, a function pointer beside a
/// function pointer, which C gives the same `user`.
heed_score_gradient read_score_gradient(ScoreFunction& beside, nb::handle from);

}  // namespace heed::python
