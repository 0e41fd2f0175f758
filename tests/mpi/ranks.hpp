// Problems, and their gradients, over the ranks of MPI_COMM_WORLD. Every rank makes the whole
// problem, takes its rows of it, and looks at what comes back for them.
//
// All ranks run the same test cases, in the same order. Once ranks may communicate, assertions must
// not end a test case: CHECK, not REQUIRE.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "api/heed_mpi.h"
#include "tests/problem/attention.hpp"
#include "tests/support/checks.hpp"

namespace heed_test {

HEED_TEST_OBJECT(heed_mpi_attention_plan, heed_mpi_attention_info);
HEED_TEST_OBJECT(heed_mpi_attention_backward_plan, heed_mpi_attention_info);
HEED_TEST_OBJECT(heed_mpi_graph, heed_mpi_graph_info);
HEED_TEST_OBJECT(heed_mpi_graph_attention_plan, heed_mpi_graph_attention_info);

int rank();
int ranks();

/// How messages begin that tell of the last rank.
inline std::string last_rank() { return "rank " + std::to_string(ranks() - 1) + ": "; }

/// Throws, on all ranks, what heed_mpi refuses.
void require_ranks_ok(heed_status status);

/// An object that all ranks make of these.
template <class Object, class... Given>
Owned<Object> create_on_ranks(const Given&... given) {
  Object* object = nullptr;
  require_ranks_ok(Functions<Object>::create(given..., &object));
  return Owned<Object>(object);
}

/// Of the widest instruction set: with one thread, and with several and small tiles.
const Context& plain_context();
const Context& threaded_context();

/// Whose rows are whose: positions by rank.
struct Split {
  const char* name;
  std::uint32_t placement;
  std::vector<std::vector<std::int64_t>> queries, keys;
  bool everywhere = false;  ///< all ranks have the same queries
};

/// heed_mpi_place's: lengths that differ by one row at most.
Split even_split(std::uint32_t placement, std::int64_t queries, std::int64_t keys);
/// All queries on all ranks, keys in order of ranks, some of which have nothing.
Split everywhere(std::int64_t queries, std::int64_t keys);
/// Both, rows in order of some of the ranks, and rows dealt anyhow.
std::vector<Split> all_splits(std::int64_t queries, std::int64_t keys, std::uint64_t seed);

/// Some rows of a tensor, which lie otherwise.
Tensor cut(const Tensor& from, const std::vector<std::int64_t>& rows, Arrangement arrangement,
           std::size_t axis = 2);
/// In its place.
void cut(Tensor& tensor, heed_layout& layout, const std::vector<std::int64_t>& rows,
         Arrangement arrangement);

/// The same of a tensor's elements, in order.
template <class T>
std::vector<T> rows_of(const std::vector<T>& whole, const Axes& shape,
                       const std::vector<std::int64_t>& positions) {
  std::vector<T> own;
  for (std::int64_t p = 0; p < shape[0] * shape[1]; ++p)
    for (const std::int64_t position : positions) {
      const auto begin = whole.begin() + (p * shape[2] + position) * shape[3];
      own.insert(own.end(), begin, begin + shape[3]);
    }
  return own;
}

/// Tensors lie otherwise on every rank, and those of each in other ways.
Arrangement own_arrangement(int shift);

/// This rank's part of a problem.
class Shard {
 public:
  Shard(const Problem& whole, const Split& split);

  heed_mpi_attention_desc desc();
  /// Runs it; throws unless that goes well.
  Outputs run(const Context& context, std::int64_t head_ranks = 0);
  /// What an output of the whole has for the rows of this shard.
  template <class T>
  std::vector<T> rows_of(const std::vector<T>& whole, std::int64_t features) const {
    const heed_attention_desc& d = problem.desc;
    return heed_test::rows_of(whole, {d.batch, d.query_heads, total_queries_, features},
                              query_positions);
  }
  /// What failures name it by.
  std::string line(std::int64_t head_ranks) const;

  const Split split;
  const std::vector<std::int64_t> query_positions, key_positions;
  Problem problem;

 private:
  std::int64_t total_queries_;
  std::vector<std::int32_t> cu_seqlens_q_, cu_seqlens_k_;
};

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
    return of_keys ? attention.key_positions : attention.query_positions;
  }

  std::array<Axes, kGradients> shapes_ = {};  ///< of the whole
  heed_mpi_attention_desc over_ = HEED_MPI_ATTENTION_DESC_INIT;
  heed_mpi_attention_backward_desc desc_ = HEED_MPI_ATTENTION_BACKWARD_DESC_INIT;
};

// ---- Graphs -------------------------------------------------------------------------------------

using MpiGraph = Owned<heed_mpi_graph>;

/// The rank of every node; none: ranges of nodes.
using OwnerList = std::vector<std::int32_t>;

/// The edges that this rank brings: about as many as any other, one rank's after another's.
struct EdgeShare {
  EdgeShare(const EdgeList& whole, const OwnerList& owners);

  heed_mpi_graph_desc desc = HEED_MPI_GRAPH_DESC_INIT;
  std::vector<std::int64_t> sources, destinations;
};

MpiGraph make_mpi_graph(const Context& context, const EdgeList& edges, const OwnerList& owners);

/// Which rows of the whole this rank has.
struct OwnRows {
  explicit OwnRows(const MpiGraph& graph);

  std::vector<std::int64_t> nodes, sources, destinations, edges;
};

/// This rank's part of a problem. Tensors lie otherwise on every rank.
GraphProblem shard_of(const GraphProblem& whole, const OwnRows& own);

// ---- What ranks say ----------------------------------------------------------------------------

/// Checks that a call is refused so.
void check_said(heed_status status, const std::string& message,
                heed_status as = HEED_STATUS_INVALID_ARGUMENT);

/// Whether all ranks say the same.
bool same_everywhere(const std::string& text);

}  // namespace heed_test
