#include "tests/mpi/rank_graphs.hpp"

#include <algorithm>

namespace heed_test {
namespace {

/// Whether several elements share a place.
bool repeats(const heed_layout& layout) {
  const bool zero = layout.stride_head == 0 && layout.stride_row == 0 && layout.stride_feature == 0;
  return layout.reserved == HEED_STRIDES_EXPLICIT || (layout.stride_head == 0 && !zero);
}

/// Rows of what the whole has for all [heads, of all, columns].
void check_rows(const char* name, const Numbers& got, const Numbers& whole, Index heads,
                Index columns, Index of_all, const std::vector<std::int64_t>& rows) {
  Numbers want{whole.dtype, {}};
  for (Index h = 0; whole.size() > 0 && h < heads; ++h)
    for (const std::int64_t row : rows) {
      const auto begin = whole.bits.begin() + (h * of_all + row) * columns;
      want.bits.insert(want.bits.end(), begin, begin + columns);
    }
  INFO(name);
  CHECK(same_bits(got, want));
}

}  // namespace

OwnerList dealt_owners(Index nodes, std::uint64_t seed) {
  Random random(seed);
  OwnerList owners;
  for (Index n = 0; n < nodes; ++n)
    owners.push_back(static_cast<std::int32_t>(random.integer(0, ranks() - 1)));
  return owners;
}

OwnerList few_owners(Index nodes) {
  OwnerList owners;
  for (Index n = 0; n < nodes; ++n)
    owners.push_back(static_cast<std::int32_t>(n % ((ranks() + 1) / 2) * 2));
  return owners;
}

EdgeShare::EdgeShare(const EdgeList& whole, const OwnerList& owners) {
  const auto begin = whole.size() * rank() / ranks();
  const auto end = whole.size() * (rank() + 1) / ranks();
  sources.assign(whole.sources.begin() + begin, whole.sources.begin() + end);
  destinations.assign(whole.destinations.begin() + begin, whole.destinations.begin() + end);
  desc.index_type = HEED_INDEX_I64;
  desc.nodes = whole.nodes;
  desc.edges = end - begin;
  desc.sources = sources.data();
  desc.destinations = destinations.data();
  desc.duplicates = whole.unique ? HEED_DUPLICATES_REMOVE : HEED_DUPLICATES_KEEP;
  if (!owners.empty()) desc.owners = owners.data();
}

MpiGraph make_mpi_graph(const Context& context, const EdgeList& edges, const OwnerList& owners) {
  const EdgeShare share(edges, owners);
  return create_on_ranks<heed_mpi_graph>(MPI_COMM_WORLD, context.get(), &share.desc);
}

OwnRows::OwnRows(const MpiGraph& graph) {
  const heed_mpi_graph_info info = describe(graph);
  nodes.resize(static_cast<std::size_t>(info.own_nodes));
  for (auto* const list : {&sources, &destinations, &edges})
    list->resize(static_cast<std::size_t>(info.own_given));
  require_ranks_ok(heed_mpi_graph_nodes(graph.get(), nodes.data()));
  require_ranks_ok(
      heed_mpi_graph_edges(graph.get(), sources.data(), destinations.data(), edges.data()));
}

GraphProblem shard_of(const GraphProblem& whole, const OwnRows& own) {
  GraphProblem shard = whole;
  heed_graph_attention_desc& d = shard.desc;
  shard.edges = {static_cast<Index>(own.nodes.size()), own.sources, own.destinations,
                 whole.edges.unique};
  for (std::size_t of = 0; of < kGraphTensors; ++of) {
    const auto rows = graph_tensor(of).rows;
    const bool matrices =
        graph_tensor(of).matrix != nullptr && d.inputs == HEED_GRAPH_PER_NODE && of <= kGraphWValue;
    if (!whole.at(of) || (rows == nullptr && !matrices)) continue;
    const bool edges = of == kGraphEdgeData || of == kGraphEdgeBias || of == kGraphWeights;
    const Arrangement arrangement = own_arrangement(static_cast<int>(of));
    const Tensor part =
        cut(*whole.at(of), edges ? own.edges : own.nodes, arrangement, matrices ? 0 : 2);
    const bool one_place = whole.in_place && (of == kGraphData || of == kGraphOut);
    if (!matrices && !one_place && !repeats(d.*rows)) {
      d.*rows = layout_of(part, arrangement, (d.*rows).dtype);
      (d.*rows).stride_batch = 0;
    }
    shard.add({of});
    shard.at(of)->assign(part);
  }
  return shard;
}

void check_split(GraphProblem& whole, const OwnerList& owners) {
  const Context& context = plain_context();
  INFO("rank " << rank() << " of " << ranks() << (owners.empty() ? ", ranges: " : ", owners: ")
               << line_of(whole));
  const Outputs want = whole.run(context);
  const MpiGraph graph = make_mpi_graph(context, whole.edges, owners);
  const OwnRows own(graph);
  GraphProblem shard = shard_of(whole, own);
  const Index heads = out_heads_of(whole.desc);
  for (const Context* with : {&context, &threaded_context()}) {
    const Outputs got = shard.run(*with, [&](const heed_graph_attention_args& args) {
      require_ranks_ok(heed_mpi_graph_attention(with->get(), graph.get(), &shard.desc, &args));
    });
    check_rows("out", got.out, want.out, heads, value_features_of(whole.desc), whole.edges.nodes,
               own.nodes);
    check_rows("lse", got.lse, want.lse, whole.desc.heads, 1, whole.edges.nodes, own.nodes);
    check_rows("weights", got.weights, want.weights, whole.desc.heads, 1, whole.edges.size(),
               own.edges);
  }
}

}  // namespace heed_test
