// Gradients over the ranks of MPI_COMM_WORLD.
#pragma once

#include "tests/mpi/ranks.hpp"
#include "tests/problem/attention_backward.hpp"

namespace heed_test {

/// This rank's part of a problem of gradients, out and lse included.
class BackwardShard {
 public:
  BackwardShard(BackwardProblem& whole, const Split& split);

  /// Of all gradients that the problem asks for; valid as long as the shard is.
  const heed_mpi_attention_backward_desc& desc(std::int64_t head_ranks = 0);
  /// Runs it; throws unless that goes well.
  Gradients run(const Context& context, std::int64_t head_ranks = 0);
  /// What a gradient of the whole has for this shard.
  template <class T>
  std::vector<T> part_of(GradientOf gradient, const std::vector<T>& whole) const {
    const Axes& shape = shapes_[gradient];
    if (whole.empty() || !is_split(gradient)) return whole;
    return rows_of(whole, shape, positions_of(gradient));
  }

  Shard attention;
  BackwardProblem problem;

 private:
  bool is_split(GradientOf gradient) const;
  const std::vector<std::int64_t>& positions_of(GradientOf gradient) const {
    const bool of_keys = gradient == kGradKey || gradient == kGradValue;
    return of_keys ? attention.key_positions() : attention.query_positions();
  }

  std::array<Axes, kGradients> shapes_ = {};  ///< of the whole
  heed_mpi_attention_desc over_ = HEED_MPI_ATTENTION_DESC_INIT;
  heed_mpi_attention_backward_desc desc_ = HEED_MPI_ATTENTION_BACKWARD_DESC_INIT;
};

/// Runs a shard and compares its gradients with the oracle's of the whole, which are `want`.
/// `same_bits`: those of queries, keys and values must be the ones of one process.
void check_backward_ranks(BackwardProblem& whole, const ExpectedGradients& want,
                          BackwardShard& shard, std::int64_t head_ranks, bool same_bits,
                          Unspecified unspecified = Unspecified::kForbidden);

}  // namespace heed_test
