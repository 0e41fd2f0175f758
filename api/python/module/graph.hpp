// heed.Graph, and calls of attention over one, from Python's arguments to those of C.
#pragma once

#include "api/python/module/numbers.hpp"
#include "api/python/module/outputs.hpp"
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

  Indices(const char* const (&names)[2], const nb::handle (&from)[2]) {
    if (is_narrow(names[0], from[0]) && is_narrow(names[1], from[1])) {
      type = HEED_INDEX_I32;
      for (int i = 0; i < 2; ++i) narrow[i] = read_vector<std::int32_t>(names[i], from[i]);
    } else {
      for (int i = 0; i < 2; ++i) wide[i] = read_vector<std::int64_t>(names[i], from[i]);
    }
  }

  const void* data(int i) const {
    if (count(i) == 0) return nullptr;
    return type == HEED_INDEX_I32 ? static_cast<const void*>(narrow[i].data) : wide[i].data;
  }
  std::int64_t count(int i) const {
    return type == HEED_INDEX_I32 ? narrow[i].count : wide[i].count;
  }

 private:
  static bool is_narrow(const char* name, nb::handle from);
};

std::uint32_t read_duplicates(nb::handle from);

// ---- A call of attention over a graph, from Python's arguments to those of C ----

/// As they came, the caller holding them; None where one was not given.
struct GraphArguments {
  nb::object graph;
  nb::tuple tensors;     // in the order of GraphCall::Tensor
  nb::tuple parameters;  // of GraphCall::Parameter
  nb::tuple settings;    // heads, combine, residual, steps, return_lse, return_weights
  nb::object scores;     // a dict: scale, softcap, temperature and hard, as of attention
  nb::object out;

  /// `parts` are tensors, parameters, settings and scores.
  GraphArguments(nb::object given_graph, const nb::tuple& parts, nb::object given_out)
      : graph(std::move(given_graph)),
        tensors(nb::borrow<nb::tuple>(parts[0])),
        parameters(nb::borrow<nb::tuple>(parts[1])),
        settings(nb::borrow<nb::tuple>(parts[2])),
        scores(parts[3]),
        out(std::move(given_out)) {}

  nb::handle tensor(int i) const { return tensors[i]; }
  nb::handle parameter(int i) const { return parameters[i]; }
  bool has_tensor(int i) const { return !tensor(i).is_none(); }
  bool has_parameter(int i) const { return !parameter(i).is_none(); }
};

struct GraphCall {
  enum Tensor { kQuery, kKey, kValue, kData, kEdgeData, kEdgeBias, kTensors };
  enum Parameter {
    kWQuery,
    kWKey,
    kWValue,
    kWEdgeKey,
    kWEdgeValue,
    kMatrices,
    kBQuery = kMatrices,
    kBKey,
    kBValue,
    kHeadWeights,
    kParameters
  };

  heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
  heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
  const Graph* graph = nullptr;
  heed_graph_info info = HEED_GRAPH_INFO_INIT;
  bool float64 = false;
  bool out_given = false;
  Array tensors[kTensors];
  Matrix matrices[kMatrices];
  Bias biases[3];
  Reals head_weights;
  Array out;
  Outputs outputs;

  /// All that is given. Without a graph, `sizes` tells the sizes of what has one elsewhere.
  void read(const GraphArguments& arguments);
  void read(const GraphArguments& arguments, const heed_graph_info& sizes);
  /// And then what is given back.
  void make_outputs(const GraphArguments& arguments);
  /// [nodes, heads, features] where queries were given so, else rows as wide as data's.
  Shape out_shape() const;
  /// Of a tensor in the shape of out.
  heed_layout out_layout(const Form& form) const;
  /// What results are like.
  Tensor like() const { return desc.inputs == HEED_GRAPH_PROJECTED ? kQuery : kData; }
  nb::object result(const GraphArguments& arguments) const;
  /// Of one step, roughly.
  double flops() const;
};

/// Where queries, keys and values come from, by what is given.
void read_inputs(GraphCall& call, const GraphArguments& arguments);
/// Tensors over nodes and edges, of which the first is of the type that all have.
void read_tensors(GraphCall& call, const GraphArguments& arguments);
void read_matrices(GraphCall& call, const GraphArguments& arguments);

/// Of rows over nodes or edges; 0 where there are none. Of numbers: [rows, heads] or [rows].
heed_layout layout_over(const Form& form);
heed_layout heads_layout(const Form& form);

extern const char* const kGraphTensors[GraphCall::kTensors];
extern const NamedMatrix kGraphMatrices[GraphCall::kMatrices];

}  // namespace heed::python
