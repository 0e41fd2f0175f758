// Problems over graphs that several tests have.
#pragma once

#include "tests/dense/kinds.hpp"

namespace heed_test {

/// Queries, keys and values are given; every output is asked for.
inline GraphProblem projected_problem(const EdgeList& edges, Index heads, Index features,
                                      Index value_features, const Types& types = {},
                                      std::uint64_t seed = 1) {
  GraphProblem p(edges, heads, features, value_features);
  p.add_projected(types);
  p.add_out(types.out);
  p.want_lse();
  p.want_weights();
  p.fill(seed);
  return p;
}

/// Everything that edges may have.
inline void add_edge_tensors(GraphProblem& p, Index width,
                             std::uint32_t dtype = HEED_DTYPE_DEFAULT) {
  p.add_edge_bias();
  p.add_edge_data(width, dtype);
  p.add_edge_keys(dtype);
  p.add_edge_values(dtype);
}

}  // namespace heed_test
