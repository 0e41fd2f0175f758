#include "perf/contexts.hpp"

#include <stdexcept>

namespace heed::perf {

void check(heed_status status) {
  if (status != HEED_STATUS_OK) throw std::runtime_error(heed_last_error());
}

Context make_context(const Options& options, const std::string& isa, unsigned threads) {
  heed_context_options wanted = HEED_CONTEXT_OPTIONS_INIT;
  wanted.threads = threads;
  wanted.isa = isa.empty() ? nullptr : isa.c_str();
  wanted.executor_name = options.executor.empty() ? nullptr : options.executor.c_str();
  wanted.tile_q = options.tile_q;
  wanted.tile_kv = options.tile_kv;
  wanted.product = options.product.empty() ? nullptr : options.product.c_str();
  heed_context* context = nullptr;
  check(heed_context_create(&wanted, &context));
  return {context, heed_context_destroy};
}

Plan make_plan(const Context& context, const heed_attention_desc& desc) {
  heed_attention_plan* plan = nullptr;
  check(heed_attention_plan_create(context.get(), &desc, &plan));
  return {plan, heed_attention_plan_destroy};
}

BlockPlan make_plan(const Context& context, const heed_multihead_desc& desc) {
  heed_multihead_plan* plan = nullptr;
  check(heed_multihead_plan_create(context.get(), &desc, &plan));
  return {plan, heed_multihead_plan_destroy};
}

Weights make_weights(const Context& context, const heed_weights_desc& desc, const void* matrix,
                     const void* bias) {
  heed_weights* weights = nullptr;
  check(heed_weights_create(context.get(), &desc, matrix, bias, &weights));
  return {weights, heed_weights_destroy};
}

Graph make_graph(const Context& context, const heed_graph_desc& desc) {
  heed_graph* graph = nullptr;
  check(heed_graph_create(context.get(), &desc, &graph));
  return {graph, heed_graph_destroy};
}

GraphPlan make_plan(const Context& context, const Graph& graph,
                    const heed_graph_attention_desc& desc) {
  heed_graph_attention_plan* plan = nullptr;
  check(heed_graph_attention_plan_create(context.get(), graph.get(), &desc, &plan));
  return {plan, heed_graph_attention_plan_destroy};
}

heed_context_info describe(const Context& context) {
  heed_context_info info = HEED_CONTEXT_INFO_INIT;
  check(heed_context_describe(context.get(), &info));
  return info;
}

heed_attention_info describe(const Plan& plan) {
  heed_attention_info info = HEED_ATTENTION_INFO_INIT;
  check(heed_attention_plan_describe(plan.get(), &info));
  return info;
}

heed_multihead_info describe(const BlockPlan& plan) {
  heed_multihead_info info = HEED_MULTIHEAD_INFO_INIT;
  check(heed_multihead_plan_describe(plan.get(), &info));
  return info;
}

heed_graph_attention_info describe(const GraphPlan& plan) {
  heed_graph_attention_info info = HEED_GRAPH_ATTENTION_INFO_INIT;
  check(heed_graph_attention_plan_describe(plan.get(), &info));
  return info;
}

std::vector<std::string> usable_isas() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < heed_isa_count(); ++i) {
    heed_isa_info info = HEED_ISA_INFO_INIT;
    check(heed_isa_get(i, &info));
    if (info.usable != 0) names.emplace_back(info.name);
  }
  return names;
}

unsigned automatic_threads() { return describe(make_context({}, {}, 0)).threads; }

}  // namespace heed::perf
