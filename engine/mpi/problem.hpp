// One problem over ranks: this rank's descriptor, checked, and found to agree with all others.
#pragma once

#include <cstdint>
#include <vector>

#include "api/heed_mpi.h"
#include "engine/mpi/communicator.hpp"
#include "engine/mpi/spans.hpp"
#include "engine/mpi/tensor.hpp"
#include "engine/tensor/scale.hpp"

namespace heed::mpi {

/// The sizes of a mask or bias of the whole problem, as the ranks together say: 1 along an axis
/// where each of them has 1 there.
struct WholeScores {
  std::int64_t batch, heads, keys;
  bool by_rows;  ///< a rank has its own queries' alone; else all have the same
};

struct Problem {
  heed_attention_desc desc;  ///< this rank's; defaults filled in, layouts explicit
  heed_mpi_attention_desc given;
  std::uint32_t gradients;  ///< heed_mpi_gradients that are wanted; 0: attention itself
  heed_attention_backward_desc backward;  ///< of them; its attention is desc
  bool float64;
  std::int64_t total_queries, total_keys;
  Order order;
  std::vector<Spans> queries, keys;  ///< of all ranks
  /// Where sequences begin, and the last ends; one has all rows of a batch that is not packed.
  std::vector<std::int64_t> query_begins, key_begins;
  WholeScores mask, bias;
  RowsList inputs;  ///< in the order of Input
  /// All that is computed of every head: out and lse, or gradients of queries, keys, values and,
  /// where each rank has its own rows of it, a bias. These travel in the arithmetic's type.
  RowsList results;
  RowsList parcel, parcel_gradients;  ///< the inputs and gradients of keys and values

  bool everywhere() const { return given.queries == HEED_MPI_QUERIES_EVERYWHERE; }
  bool brings(heed_mpi_tensors tensor) const { return (given.tensors & tensor) != 0; }
  bool wants(heed_mpi_gradients gradient) const { return (gradients & gradient) != 0; }
  /// How many values a head has in args.score_weights.
  std::int64_t weights_of_head() const { return heed::weights_of_head(desc.score, desc.features); }
  /// Whether the gradient of a bias is of the queries of all ranks.
  bool one_bias() const { return wants(HEED_MPI_GRAD_BIAS) && !bias.by_rows; }
  /// Useful ones, of a pair and all its heads.
  double flops_per_pair() const;
  std::uint32_t real() const { return float64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32; }
};

/// Of a mask or bias that runs do not bring: one element, however long sequences are.
inline constexpr heed_score_layout kNoScores = {0, 0, 1, 1, 1, 1, 0, 0, 0, 0};

/// This rank's descriptor, read and checked as far as it can be without the others'. Throws an
/// Error that names the field, its value and the bound.
Problem read(const heed_context& context, const heed_mpi_attention_desc* desc);
Problem read(const heed_context& context, const heed_mpi_attention_backward_desc* desc);

/// The rest of a problem that every rank has read. Collective. Throws the same Error on all ranks.
void complete(Problem& problem, const Communicator& comm, const heed_context& context);

/// Of this rank's descriptor. Collective. Throws the same Error on all ranks.
template <class Desc>
Problem make_problem(const Communicator& comm, const heed_context* context, const Desc* desc) {
  Problem problem = comm.agreed([&] {
    Communicator::check_thread();
    return read(required(context, "context"), desc);
  });
  complete(problem, comm, *context);
  return problem;
}

/// The tensors of a run, in the order of Input. Where gradients are computed `backward` is given.
Tensors inputs_of(const Problem& problem, const heed_attention_args& args,
                  const heed_attention_backward_args* backward);

}  // namespace heed::mpi
