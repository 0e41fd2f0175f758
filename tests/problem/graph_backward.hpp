// Gradients of attention over a graph: what is given besides it, where they are written, and the
// one line that describes them.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "tests/oracle/graph_backward.hpp"
#include "tests/problem/attention_backward.hpp"
#include "tests/problem/graph_attention.hpp"
#include "tests/support/compare.hpp"

namespace heed_test {

/// The gradients that a run wrote; empty: not asked for.
using GraphGradients = std::array<Numbers, kGraphGradients>;

const char* name_of(GraphGradientOf gradient);
std::array<GraphGradientOf, kGraphGradients> all_graph_gradients();

/// The gradient of out is given, normally distributed; that of lse is not, and no gradient is asked
/// for. Matrices are as they are, not prepared.
class GraphBackwardProblem {
 public:
  explicit GraphBackwardProblem(GraphProblem problem, std::uint64_t seed = 1,
                                const Form& of_out = {});

  void give_grad_lse(std::uint64_t seed, const Form& form = {});

  /// Whether the problem has what this is the gradient of.
  bool can_want(GraphGradientOf gradient) const;
  void want(GraphGradientOf gradient, const Form& form = {});
  void want_all();
  void want_nothing();

  /// Adds to numbers that are there.
  void accumulate(std::uint64_t seed);

  /// What heed gets; valid until the problem is changed.
  heed_graph_attention_backward_args args();
  const heed_graph_attention_backward_desc& desc();

  ExpectedGraphGradients expected(Index parts = 1);

  /// Everything that a run writes; throws if it writes anything else.
  GraphGradients run(const Context& context, const Graph& graph);
  GraphGradients run(const Context& context, GraphForm form = {});

  GraphProblem forward;

 private:
  heed_graph_attention_backward_desc desc_ = HEED_GRAPH_ATTENTION_BACKWARD_DESC_INIT;

 public:
  Tensor grad_out;
  std::optional<Tensor> grad_lse;
  std::array<std::optional<Tensor>, kGraphGradients> gradients;

 private:
  void begin();
  void want_rows(GraphGradientOf of, Index rows, Index heads, Index columns, const Form& form,
                 heed_layout& layout);
  void want_matrix(GraphGradientOf of, const std::optional<Tensor>& like, const Form& form,
                   heed_matrix_layout& layout);
  void want_vector(GraphGradientOf of, Index count, const Form& form);

  heed_graph_attention_args forward_args_{};
  std::array<std::optional<Tensor>, kGraphGradients> before_;
};

inline std::array<GraphGradientOf, kGraphGradients> gradients_of(const GraphBackwardProblem&) {
  return all_graph_gradients();
}

using GraphGradientComparison = Comparisons<kGraphGradients>;

std::string line_of(const GraphBackwardProblem& p);

bool same_bits(const GraphGradients& a, const GraphGradients& b);

}  // namespace heed_test
