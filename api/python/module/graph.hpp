// heed.Graph, and calls of attention over one, from Python's arguments to the ones of C.
#pragma once

#include "api/python/module/call.hpp"
#include "api/python/module/weights.hpp"

namespace heed::python {

// ---- Graphs: heed.Graph ----

/// Edges, checked and sorted; immutable.
class Graph {
 public:
  Graph(nb::handle context, const heed_graph_desc& desc);
  ~Graph() { heed_graph_destroy(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const heed_graph* get() const { return graph_; }
  const heed_graph_info& info() const { return info_; }

 private:
  heed_graph* graph_ = nullptr;
  heed_graph_info info_ = HEED_GRAPH_INFO_INIT;
};

/// Two arrays of indices of one type, as C has them: int32 if both are, else int64.
struct Indices {
  Vector<std::int32_t> narrow[2];
  Vector<std::int64_t> wide[2];
  heed_index_type type = HEED_INDEX_I64;

  Indices(const char* const (&names)[2], const nb::handle (&from)[2]);

  const void* data(int i) const;
  std::int64_t count(int i) const {
    return type == HEED_INDEX_I32 ? narrow[i].count : wide[i].count;
  }
};

/// The sources and destinations of edges, as many of each.
Indices read_edges(nb::handle sources, nb::handle destinations);

std::uint32_t read_duplicates(nb::handle from);

// ---- A call of attention over a graph, from Python's arguments to the ones of C ----

struct GraphApi {
  using Desc = heed_graph_attention_desc;
  using Args = heed_graph_attention_args;
  using BackwardDesc = heed_graph_attention_backward_desc;
  using BackwardArgs = heed_graph_attention_backward_args;
};

/// Tensors over nodes and edges.
struct GraphTensor {
  Operand operand;
  enum Rows { kNodes, kSources, kEdges } rows;
  int least_axes, most_axes;
  const char* axes;
};

struct GraphCall {
  enum Tensor { kQuery, kKey, kValue, kData, kEdgeData, kEdgeBias, kTensors };
  enum Parameter {
    kWQuery,
    kWKey,
    kWValue,
    kOfNodes,
    kWEdgeKey = kOfNodes,
    kWEdgeValue,
    kMatrices
  };

  static const GraphTensor kTensorRows[kTensors];
  static const Projection kMatrixRows[kMatrices];

  heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
  heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
  const Graph* graph = nullptr;
  heed_graph_info info = HEED_GRAPH_INFO_INIT;
  bool float64 = false;
  Array tensors[kTensors];
  Matrix matrices[kMatrices];
  Array biases[kMatrices];
  Reals head_weights, score_weights;
  Vector<std::int64_t> dropout_edges;
  Outputs outputs;

  /// All that is given. Without a graph, `sizes` tells the sizes of what has one elsewhere.
  void read(const Arguments& given);
  void read(const Arguments& given, const heed_graph_info& sizes);
  /// And then what is given back.
  void make_outputs(const Arguments& given);
  nb::object result(const Arguments& given) const;
  /// Roughly the operations of all steps.
  double flops() const;
  heed_status compute(const heed_context* context) const {
    return heed_graph_attention(context, graph->get(), &desc, &args);
  }

  /// [nodes, heads, features] where queries were given so, else rows as wide as data's.
  Shape out_shape() const;
  /// The layout of a tensor in the shape of out.
  heed_layout out_layout(const Form& form) const;
  /// Results are like this tensor.
  bool projected() const { return desc.inputs == HEED_GRAPH_PROJECTED; }
  Tensor like() const { return projected() ? kQuery : kData; }
  const char* like_name() const { return kTensorRows[like()].operand.name; }
  bool has(Tensor tensor) const { return tensors[tensor].form.axes > 0; }

  // Plans are made of these, and compare them.
  static constexpr const char* kMaker = "heed.graph_attention_plan";
  heed_status plan(const heed_context* context, heed_graph_attention_plan** plan) const {
    return heed_graph_attention_plan_create(context, graph->get(), &desc, plan);
  }
  using Described = heed_graph_attention_desc;
  const Described& described() const { return desc; }
  NamedForms forms() const;
  const Call* attention() const { return nullptr; }
  [[noreturn]] void refuse_other(const Described&) const {
    refuse("biases are of another type than those that the plan was made with");
  }
};

}  // namespace heed::python
