// Random graphs and attention to differentiate: each option is drawn on its own.
#pragma once

#include <utility>

#include "tests/problem/graph_backward.hpp"
#include "tests/problem/random_graphs.hpp"

namespace heed_test {

/// A form of attention that has gradients.
inline GraphProblem differentiable_graph(std::uint64_t seed, Graphs graphs = Graphs::kAny) {
  for (std::uint64_t n = 0;; ++n) {
    GraphProblem p = RandomGraphs(seed + (n << 32U), graphs).draw();
    if (p.desc.hard != 0) continue;
    p.in_place = false;
    return p;
  }
}

class RandomGraphBackward : Drawing {
 public:
  explicit RandomGraphBackward(std::uint64_t seed, Graphs graphs = Graphs::kAny)
      : Drawing(seed ^ 0xbac4), seed_(seed), graphs_(graphs) {}

  GraphBackwardProblem draw() {
    GraphProblem forward = differentiable_graph(seed_, graphs_);
    wide_ = is_float64(forward.desc);
    steps_ = forward.desc.steps > 1;
    per_node_ = forward.desc.inputs == HEED_GRAPH_PER_NODE;
    GraphBackwardProblem p(std::move(forward), random_.bits(), draw_form());
    if (one_in(2)) p.give_grad_lse(random_.bits(), draw_real());
    if (one_in(10)) plant(p.grad_out);
    const bool all = one_in(2);
    for (const GraphGradientOf of : all_graph_gradients())
      if (p.can_want(of) && (all || one_in(2))) p.want(of, form_of(of));
    if (one_in(4)) p.accumulate(random_.bits());
    return p;
  }

 private:
  Form draw_as(std::uint32_t dtype) {
    return {dtype, draw_arrangement(), static_cast<std::size_t>(random_.integer(0, 3))};
  }
  Form draw_form() {
    if (wide_) return draw_as(one_in(2) ? HEED_DTYPE_DEFAULT : HEED_DTYPE_F64);
    return draw_as(pick<std::uint32_t>(
        {HEED_DTYPE_F32, HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16, HEED_DTYPE_DEFAULT}));
  }
  Form draw_real() {
    return draw_as(pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64}));
  }
  Form form_of(GraphGradientOf of) {
    if (of == kGraphEdgeBias)
      return steps_ ? draw_as(one_in(2) ? HEED_DTYPE_DEFAULT : HEED_DTYPE_F64)
                    : draw_as(static_cast<std::uint32_t>(random_.integer(0, 4)));
    const bool own = per_node_ && (of == kGraphWQuery || of == kGraphWKey || of == kGraphWValue);
    if ((of == kGraphEdgeData || own) && steps_) return draw_as(HEED_DTYPE_DEFAULT);
    return draw_form();
  }

  std::uint64_t seed_;
  Graphs graphs_;
  bool wide_ = false;
  bool steps_ = false;
  bool per_node_ = false;
};

}  // namespace heed_test
