// When a call lets other Python threads run.
#pragma once

#include "api/python/module/call.hpp"

namespace heed::python {

/// Below so many operations, some microseconds, a call keeps the GIL: to give it back and wait for
/// it could take longer than the call.
constexpr double kBriefFlops = 1e6;

/// Of attention without masks.
inline double flops_of(const heed_attention_desc& desc) {
  return 2.0 * static_cast<double>(desc.features + desc.value_features) *
         static_cast<double>(desc.batch * desc.query_heads) *
         static_cast<double>(desc.query_length) * static_cast<double>(desc.key_length);
}

/// Runs `compute` with or without the GIL. Score functions may need it in other threads.
template <class Compute>
auto without_gil(double flops, const ScoreFunction& scores, Compute&& compute) {
  if (flops < kBriefFlops && scores.function == nullptr) return compute();
  const nb::gil_scoped_release released;
  return compute();
}

}  // namespace heed::python
