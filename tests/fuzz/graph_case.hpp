// Attention over graphs as the targets of graphs and of their gradients draw it.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <vector>

#include "tests/fuzz/drawn_graph.hpp"
#include "tests/fuzz/matrices.hpp"
#include "tests/problem/graph_attention.hpp"

namespace heed_test {

inline bool float64_of(const heed_graph_attention_desc& d) { return d.out.dtype == HEED_DTYPE_F64; }
inline std::uint32_t real_of(const heed_graph_attention_desc& d) {
  return float64_of(d) ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
}
inline bool has_data(const heed_graph_attention_desc& d) {
  return d.inputs != HEED_GRAPH_PROJECTED || d.residual != 0;
}

heed_graph_attention_desc draw_graph_attention(Draw& draw, const EdgeList& edges);

/// Runs of a plan that heed has accepted: memory for them and arguments.
class GraphCase {
 public:
  GraphCase(const EdgeList& edges, const heed_graph_attention_desc& d);

  /// Demands that all tensors can be addressed. False: some are not worth allocating here, or there
  /// is too much to compute.
  bool small();

  void make(Draw& draw, bool may_prepare);
  /// `plain`: as the oracle takes them, matrices as they are.
  heed_graph_attention_args args(bool plain);

  /// The same of what a run got.
  heed_graph_attention_args given(const heed_graph_attention_args& run);

  /// Whether out may lie where data does.
  bool may_lie_in_place() const;

  void check_untouched(bool in_place) const;

  GraphProblem& problem() { return problem_; }

 private:
  static constexpr std::int64_t kMostWork = 1 << 16;

  struct Place {
    std::optional<Tensor>* tensor;
    Extent extent;
    Use use;
  };

  GraphProblem problem_;
  const heed_graph_attention_desc d_;
  std::vector<Place> places_;
  std::vector<FuzzMatrix> matrices_, edge_matrices_;
  bool edge_keys_ = true, edge_values_ = true;
};

/// Fields of its arguments that damage_pointers must leave alone: a byte further, what is no tensor
/// is no object.
inline constexpr std::initializer_list<std::size_t> kGraphObjects = {
    offsetof(heed_graph_attention_args, p_query), offsetof(heed_graph_attention_args, p_key),
    offsetof(heed_graph_attention_args, p_value)};

}  // namespace heed_test
