// Gradients of attention over a graph: what is given besides it, where they are written, and the
// one line that describes them.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>

#include "tests/problem/attention_backward.hpp"
#include "tests/problem/graph_attention.hpp"
#include "tests/support/compare.hpp"

namespace heed_test {

/// The gradients that a run wrote; empty: not asked for.
using GraphGradients = std::array<Numbers, kGraphGradients>;

const char* name_of(GraphGradientOf gradient);
std::array<GraphGradientOf, kGraphGradients> all_graph_gradients();

/// Where a gradient stands; a vector's has no layout.
struct GraphGradientPlace {
  heed_layout heed_graph_attention_backward_desc::*rows;
  heed_matrix_layout heed_graph_attention_backward_desc::*matrix;
  void* heed_graph_attention_backward_args::*pointer;
};
const GraphGradientPlace& gradient_place(std::size_t of);

/// What gradients reach: as the inputs, but that a bias which all heads share has one for all.
Axes gradient_shape_of(const heed_graph_attention_desc& desc, const EdgeList& edges,
                       std::size_t of);
Extent gradient_extent_of(const heed_graph_attention_backward_desc& desc,
                          const heed_graph_attention_desc& attention, const EdgeList& edges,
                          std::size_t of);
/// Those of out and lse, which are given.
std::array<Extent, 2> given_extents_of(const heed_graph_attention_backward_desc& desc,
                                       const heed_graph_attention_desc& attention,
                                       const EdgeList& edges);

/// The gradient of out is given, normally distributed; that of lse is not, and no gradient is asked
/// for. Matrices are as they are, not prepared.
class GraphBackwardProblem {
 public:
  explicit GraphBackwardProblem(GraphProblem problem, std::uint64_t seed = 1,
                                const heed_graph_attention_backward_desc& described =
                                    HEED_GRAPH_ATTENTION_BACKWARD_DESC_INIT);

  void give_grad_lse(std::uint64_t seed);

  static std::array<GraphGradientOf, kGraphGradients> all() { return all_graph_gradients(); }

  /// Whether the problem has what this is the gradient of.
  bool can_want(GraphGradientOf gradient) const { return forward.at(gradient).has_value(); }
  void want(GraphGradientOf gradient, const Form& form = {});
  /// Where the descriptor says that it lies.
  void want_as_described(GraphGradientOf gradient);
  void want_all();
  void want_nothing();

  /// Adds to numbers that are there.
  void accumulate(std::uint64_t seed);

  /// What heed gets; valid until the problem is changed.
  heed_graph_attention_backward_args args();
  const heed_graph_attention_backward_desc& desc();

  ExpectedGraphGradients expected(Index parts = 1);

  /// Everything that call(args) writes; throws if it writes anything else.
  using Call = std::function<void(const heed_graph_attention_backward_args& args)>;
  GraphGradients run(const Call& call);
  GraphGradients run(const Context& context, const Graph& graph);
  GraphGradients run(const Context& context) { return run(context, forward.form); }
  GraphGradients run(const Context& context, GraphForm form);

  /// What gradients hold.
  GraphGradients outputs() const;

  GraphProblem forward;

 private:
  heed_graph_attention_backward_desc desc_;

 public:
  Tensor grad_out;
  std::optional<Tensor> grad_lse;
  std::array<std::optional<Tensor>, kGraphGradients> gradients;

 private:
  void begin();

  heed_graph_attention_args forward_args_{};
  std::array<std::optional<Tensor>, kGraphGradients> before_;
};

using GraphGradientComparison = Comparisons<kGraphGradients>;

std::string line_of(const GraphBackwardProblem& p);

}  // namespace heed_test
