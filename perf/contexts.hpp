// Contexts, plans, prepared weights and graphs of the C API, owned.
#pragma once

#include <memory>
#include <string>

#include "api/heed.h"
#include "perf/options.hpp"

namespace heed::perf {

using Context = std::shared_ptr<heed_context>;
using Plan = std::shared_ptr<heed_attention_plan>;
using BackwardPlan = std::shared_ptr<heed_attention_backward_plan>;
using BlockPlan = std::shared_ptr<heed_multihead_plan>;
using BlockBackwardPlan = std::shared_ptr<heed_multihead_backward_plan>;
using Weights = std::shared_ptr<heed_weights>;
using Graph = std::shared_ptr<heed_graph>;
using GraphPlan = std::shared_ptr<heed_graph_attention_plan>;
using GraphBackwardPlan = std::shared_ptr<heed_graph_attention_backward_plan>;

/// Throws std::runtime_error with heed_last_error() for any other status than OK.
void check(heed_status status);

/// What a heed_..._create makes of these arguments.
template <class T, class... Parameters, class... Arguments>
std::shared_ptr<T> made(heed_status (*create)(Parameters...), void (*destroy)(T*),
                        Arguments... arguments) {
  T* it = nullptr;
  check(create(arguments..., &it));
  return {it, destroy};
}

/// What a heed_..._describe says of it.
template <class T, class Info>
Info described(heed_status (*describe)(const T*, Info*), const T* it, Info info) {
  check(describe(it, &info));
  return info;
}

/// An empty isa is automatic, and so are 0 threads. Throws std::runtime_error.
Context make_context(const Options& options, const std::string& isa, unsigned threads);
heed_context_info describe(const Context& context);

/// What the library takes when it is left to choose: the CPUs of this process, or HEED_THREADS.
unsigned automatic_threads();

}  // namespace heed::perf
