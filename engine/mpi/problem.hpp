// One problem over ranks: this rank's descriptor, checked, and found to be that of all others.
#pragma once

#include <cstdint>
#include <memory>

#include "api/heed_mpi.h"
#include "engine/mpi/communicator.hpp"
#include "engine/mpi/spans.hpp"

namespace heed::mpi {

struct DestroyPlan {
  void operator()(heed_attention_plan* plan) const { heed_attention_plan_destroy(plan); }
};
using DensePlan = std::unique_ptr<heed_attention_plan, DestroyPlan>;
struct DestroyBackwardPlan {
  void operator()(heed_attention_backward_plan* plan) const {
    heed_attention_backward_plan_destroy(plan);
  }
};
using DenseBackwardPlan = std::unique_ptr<heed_attention_backward_plan, DestroyBackwardPlan>;

/// Throws what a call of heed.h refuses.
void check(heed_status status);
DensePlan make_dense_plan(const heed_context& context, const heed_attention_desc& desc);
DenseBackwardPlan make_dense_plan(const heed_context& context,
                                  const heed_attention_backward_desc& desc);

struct Problem {
  heed_attention_desc desc;  ///< this rank's; defaults filled in, layouts explicit
  heed_mpi_attention_desc given;
  std::uint32_t gradients;  ///< heed_mpi_gradients that are wanted; 0: attention itself
  heed_attention_backward_desc backward;  ///< of them; its attention is desc
  DensePlan shard;  ///< attention of this shard to itself: what the dense checks have passed
  bool float64;
  std::int64_t total_queries, total_keys;
  Order order;
  std::vector<Spans> queries, keys;  ///< of all ranks
  bool one_bias;                     ///< for the queries of all ranks, and so one gradient

  bool everywhere() const { return given.queries == HEED_MPI_QUERIES_EVERYWHERE; }
  bool brings(heed_mpi_tensors tensor) const { return (given.tensors & tensor) != 0; }
  bool wants(heed_mpi_gradients gradient) const { return (gradients & gradient) != 0; }
  /// Useful ones, of a pair and all its heads.
  double flops_per_pair() const;
  /// Of a row of keys and values, those whose gradients are wanted.
  std::int64_t gradient_features() const {
    return (wants(HEED_MPI_GRAD_KEY) ? desc.features : 0) +
           (wants(HEED_MPI_GRAD_VALUE) ? desc.value_features : 0);
  }
  std::uint32_t real() const { return float64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32; }
};

/// Collective. Throws the same Error on all ranks.
Problem make_problem(const Communicator& comm, const heed_context* context,
                     const heed_mpi_attention_desc* desc);
Problem make_problem(const Communicator& comm, const heed_context* context,
                     const heed_mpi_attention_backward_desc* desc);

}  // namespace heed::mpi
