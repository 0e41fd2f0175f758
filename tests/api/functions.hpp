// The functions of the operations that have plans, by the names that they have in common.
#pragma once

#include "tests/api/backward_form.hpp"
#include "tests/api/block_backward_form.hpp"
#include "tests/api/forms.hpp"
#include "tests/api/graphs.hpp"

namespace api_test {

template <class APlan, class AnInfo, auto describe_plan, auto workspace_of, auto run_plan,
          auto destroy_plan>
struct PlanFunctions {
  using Plan = APlan;
  using Info = AnInfo;
  static constexpr auto describe = describe_plan;
  static constexpr auto workspace = workspace_of;
  static constexpr auto run = run_plan;
  static constexpr auto destroy = destroy_plan;
};

template <class AForm>
struct Functions;

template <>
struct Functions<Form> : PlanFunctions<heed_attention_plan, heed_attention_info,
                                       heed_attention_plan_describe, heed_attention_plan_workspace,
                                       heed_attention_plan_run, heed_attention_plan_destroy> {
  static heed_status create(const heed_context* context, const heed_graph*,
                            const heed_attention_desc* desc, Plan** plan) {
    return heed_attention_plan_create(context, desc, plan);
  }
  static heed_status call(const heed_context* context, const heed_graph*,
                          const heed_attention_desc* desc, const heed_attention_args* args) {
    return heed_attention(context, desc, args);
  }
};

template <>
struct Functions<BackwardForm>
    : PlanFunctions<heed_attention_backward_plan, heed_attention_info,
                    heed_attention_backward_plan_describe, heed_attention_backward_plan_workspace,
                    heed_attention_backward_plan_run, heed_attention_backward_plan_destroy> {
  static heed_status create(const heed_context* context, const heed_graph*,
                            const heed_attention_backward_desc* desc, Plan** plan) {
    return heed_attention_backward_plan_create(context, desc, plan);
  }
  static heed_status call(const heed_context* context, const heed_graph*,
                          const heed_attention_backward_desc* desc,
                          const heed_attention_backward_args* args) {
    return heed_attention_backward(context, desc, args);
  }
};

template <>
struct Functions<BlockForm>
    : PlanFunctions<heed_multihead_plan, heed_multihead_info, heed_multihead_plan_describe,
                    heed_multihead_plan_workspace, heed_multihead_plan_run,
                    heed_multihead_plan_destroy> {
  static heed_status create(const heed_context* context, const heed_graph*,
                            const heed_multihead_desc* desc, Plan** plan) {
    return heed_multihead_plan_create(context, desc, plan);
  }
  static heed_status call(const heed_context* context, const heed_graph*,
                          const heed_multihead_desc* desc, const heed_multihead_args* args) {
    return heed_multihead(context, desc, args);
  }
};

template <>
struct Functions<BlockBackwardForm>
    : PlanFunctions<heed_multihead_backward_plan, heed_multihead_info,
                    heed_multihead_backward_plan_describe, heed_multihead_backward_plan_workspace,
                    heed_multihead_backward_plan_run, heed_multihead_backward_plan_destroy> {
  static heed_status create(const heed_context* context, const heed_graph*,
                            const heed_multihead_backward_desc* desc, Plan** plan) {
    return heed_multihead_backward_plan_create(context, desc, plan);
  }
  static heed_status call(const heed_context* context, const heed_graph*,
                          const heed_multihead_backward_desc* desc,
                          const heed_multihead_backward_args* args) {
    return heed_multihead_backward(context, desc, args);
  }
};

template <>
struct Functions<GraphForm>
    : PlanFunctions<heed_graph_attention_plan, heed_graph_attention_info,
                    heed_graph_attention_plan_describe, heed_graph_attention_plan_workspace,
                    heed_graph_attention_plan_run, heed_graph_attention_plan_destroy> {
  static constexpr auto create = heed_graph_attention_plan_create;
  static constexpr auto call = heed_graph_attention;
};

/// The graph of a form; none where it has none.
template <class AForm>
Graph graph_of(const Context& context, const AForm& form) {
  if constexpr (std::is_same_v<AForm, GraphForm>)
    return make_graph(context, form.graph.desc);
  else
    return nullptr;
}

/// Through the call that needs no plan.
template <class AForm>
heed_status one_call(const Context& context, AForm& form) {
  return Functions<AForm>::call(context.get(), graph_of(context, form).get(), &form.desc,
                                &form.args);
}

}  // namespace api_test
