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
  bool by_rows;  ///< a rank has the rows of its own queries alone; else all have the same
};

struct Problem {
  heed_attention_desc desc;  ///< this rank's; defaults filled in, layouts explicit
  heed_mpi_attention_desc given;
  std::uint32_t gradients;                ///< the wanted heed_mpi_gradients; 0: attention itself
  heed_attention_backward_desc backward;  ///< describes gradients; its attention is desc
  std::int64_t total_queries, total_keys;
  Order order;
  std::vector<Spans> queries, keys;  ///< of all ranks
  /// Where sequences begin, and the last ends. A batch that is not packed is one sequence here.
  std::vector<std::int64_t> query_begins, key_begins;
  WholeScores mask, bias;
  RowsList inputs;  ///< in the order of Input
  /// The results of every head: out and lse, or gradients of queries, keys, values and, where each
  /// rank has its own rows of it, a bias. Gradients travel in the arithmetic's type.
  RowsList results;
  RowsList parcel, parcel_gradients;  ///< the inputs and gradients of keys and values
  /// The results of calls for a slice of queries: out and lse as they are merged, or the gradient.
  RowsList slice_results;

  bool everywhere() const { return given.queries == HEED_MPI_QUERIES_EVERYWHERE; }
  bool brings(heed_mpi_tensors tensor) const { return (given.tensors & tensor) != 0; }
  bool wants(heed_mpi_gradients gradient) const { return (gradients & gradient) != 0; }
  /// How many values a head has in args.score_weights.
  std::int64_t weights_of_head() const { return heed::weights_of_head(desc.score, desc.features); }
  /// The useful operations of a pair and all its heads.
  double flops_per_pair() const;
  /// The arithmetic's type.
  std::uint32_t real() const {
    return desc.query.dtype == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
  }
};

/// Stands for a mask or bias that runs do not bring: one element, however long sequences are.
inline constexpr heed_score_layout kNoScores = {0, 0, 1, 1, 1, 1, 0, 0, 0, 0};

/// Reads this rank's descriptor, and checks it as far as it can be without the others'. Throws an
/// Error that names the field, its value and the bound.
Problem read(const heed_context& context, const heed_mpi_attention_desc* desc);
Problem read(const heed_context& context, const heed_mpi_attention_backward_desc* desc);

/// Fills in the rest of a problem that every rank has read. Collective. Throws the same Error on
/// all ranks.
void complete(Problem& problem, const Communicator& comm, const heed_context& context);

/// The tensors that a run reads, in the order of Input.
Tensors inputs_of(const Problem& problem, const heed_attention_args& args,
                  const heed_attention_backward_args& backward);

}  // namespace heed::mpi
