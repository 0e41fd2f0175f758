// The C API from C++: contexts, plans and workspaces that clean up after themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "api/heed.h"
#include "tests/support/size.hpp"
#include "tests/support/tensor.hpp"

namespace heed_test {

inline void require_ok(heed_status status) {
  if (status != HEED_STATUS_OK)
    throw std::runtime_error(std::string(heed_status_name(status)) + ": " + heed_last_error());
}

struct Destroy {
  void operator()(heed_context* context) const { heed_context_destroy(context); }
  void operator()(heed_attention_plan* plan) const { heed_attention_plan_destroy(plan); }
  void operator()(heed_multihead_plan* plan) const { heed_multihead_plan_destroy(plan); }
  void operator()(heed_weights* weights) const { heed_weights_destroy(weights); }
};
using Context = std::unique_ptr<heed_context, Destroy>;
using Plan = std::unique_ptr<heed_attention_plan, Destroy>;
using MultiheadPlan = std::unique_ptr<heed_multihead_plan, Destroy>;
using Weights = std::unique_ptr<heed_weights, Destroy>;

/// The names of the instruction sets that this machine can run, from the plainest to the widest.
inline std::vector<const char*> isa_names() {
  std::vector<const char*> names;
  for (std::size_t i = 0; i < heed_isa_count(); ++i) {
    heed_isa_info info = HEED_ISA_INFO_INIT;
    require_ok(heed_isa_get(i, &info));
    if (info.usable != 0 && wanted(info.name)) names.push_back(info.name);
  }
  return names;
}

struct Choices {
  const char* executor = "serial";
  std::uint32_t threads = 1;
  std::uint32_t tile_q = 0;
  std::uint32_t tile_kv = 0;
  const char* product = nullptr;  ///< the first, which is heed's own
};

inline Context make_context(const char* isa, const Choices& choices = {}) {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.isa = isa;
  options.executor_name = choices.executor;
  options.threads = choices.threads;
  options.tile_q = choices.tile_q;
  options.tile_kv = choices.tile_kv;
  options.product = choices.product != nullptr ? choices.product : heed_product_name(0);
  heed_context* context = nullptr;
  require_ok(heed_context_create(&options, &context));
  return Context(context);
}

inline Plan make_plan(const Context& context, const heed_attention_desc& desc) {
  heed_attention_plan* plan = nullptr;
  require_ok(heed_attention_plan_create(context.get(), &desc, &plan));
  return Plan(plan);
}

inline MultiheadPlan make_plan(const Context& context, const heed_multihead_desc& desc) {
  heed_multihead_plan* plan = nullptr;
  require_ok(heed_multihead_plan_create(context.get(), &desc, &plan));
  return MultiheadPlan(plan);
}

inline heed_multihead_info describe(const MultiheadPlan& plan) {
  heed_multihead_info info = HEED_MULTIHEAD_INFO_INIT;
  require_ok(heed_multihead_plan_describe(plan.get(), &info));
  return info;
}

inline heed_attention_info describe(const Plan& plan) {
  heed_attention_info info = HEED_ATTENTION_INFO_INIT;
  require_ok(heed_attention_plan_describe(plan.get(), &info));
  return info;
}

/// A workspace full of NaN, so that whoever reads before writing spoils the result, with
/// canaries after it.
class Workspace {
 public:
  explicit Workspace(std::size_t bytes)
      : bytes_(bytes), memory_(HEED_DTYPE_F32, bytes / sizeof(float), 0) {}
  void* get() { return memory_.data(); }
  std::size_t bytes() const { return bytes_; }
  bool intact() const { return memory_.guards_intact(); }

 private:
  std::size_t bytes_;
  Memory memory_;
};

}  // namespace heed_test
