// Gradients of attention over a graph, and the one line that describes them.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "tests/oracle/graph_backward.hpp"
#include "tests/problem/gradients.hpp"
#include "tests/problem/graph_attention.hpp"

namespace heed_test {

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

std::string line_of(const GraphBackwardProblem& p);

}  // namespace heed_test
