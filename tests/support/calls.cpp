#include "tests/support/calls.hpp"

#include <stdexcept>

namespace heed_test {

void require_ok(heed_status status) {
  if (status != HEED_STATUS_OK)
    throw std::runtime_error(std::string(heed_status_name(status)) + ": " + heed_last_error());
}

const std::vector<const char*>& isa_names() {
  static const std::vector<const char*> all =
      [] {  // asking a virtual machine for its CPU takes long
        std::vector<const char*> names;
        for (std::size_t i = 0; i < heed_isa_count(); ++i) {
          heed_isa_info info = HEED_ISA_INFO_INIT;
          require_ok(heed_isa_get(i, &info));
          if (info.usable != 0 && wanted(info.name)) names.push_back(info.name);
        }
        return names;
      }();
  return all;
}

Context make_context(const char* isa, const Choices& choices) {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.isa = isa;
  options.executor_name = choices.executor;
  options.threads = choices.threads;
  options.tile_q = choices.tile_q;
  options.tile_kv = choices.tile_kv;
  options.product = choices.product != nullptr ? choices.product : heed_product_name(0);
  options.precision = choices.precision;
  heed_context* context = nullptr;
  require_ok(heed_context_create(&options, &context));
  return Context(context);
}

Plan make_plan(const Context& context, const heed_attention_desc& desc) {
  heed_attention_plan* plan = nullptr;
  require_ok(heed_attention_plan_create(context.get(), &desc, &plan));
  return Plan(plan);
}

BackwardPlan make_plan(const Context& context, const heed_attention_backward_desc& desc) {
  heed_attention_backward_plan* plan = nullptr;
  require_ok(heed_attention_backward_plan_create(context.get(), &desc, &plan));
  return BackwardPlan(plan);
}

MultiheadPlan make_plan(const Context& context, const heed_multihead_desc& desc) {
  heed_multihead_plan* plan = nullptr;
  require_ok(heed_multihead_plan_create(context.get(), &desc, &plan));
  return MultiheadPlan(plan);
}

MultiheadBackwardPlan make_plan(const Context& context, const heed_multihead_backward_desc& desc) {
  heed_multihead_backward_plan* plan = nullptr;
  require_ok(heed_multihead_backward_plan_create(context.get(), &desc, &plan));
  return MultiheadBackwardPlan(plan);
}

Cache make_cache(const Context& context, const heed_cache_desc& desc) {
  heed_cache* cache = nullptr;
  require_ok(heed_cache_create(context.get(), &desc, &cache));
  return Cache(cache);
}

heed_multihead_info describe(const MultiheadPlan& plan) {
  heed_multihead_info info = HEED_MULTIHEAD_INFO_INIT;
  require_ok(heed_multihead_plan_describe(plan.get(), &info));
  return info;
}

heed_multihead_info describe(const MultiheadBackwardPlan& plan) {
  heed_multihead_info info = HEED_MULTIHEAD_INFO_INIT;
  require_ok(heed_multihead_backward_plan_describe(plan.get(), &info));
  return info;
}

heed_attention_info describe(const Plan& plan) {
  heed_attention_info info = HEED_ATTENTION_INFO_INIT;
  require_ok(heed_attention_plan_describe(plan.get(), &info));
  return info;
}

heed_attention_info describe(const BackwardPlan& plan) {
  heed_attention_info info = HEED_ATTENTION_INFO_INIT;
  require_ok(heed_attention_backward_plan_describe(plan.get(), &info));
  return info;
}

heed_cache_info describe(const Cache& cache) {
  heed_cache_info info = HEED_CACHE_INFO_INIT;
  require_ok(heed_cache_describe(cache.get(), &info));
  return info;
}

}  // namespace heed_test
