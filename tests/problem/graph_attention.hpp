// Graphs of the C API from C++, and the edge lists that tests make them of; attention over a graph:
// its descriptor, the memory that the layouts of that reach, its gradients, and the one line that
// describes each.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/graph.hpp"
#include "tests/problem/attention.hpp"
#include "tests/problem/gradients.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/random.hpp"

namespace heed_test {

// ---- Graphs ----

/// How a graph is handed in.
struct GraphForm {
  bool rows = false;  ///< by offsets: needs edges in order of their destinations
  std::uint32_t index_type = HEED_INDEX_DEFAULT;
  bool reverse = false;  ///< with edges sorted by source too
};

/// The arrays that a descriptor of a graph points at.
struct GraphArrays {
  GraphArrays(const EdgeList& edges, const GraphForm& form);
  /// Valid until anything is changed.
  heed_graph_desc desc();

  std::vector<std::int64_t> sources, ends;  ///< ends: offsets of rows, or destinations

 private:
  heed_graph_desc desc_ = HEED_GRAPH_DESC_INIT;
  bool rows_;
  std::vector<std::int32_t> narrow_sources_, narrow_ends_;
};

Graph make_graph(const Context& context, const EdgeList& edges, const GraphForm& form = {});

// ---- Edge lists ----

/// Element i of the result is edge order[i].
EdgeList reordered(const EdgeList& edges, const std::vector<std::size_t>& order);

/// 0 to n - 1 in a random order (Fisher and Yates).
std::vector<std::size_t> random_order(std::size_t n, Random& random);

/// As rows of a graph must be.
EdgeList by_destination(const EdgeList& edges);

EdgeList random_edges(Index nodes, Index edges, std::uint64_t seed);

/// Every node attends to every node, itself included.
EdgeList complete_graph(Index nodes);

/// Every node has an edge to node `hub`, some many; and a few edges end elsewhere.
EdgeList hub_graph(Index nodes, Index edges, Index hub, std::uint64_t seed);

// ---- Attention over them ----

/// The tensors of a problem: inputs, which have gradients, then outputs.
enum : std::size_t { kGraphOut = kGraphGradients, kGraphLse, kGraphWeights, kGraphTensors };

class GraphProblem;

/// Where a tensor stands: it has a layout of rows, one of a matrix or none, being a vector; and it
/// is an input or an output.
struct GraphTensor {
  const char* name;
  std::optional<Tensor> GraphProblem::*tensor;
  heed_layout heed_graph_attention_desc::*rows;
  heed_matrix_layout heed_graph_attention_desc::*matrix;
  const void* heed_graph_attention_args::*input;
  void* heed_graph_attention_args::*output;
  bool (*in)(const heed_graph_attention_desc&);  ///< whether a descriptor lays it out
  bool needed;                                   ///< by each run of such a descriptor
};
const GraphTensor& graph_tensor(std::size_t of);

/// Whether a descriptor lays a tensor out.
bool has(const heed_graph_attention_desc& desc, std::size_t of);

/// Of tensors over nodes and edges [1, heads, rows, features], as in packed attention; of matrices
/// [matrices, 1, in, out], of vectors [1, 1, 1, elements].
Axes shape_of(const heed_graph_attention_desc& desc, const EdgeList& edges, std::size_t of);
/// One of the layouts of a descriptor.
LaidOut laid_out(heed_graph_attention_desc& desc, const EdgeList& edges, std::size_t of);
/// A matrix, or its gradient: one for all nodes, or one of each.
LaidOut laid_out(heed_matrix_layout& layout, const heed_graph_attention_desc& desc,
                 const EdgeList& edges, std::size_t of, Use use);
/// Whether there is one of each node.
inline bool has_own(const heed_graph_attention_desc& desc, std::size_t of) {
  return desc.inputs == HEED_GRAPH_PER_NODE && of >= kGraphWQuery && of <= kGraphWValue;
}

/// With queries, keys and values, and nothing else.
heed_graph_attention_desc graph_desc(Index heads, Index features, Index value_features,
                                     const Types& types = {});
/// Types of all that has one type of the arithmetic; data, matrices and edge data have the query's.
void set_types(heed_graph_attention_desc& desc, const Types& types);

class GraphProblem {
 public:
  /// Has what a run needs, each `misalign` elements off a multiple of 64 bytes.
  GraphProblem(EdgeList graph, const heed_graph_attention_desc& described,
               std::size_t misaligned = 0);

  /// Just the memory that the descriptor's layouts reach now.
  void add(std::initializer_list<std::size_t> all);

  /// Normally distributed numbers; matrices such that products are as large as data.
  void fill(std::uint64_t seed, double amplitude = 1);

  std::optional<Tensor>& at(std::size_t of) { return this->*graph_tensor(of).tensor; }
  const std::optional<Tensor>& at(std::size_t of) const { return this->*graph_tensor(of).tensor; }

  /// Without dropout.
  void keep_all_weights() {
    desc.dropout = 0;
    dropout_seed = dropout_offset = 0;
    dropout_edges.clear();
  }

  /// Whether out may be handed in as data.
  bool may_lie_in_place() const;

  /// What the oracle gets, valid until the problem is changed; of the first nodes, 0: all.
  GraphGiven given(Index first_nodes = 0) const;
  Expected expected() const { return expect(given()); }

  /// What heed gets, except prepared matrices; valid until the problem is changed.
  heed_graph_attention_args args();

  /// Everything that call(args) writes; throws if it writes anything else.
  using Call = std::function<void(const heed_graph_attention_args& args)>;
  Outputs run(const Context& context, const Call& call);
  Outputs run(const Context& context, const Graph& graph);
  Outputs run(const Context& context, const GraphForm& handed_in);
  Outputs run(const Context& context) { return run(context, form); }
  Outputs run(const char* isa) { return run(make_context(isa)); }

  /// What outputs hold.
  Outputs outputs() const;

  EdgeList edges;
  GraphForm form = {};
  heed_graph_attention_desc desc;
  std::size_t misalign;
  std::optional<Tensor> query, key, value, data, w_query, w_key, w_value, b_query, b_key, b_value;
  std::optional<Tensor> edge_data, w_edge_key, w_edge_value, edge_bias, head_weights, score_weights;
  std::optional<Tensor> out, lse, weights;
  std::array<bool, 3> prepared = {};  ///< w_query, w_key and w_value, with their biases
  bool in_place = false;              ///< out is handed in as data too
  std::uint64_t dropout_seed = 0, dropout_offset = 0;
  std::vector<std::int64_t> dropout_edges;  ///< of a larger graph, or none

 private:
  /// Element x of a row of data is element x of all heads of out side by side.
  const void* move_data_into_out();
  std::vector<Weights> prepare(const Context& context, heed_graph_attention_args& a) const;
};

/// One line that identifies a problem but for its numbers.
std::string line_of(const GraphProblem& p);

/// The gradients that a run wrote; empty: not asked for.
using GraphGradients = std::array<Numbers, kGraphGradients>;

inline const char* name_of(GraphGradientOf gradient) { return graph_tensor(gradient).name; }

/// The layouts of a descriptor, which points at its attention's: as the inputs, but that a bias
/// which all heads share has one for all.
LaidOutGradients<kGraphGradients> laid_out(heed_graph_attention_backward_desc& desc,
                                           const EdgeList& edges);

/// Matrices are as they are, not prepared.
class GraphBackwardProblem final
    : public GradientProblem<heed_graph_attention_backward_desc, heed_graph_attention_backward_args,
                             GraphGradientOf, kGraphGradients> {
 public:
  explicit GraphBackwardProblem(GraphProblem problem, std::uint64_t seed = 1,
                                const Form& of_out = {});
  /// Of a valid descriptor, and of tensors that are yet to be drawn.
  GraphBackwardProblem(GraphProblem problem, const heed_graph_attention_backward_desc& desc);

  bool can_want(GraphGradientOf of) const override { return forward.at(of).has_value(); }

  /// What heed gets; valid until the problem is changed.
  heed_graph_attention_backward_args args();
  const heed_graph_attention_backward_desc& desc();

  ExpectedGraphGradients expected();

  /// Everything that a run writes; throws if it writes anything else.
  GraphGradients run(const Context& context, const Graph& graph);
  GraphGradients run(const Context& context) { return run(context, forward.form); }
  GraphGradients run(const Context& context, GraphForm form);

  GraphProblem forward;

 protected:
  LaidOutGradients<kGraphGradients> laid_out() override;

 private:
  heed_graph_attention_args forward_args_{};
};

inline std::string line_of(const GraphBackwardProblem& p) {
  return line_of(p.forward) + line_of_gradients(p);
}

}  // namespace heed_test
