// Contexts, plans, prepared weights and graphs of the C API, owned.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/heed.h"
#include "perf/options.hpp"

namespace heed::perf {

using Context = std::shared_ptr<heed_context>;
using Plan = std::shared_ptr<heed_attention_plan>;
using BlockPlan = std::shared_ptr<heed_multihead_plan>;
using Weights = std::shared_ptr<heed_weights>;
using Graph = std::shared_ptr<heed_graph>;
using GraphPlan = std::shared_ptr<heed_graph_attention_plan>;

/// Throws std::runtime_error with heed_last_error() for any other status than OK.
void check(heed_status status);

/// An empty isa is automatic, and so are 0 threads. Throws std::runtime_error.
Context make_context(const Options& options, const std::string& isa, unsigned threads);
Plan make_plan(const Context& context, const heed_attention_desc& desc);
BlockPlan make_plan(const Context& context, const heed_multihead_desc& desc);
Weights make_weights(const Context& context, const heed_weights_desc& desc, const void* matrix,
                     const void* bias);
Graph make_graph(const Context& context, const heed_graph_desc& desc);
GraphPlan make_plan(const Context& context, const Graph& graph,
                    const heed_graph_attention_desc& desc);

heed_context_info describe(const Context& context);
heed_attention_info describe(const Plan& plan);
heed_multihead_info describe(const BlockPlan& plan);
heed_graph_attention_info describe(const GraphPlan& plan);

/// Calls add(shape, context, threads) for every shape, instruction set and thread count asked for.
template <class Add>
void for_each_case(const std::vector<std::string>& shapes, const Options& options, Add&& add) {
  const std::vector<std::string> automatic = {""};
  for (const std::string& shape : shapes)
    for (const std::string& isa : options.isas.empty() ? automatic : options.isas)
      for (const unsigned threads : options.threads)
        add(shape, make_context(options, isa, threads), threads);
}

std::vector<std::string> usable_isas();

/// What the library takes when it is left to choose: the CPUs of this process, or HEED_THREADS.
unsigned automatic_threads();

}  // namespace heed::perf
