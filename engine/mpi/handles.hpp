// Objects of heed.h, which plans and graphs over ranks hold.
#pragma once

#include <memory>

#include "api/heed.h"
#include "engine/runtime/error.hpp"

namespace heed::mpi {

/// Throws the Error of a call of heed.h.
inline void check(heed_status status) {
  if (status != HEED_STATUS_OK) fail(status, "%s", heed_last_error());
}

template <class T, void (*kDestroy)(T*)>
struct Destroy {
  void operator()(T* object) const { kDestroy(object); }
};
template <class T, void (*kDestroy)(T*)>
using Handle = std::unique_ptr<T, Destroy<T, kDestroy>>;

using DensePlan = Handle<heed_attention_plan, heed_attention_plan_destroy>;
using DenseBackwardPlan =
    Handle<heed_attention_backward_plan, heed_attention_backward_plan_destroy>;
using LocalGraph = Handle<heed_graph, heed_graph_destroy>;
using GraphPlan = Handle<heed_graph_attention_plan, heed_graph_attention_plan_destroy>;

/// The object that `create` makes. Throws the Error that heed.h refuses it with.
template <class Made, class Create, class... Given>
Made make(Create create, const Given*... given) {
  typename Made::pointer made = nullptr;
  check(create(given..., &made));
  return Made(made);
}
inline DensePlan make_dense_plan(const heed_context& context, const heed_attention_desc& desc) {
  return make<DensePlan>(heed_attention_plan_create, &context, &desc);
}
inline DenseBackwardPlan make_dense_plan(const heed_context& context,
                                         const heed_attention_backward_desc& desc) {
  return make<DenseBackwardPlan>(heed_attention_backward_plan_create, &context, &desc);
}

/// The bytes that a plan asks for; of none 0.
template <class Ask, class Plan>
std::size_t workspace_by(Ask ask, const Plan* plan) {
  std::size_t bytes = 0;
  if (plan != nullptr) check(ask(plan, &bytes));
  return bytes;
}
inline std::size_t workspace_of(const DensePlan& plan) {
  return workspace_by(heed_attention_plan_workspace, plan.get());
}
inline std::size_t workspace_of(const DenseBackwardPlan& plan) {
  return workspace_by(heed_attention_backward_plan_workspace, plan.get());
}
inline std::size_t workspace_of(const GraphPlan& plan) {
  return workspace_by(heed_graph_attention_plan_workspace, plan.get());
}

}  // namespace heed::mpi
