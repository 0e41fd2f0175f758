// Attention over a graph with everything that it may have, and the one line that describes it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/graph.hpp"
#include "tests/problem/attention.hpp"
#include "tests/support/graphs.hpp"

namespace heed_test {

/// All that a run writes; empty: not asked for.
struct GraphOutputs {
  Numbers out, lse, weights;
};

/// A matrix with its bias, given as it is or prepared.
struct Weighting {
  std::optional<Tensor> matrix;  ///< [matrices, 1, in, out]
  std::optional<Tensor> bias;    ///< [1, 1, 1, out]
  bool prepared = false;

  const void* data() const { return matrix ? matrix->data() : nullptr; }
  const void* bias_data() const { return bias ? bias->data() : nullptr; }
};

/// Tensors over nodes and edges have the shape [1, heads, rows, features], as in packed attention.
/// Set edges and desc's sizes and options first, then add what they call for.
class GraphProblem {
 public:
  GraphProblem(EdgeList graph, Index heads, Index features, Index value_features);

  // ---- Inputs ----

  void add_projected(const Types& types = {}, const std::vector<Arrangement>& arrangements = {});
  void add_data(Index columns, std::uint32_t dtype = HEED_DTYPE_DEFAULT,
                Arrangement arrangement = Arrangement::kDefault);
  /// W_query, W_key and W_value, after data and desc.inputs.
  void add_matrices(std::uint32_t dtype = HEED_DTYPE_DEFAULT,
                    Arrangement arrangement = Arrangement::kDefault);
  void add_matrix_bias(Weighting& w) const;
  /// Before the next two.
  void add_edge_data(Index columns, std::uint32_t dtype = HEED_DTYPE_DEFAULT,
                     Arrangement arrangement = Arrangement::kDefault);
  void add_edge_keys(std::uint32_t dtype = HEED_DTYPE_DEFAULT,
                     Arrangement arrangement = Arrangement::kDefault);
  void add_edge_values(std::uint32_t dtype = HEED_DTYPE_DEFAULT,
                       Arrangement arrangement = Arrangement::kDefault);
  void add_edge_bias(std::uint32_t dtype = HEED_DTYPE_DEFAULT,
                     Arrangement arrangement = Arrangement::kDefault);
  /// One bias for all heads of an edge.
  void add_shared_edge_bias(std::uint32_t dtype = HEED_DTYPE_DEFAULT);

  // ---- Outputs ----

  void add_out(std::uint32_t dtype = HEED_DTYPE_DEFAULT,
               Arrangement arrangement = Arrangement::kDefault);
  void want_lse(std::uint32_t dtype = HEED_DTYPE_DEFAULT,
                Arrangement arrangement = Arrangement::kDefault);
  void want_weights(std::uint32_t dtype = HEED_DTYPE_DEFAULT,
                    Arrangement arrangement = Arrangement::kDefault);

  // ---- Tensors like its own ----

  /// A tensor of that layout; contiguous means [row, head, feature].
  Tensor rows_tensor(Index rows, Index heads, Index columns, std::uint32_t default_dtype,
                     std::uint32_t dtype, Arrangement arrangement, heed_layout& layout) const;
  Tensor matrix(Index count, Index in, Index columns, std::uint32_t dtype, Arrangement arrangement,
                heed_matrix_layout& layout) const;

  // ---- Numbers ----

  /// Normally distributed numbers; matrices such that products are as large as data.
  void fill(std::uint64_t seed, double amplitude = 1);

  // ---- Runs ----

  GraphExpected expected(Index parts = 1);

  /// What heed gets, but for prepared matrices; valid until the problem is changed.
  heed_graph_attention_args args();

  /// Everything that call(args) writes; throws if it writes anything else.
  using Call = std::function<void(const heed_graph_attention_args& args)>;
  GraphOutputs run(const Context& context, const Call& call);
  GraphOutputs run(const Context& context, const Graph& graph);
  GraphOutputs run(const Context& context, const GraphForm& form = {});
  GraphOutputs run(const char* isa);

  EdgeList edges;
  heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
  std::optional<Tensor> query, key, value, data, edge_data, edge_bias;
  std::optional<Tensor> w_edge_key, w_edge_value;
  Weighting w_query, w_key, w_value;
  RealArray head_weights;  ///< .numbers: one per head, or none
  std::optional<Tensor> out, lse, weights;
  bool in_place = false;  ///< out is handed in as data too; both must lie alike
  std::size_t misalign = 0;

 private:
  Index width() const { return value_features_of(desc); }
  std::uint32_t real() const { return real_dtype(desc); }

  Tensor nodes_tensor(Index heads, Index columns, std::uint32_t dtype, Arrangement arrangement,
                      heed_layout& layout) const;
  /// Element x of a row of data is element x of all heads of out side by side.
  const void* move_data_into_out();

  std::vector<Weights> prepare(const Context& context, heed_graph_attention_args& a) const;
};

/// One line that identifies a problem but for its numbers.
std::string line_of(const GraphProblem& p);

bool same_bits(const GraphOutputs& a, const GraphOutputs& b);

}  // namespace heed_test
