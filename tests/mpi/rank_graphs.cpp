#include "tests/mpi/rank_graphs.hpp"

#include <algorithm>
#include <stdexcept>

namespace heed_test {
namespace {

/// How a matrix lies: on that depends the order of sums in products with it.
Arrangement arrangement_of(const Tensor& matrix) {
  for (int i = 0; i < static_cast<int>(Arrangement::kCount); ++i)
    if (strides_of(static_cast<Arrangement>(i), matrix.shape()) == matrix.strides())
      return static_cast<Arrangement>(i);
  throw std::logic_error("a matrix of no arrangement");
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

void require_ranks_ok(heed_status status) {
  if (status != HEED_STATUS_OK) throw std::runtime_error(heed_mpi_last_error());
}

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
  heed_mpi_graph* graph = nullptr;
  require_ranks_ok(heed_mpi_graph_create(MPI_COMM_WORLD, context.get(), &share.desc, &graph));
  return MpiGraph(graph);
}

heed_mpi_graph_info describe(const MpiGraph& graph) {
  heed_mpi_graph_info info = HEED_MPI_GRAPH_INFO_INIT;
  require_ranks_ok(heed_mpi_graph_describe(graph.get(), &info));
  return info;
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
  int shift = 0;
  const auto cut_rows = [&](std::optional<Tensor>& tensor, heed_layout& layout,
                            const std::vector<std::int64_t>& rows, bool as_default = false) {
    const Arrangement arrangement = as_default ? Arrangement::kDefault : own_arrangement(shift++);
    if (!tensor) return;
    const Tensor own_rows = cut(*tensor, rows, Arrangement::kDefault);
    const Axes& n = own_rows.shape();
    tensor =
        shard.rows_tensor(n[2], n[1], n[3], own_rows.dtype(), layout.dtype, arrangement, layout);
    tensor->assign(own_rows);
  };
  cut_rows(shard.query, d.query, own.nodes);
  cut_rows(shard.key, d.key, own.nodes);
  cut_rows(shard.value, d.value, own.nodes);
  cut_rows(shard.data, d.data, own.nodes, whole.in_place);
  cut_rows(shard.out, d.out, own.nodes, whole.in_place);
  cut_rows(shard.lse, d.lse, own.nodes);
  cut_rows(shard.edge_data, d.edge_data, own.edges);
  cut_rows(shard.weights, d.weights, own.edges);
  if (whole.edge_bias && whole.edge_bias->strides()[1] == 0 && d.heads > 1) {
    shard.add_shared_edge_bias(d.edge_bias.dtype);
    shard.edge_bias->assign(cut(*whole.edge_bias, own.edges, Arrangement::kDefault));
  } else {
    cut_rows(shard.edge_bias, d.edge_bias, own.edges);
  }
  if (d.inputs != HEED_GRAPH_PER_NODE) return shard;
  const auto cut_matrices = [&](Weighting& w, heed_matrix_layout& layout) {
    const Tensor all = cut(*w.matrix, own.nodes, Arrangement::kDefault, 0);
    const Axes& n = all.shape();
    w.matrix = shard.matrix(n[0], n[2], n[3], layout.dtype, arrangement_of(*w.matrix), layout);
    w.matrix->assign(all);
  };
  cut_matrices(shard.w_query, d.w_query);
  cut_matrices(shard.w_key, d.w_key);
  cut_matrices(shard.w_value, d.w_value);
  return shard;
}

void check_split(GraphProblem& whole, const OwnerList& owners, const GraphForm& form) {
  const Context& context = plain_context();
  INFO("rank " << rank() << " of " << ranks() << (owners.empty() ? ", ranges: " : ", owners: ")
               << line_of(whole));
  const GraphOutputs want = whole.run(context, form);
  const MpiGraph graph = make_mpi_graph(context, whole.edges, owners);
  const OwnRows own(graph);
  GraphProblem shard = shard_of(whole, own);
  const Index heads = out_heads_of(whole.desc);
  for (const Context* with : {&context, &threaded_context()}) {
    const GraphOutputs got = shard.run(*with, [&](const heed_graph_attention_args& args) {
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
