// Gradients over a graph with one of everything, to be made wrong in one way.
#pragma once

#include <functional>

#include "tests/api/graphs.hpp"

namespace api_test {

/// Of the attention of GraphForm.
struct GraphBackwardForm {
  GraphBackwardForm() {
    layer.graph.desc.reverse = 1;
    layer.args.out = layer.args.lse = layer.args.weights = nullptr;
    desc.attention = &layer.desc;
    args.attention = &layer.args;
    args.grad_out = grad_out.at();
    args.grad_lse = grad_lse.at();
    want({&args.grad_query, &args.grad_key, &args.grad_value, &args.grad_data, &args.grad_edge_data,
          &args.grad_w_edge_key, &args.grad_w_edge_value, &args.grad_edge_bias});
  }
  GraphBackwardForm(const GraphBackwardForm&) = delete;  // its arguments point into it
  GraphBackwardForm& operator=(const GraphBackwardForm&) = delete;

  void share() {
    layer.share();
    per_node_or_shared();
    want({&args.grad_b_query, &args.grad_b_key, &args.grad_b_value});
  }
  void per_node() {
    layer.per_node();
    per_node_or_shared();
  }
  void no_edge_data() {
    layer.no_edge_data();
    args.grad_edge_data = args.grad_w_edge_key = args.grad_w_edge_value = nullptr;
  }
  void no_residual() {
    layer.no_residual();
    args.grad_data = nullptr;
  }
  void weigh() {
    layer.combine(HEED_COMBINE_WEIGHTED);
    want({&args.grad_head_weights});
  }
  void all_float64() {
    layer.all_float64();
    for (heed_layout* const of : {&desc.grad_out, &desc.grad_query, &desc.grad_key,
                                  &desc.grad_value, &desc.grad_data, &desc.grad_edge_data})
      of->dtype = HEED_DTYPE_F64;
  }

  bool outputs_untouched() const {
    return std::all_of(std::begin(grads), std::end(grads),
                       [](const Bytes& grad) { return grad.all_are(kPattern); });
  }

  GraphForm layer;
  SmallGraph& graph = layer.graph;
  heed_graph_attention_backward_desc desc = HEED_GRAPH_ATTENTION_BACKWARD_DESC_INIT;
  heed_graph_attention_backward_args args = HEED_GRAPH_ATTENTION_BACKWARD_ARGS_INIT;
  Bytes grad_out, grad_lse;
  Bytes grads[14] = {Bytes(kPattern), Bytes(kPattern), Bytes(kPattern), Bytes(kPattern),
                     Bytes(kPattern), Bytes(kPattern), Bytes(kPattern), Bytes(kPattern),
                     Bytes(kPattern), Bytes(kPattern), Bytes(kPattern), Bytes(kPattern),
                     Bytes(kPattern), Bytes(kPattern)};

 private:
  void want(std::initializer_list<void**> gradients) {
    for (void** const gradient : gradients) *gradient = grads[wanted_++].at();
  }
  void per_node_or_shared() {
    args.grad_query = args.grad_key = args.grad_value = nullptr;
    want({&args.grad_w_query, &args.grad_w_key, &args.grad_w_value});
  }

  std::size_t wanted_ = 0;
};

using GraphBackwardChange = std::function<void(GraphBackwardForm&)>;

inline Fields fields_of(GraphBackwardForm& form) {
  Fields fields;
  heed_graph_attention_backward_desc& d = form.desc;
  heed_graph_attention_backward_args& a = form.args;
  fields.in("desc.")("accumulate", d.accumulate)("grad_out", d.grad_out)("grad_lse", d.grad_lse)(
      "grad_data", d.grad_data)("grad_edge_data", d.grad_edge_data)(
      "grad_edge_bias", d.grad_edge_bias)("grad_w_edge_key", d.grad_w_edge_key)(
      "grad_w_edge_value", d.grad_w_edge_value);
  if (form.layer.desc.inputs == HEED_GRAPH_PROJECTED)
    fields("grad_query", d.grad_query)("grad_key", d.grad_key)("grad_value", d.grad_value);
  else
    fields("grad_w_query", d.grad_w_query)("grad_w_key", d.grad_w_key)("grad_w_value",
                                                                       d.grad_w_value);
  fields.in("args.")("reserved", a.reserved)("grad_out", a.grad_out)("grad_lse", a.grad_lse)(
      "grad_query", a.grad_query)("grad_key", a.grad_key)("grad_value", a.grad_value)(
      "grad_data", a.grad_data)("grad_w_query", a.grad_w_query)("grad_w_key", a.grad_w_key)(
      "grad_w_value", a.grad_w_value)("grad_b_query", a.grad_b_query)("grad_b_key", a.grad_b_key)(
      "grad_b_value", a.grad_b_value)("grad_edge_data", a.grad_edge_data)(
      "grad_w_edge_key", a.grad_w_edge_key)("grad_w_edge_value", a.grad_w_edge_value)(
      "grad_edge_bias", a.grad_edge_bias)("grad_head_weights", a.grad_head_weights);
  heed_graph_attention_desc& of = form.layer.desc;
  fields.in("desc.attention: desc.")("heads", of.heads)("features", of.features)("hard", of.hard)(
      "temperature", of.temperature)("combine", of.combine);
  heed_graph_attention_args& given = form.layer.args;
  fields.in("args.attention: args.")("query", given.query)("key", given.key)("value", given.value)(
      "data", given.data)("edge_data", given.edge_data)("reserved", given.reserved);
  return fields;
}

}  // namespace api_test
