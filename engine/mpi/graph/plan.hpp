// The work of a rank in every step of attention over a graph, its messages, and the workspace that
// it takes.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/mpi/communicator.hpp"
#include "engine/mpi/graph/graph.hpp"
#include "engine/mpi/tensor.hpp"

namespace heed::mpi {

/// The rows that travel in every step: `stride` bytes apart, of which the first `bytes` travel.
/// Rows one after the other go and come where they lie. Others are packed before they go, and
/// unpacked when they have come: half of 500,000 rows of 512 bytes take 45 ms from one process to
/// another, where MPI's type of such rows takes 60 to 170.
///
/// Messages go from point to point: in MPICH 4.0.2's neighbourhood collectives
/// (MPI_Ineighbor_alltoallw) a rank that gets rows and sends none gets nothing.
struct Halo {
  Halo() = default;
  /// The graph must outlive it.
  Halo(const RankGraph& graph, std::size_t row_bytes, std::size_t row_stride)
      : bytes(row_bytes), stride(row_stride) {
    if (stride > INT_MAX)
      fail(HEED_STATUS_UNSUPPORTED,
           "keys and values of a node would have %zu bytes; over ranks they may have %d at most",
           bytes, INT_MAX);
    messages.reserve(graph.receives.size() + graph.sends.size());
    packed_row = RowType(bytes, bytes);
    row = RowType(bytes, stride);
    const auto add = [&](const Neighbour& n, bool sent) {
      const std::size_t count = n.rows.size();
      // Rows ascend.
      const auto span = static_cast<std::size_t>(n.rows.back() - n.rows.front()) + 1;
      const bool packed = span != count;
      const std::size_t first = packed ? static_cast<std::size_t>(packed_rows) * bytes
                                       : static_cast<std::size_t>(n.rows.front()) * stride;
      messages.push_back({&n, sent, packed, first});
      if (packed) packed_rows += static_cast<std::int64_t>(count);
      if (sent) sent_bytes += static_cast<double>(count) * static_cast<double>(bytes);
    };
    for (const Neighbour& n : graph.receives) add(n, false);
    for (const Neighbour& n : graph.sends) add(n, true);
  }

  void pack(const std::byte* rows, std::byte* packed) const {
    each_packed(true, [&](std::size_t from, std::size_t to) {
      std::memcpy(packed + to, rows + from, bytes);
    });
  }

  /// Collective. Own rows and packed ones must stay as they are, and others' are not there,
  /// until all requests end.
  void begin(Requests& requests, std::byte* rows, std::byte* packed) const {
    constexpr int kTag = 0;
    for (const Message& m : messages) {
      std::byte* const first = (m.packed ? packed : rows) + m.first;
      const MPI_Datatype type = (m.packed ? packed_row : row).get();
      if (m.sent)
        requests.send(first, m.with->rows.size(), type, m.with->rank, kTag);
      else
        requests.receive(first, m.with->rows.size(), type, m.with->rank, kTag);
    }
  }

  void unpack(const std::byte* packed, std::byte* rows) const {
    each_packed(false, [&](std::size_t to, std::size_t from) {
      std::memcpy(rows + to, packed + from, bytes);
    });
  }

  struct Message {
    const Neighbour* with;
    bool sent;
    bool packed;
    std::size_t first;  ///< byte where it begins, among the rows or the packed ones
  };
  /// Calls function(row, packed row), both offsets in bytes, for packed messages of this direction.
  template <class Function>
  void each_packed(bool sent, Function&& function) const {
    for (const Message& m : messages) {
      if (!m.packed || m.sent != sent) continue;
      std::size_t at = m.first;
      for (const int local : m.with->rows) {
        function(static_cast<std::size_t>(local) * stride, at);
        at += bytes;
      }
    }
  }

  std::size_t bytes = 0, stride = 0;
  RowType packed_row, row;
  std::vector<Message> messages;  ///< a request each, received ones first
  std::int64_t packed_rows = 0;
  double sent_bytes = 0;  ///< by this rank in a step
};

using GraphPlan = Owned<heed_graph_attention_plan>;

/// The calls of a step. The first step reads the caller's data, later ones results.
struct Stage {
  GraphPlan project;        ///< over own nodes, without edges; NULL with HEED_GRAPH_PROJECTED
  GraphPlan inner, border;  ///< over the shares, of projected inputs; NULL without a graph
  heed_layout data;         ///< of own nodes
};

/// Rows in the workspace: the byte at which they begin, and how they lie.
struct Buffer {
  std::size_t at;
  heed_layout layout;
};

/// A call in place reads queries and data of own nodes, and writes their results, where the caller
/// has them. A call that is not in place finds the rows of its nodes in `few`.
struct GraphWorkspace {
  Buffer key, value;   ///< [local rows], key and value of a row next to each other
  std::size_t packed;  ///< rows that the halo packs
  Buffer query;        ///< [own nodes], where the plan projects
  Buffer next[2];      ///< [own nodes] results of a step, and of the next
  struct {
    Buffer query, data, out, lse;
  } few;
  std::size_t calls;  ///< heed's, one after the other
  std::size_t requests;
};

}  // namespace heed::mpi

struct heed_mpi_graph_attention_plan : heed::mpi::RankPlan {
  /// Collective. Throws the same Error on all ranks.
  heed_mpi_graph_attention_plan(const heed_context* context, const heed_mpi_graph& over,
                                const heed_graph_attention_desc* given);
  /// Computes; collective.
  void run(const heed_graph_attention_args* args, void* workspace, std::size_t bytes) const;

  std::shared_ptr<const heed::mpi::RankGraph> graph;
  const heed::mpi::Communicator& comm;  ///< the graph's
  heed_graph_attention_desc asked;      ///< the caller's
  heed_graph_attention_desc desc;       ///< with its defaults filled in, and layouts explicit
  heed::mpi::GraphPlan empty;           ///< over no nodes: heed checks arguments with it
  heed::mpi::GraphPlan whole;           ///< where no rank needs another's rows: all that is called
  heed::mpi::Stage first = {}, later = {};  ///< later only with steps above 1
  heed::mpi::Halo halo;
  heed::mpi::GraphWorkspace workspace = {};
  std::size_t call_bytes = 0;
  double gathered_bytes = 0;

  std::int64_t out_heads() const { return desc.combine == HEED_COMBINE_CONCAT ? desc.heads : 1; }
  bool projects() const { return desc.inputs != HEED_GRAPH_PROJECTED; }
  /// How a call in place finds queries of own nodes, and leaves their results.
  const heed_layout& query_layout() const {
    return projects() ? workspace.query.layout : desc.query;
  }
  const heed_layout& out_layout() const {
    return desc.steps > 1 ? workspace.next[0].layout : desc.out;
  }

 private:
  void read_desc(const heed_context* context, const heed_graph_attention_desc* given);
  void plan_rows();
  void plan_stage(const heed_context& context, heed::mpi::Stage& stage, const heed_layout& data);
  heed::mpi::GraphPlan plan_share(const heed_context& context, const heed::mpi::Share& share,
                                  heed_graph_attention_desc call, const heed_layout& data) const;
  void plan_workspace();
};
