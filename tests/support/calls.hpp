// The C API from C++: contexts, plans and workspaces that clean up after themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "api/heed.h"
#include "tests/support/size.hpp"
#include "tests/support/tensor.hpp"

namespace heed_test {

void require_ok(heed_status status);

struct Destroy {
  void operator()(heed_context* context) const { heed_context_destroy(context); }
  void operator()(heed_attention_plan* plan) const { heed_attention_plan_destroy(plan); }
  void operator()(heed_attention_backward_plan* plan) const {
    heed_attention_backward_plan_destroy(plan);
  }
  void operator()(heed_multihead_plan* plan) const { heed_multihead_plan_destroy(plan); }
  void operator()(heed_multihead_backward_plan* plan) const {
    heed_multihead_backward_plan_destroy(plan);
  }
  void operator()(heed_weights* weights) const { heed_weights_destroy(weights); }
  void operator()(heed_graph* graph) const { heed_graph_destroy(graph); }
  void operator()(heed_graph_attention_plan* plan) const {
    heed_graph_attention_plan_destroy(plan);
  }
  void operator()(heed_graph_attention_backward_plan* plan) const {
    heed_graph_attention_backward_plan_destroy(plan);
  }
  void operator()(heed_cache* cache) const { heed_cache_destroy(cache); }
};
using Context = std::unique_ptr<heed_context, Destroy>;
using Plan = std::unique_ptr<heed_attention_plan, Destroy>;
using BackwardPlan = std::unique_ptr<heed_attention_backward_plan, Destroy>;
using MultiheadPlan = std::unique_ptr<heed_multihead_plan, Destroy>;
using MultiheadBackwardPlan = std::unique_ptr<heed_multihead_backward_plan, Destroy>;
using Weights = std::unique_ptr<heed_weights, Destroy>;
using Graph = std::unique_ptr<heed_graph, Destroy>;
using GraphPlan = std::unique_ptr<heed_graph_attention_plan, Destroy>;
using GraphBackwardPlan = std::unique_ptr<heed_graph_attention_backward_plan, Destroy>;
using Cache = std::unique_ptr<heed_cache, Destroy>;

/// The names of the instruction sets that this machine can run, from the plainest to the widest.
const std::vector<const char*>& isa_names();

struct Choices {
  const char* executor = "serial";
  std::uint32_t threads = 1;
  std::uint32_t tile_q = 0;
  std::uint32_t tile_kv = 0;
  const char* product = nullptr;  ///< the first, which is heed's own
  heed_precision precision = HEED_PRECISION_AUTOMATIC;
};

Context make_context(const char* isa, const Choices& choices = {});
Plan make_plan(const Context& context, const heed_attention_desc& desc);
BackwardPlan make_plan(const Context& context, const heed_attention_backward_desc& desc);
MultiheadPlan make_plan(const Context& context, const heed_multihead_desc& desc);
MultiheadBackwardPlan make_plan(const Context& context, const heed_multihead_backward_desc& desc);
Cache make_cache(const Context& context, const heed_cache_desc& desc);
heed_multihead_info describe(const MultiheadPlan& plan);
heed_multihead_info describe(const MultiheadBackwardPlan& plan);
heed_attention_info describe(const Plan& plan);
heed_attention_info describe(const BackwardPlan& plan);
heed_cache_info describe(const Cache& cache);

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
