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

/// Throws what a call of heed.h refuses.
void check(heed_status status);
DensePlan make_dense_plan(const heed_context& context, const heed_attention_desc& desc);

struct Problem {
  heed_attention_desc desc;  ///< this rank's; defaults filled in, layouts explicit
  heed_mpi_attention_desc given;
  DensePlan shard;  ///< attention of this shard to itself: what the dense checks have passed
  bool float64;
  std::int64_t total_queries, total_keys;
  Order order;
  std::vector<Spans> queries, keys;  ///< of all ranks

  bool everywhere() const { return given.queries == HEED_MPI_QUERIES_EVERYWHERE; }
  bool brings(heed_mpi_tensors tensor) const { return (given.tensors & tensor) != 0; }
  std::uint32_t real() const { return float64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32; }
};

/// Collective. Throws the same Error on all ranks.
Problem make_problem(const Communicator& comm, const heed_context* context,
                     const heed_mpi_attention_desc* desc);

}  // namespace heed::mpi
