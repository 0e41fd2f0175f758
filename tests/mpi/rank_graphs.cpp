#include "tests/mpi/rank_graphs.hpp"

#include <algorithm>
#include <stdexcept>

namespace heed_test {
namespace {

/// Index `axis` of the whole's tensor goes by `rows`.
void take(const std::optional<Tensor>& from, const std::vector<std::int64_t>& rows,
          std::optional<Tensor>& to, std::size_t axis = 2) {
  if (!from) return;
  to->fill([&](Axes at) {
    at[axis] = rows[static_cast<std::size_t>(at[axis])];
    return from->get(at);
  });
}

Arrangement arrangement(int shift) {
  return static_cast<Arrangement>((rank() + shift) % static_cast<int>(Arrangement::kCount));
}

/// How a matrix lies: on that depends the order of sums in products with it.
Arrangement arrangement_of(const Tensor& matrix) {
  for (int i = 0; i < static_cast<int>(Arrangement::kCount); ++i)
    if (strides_of(static_cast<Arrangement>(i), matrix.shape()) == matrix.strides())
      return static_cast<Arrangement>(i);
  throw std::logic_error("a matrix of no arrangement");
}

void add_nodes(const GraphProblem& whole, GraphProblem& shard) {
  const heed_graph_attention_desc& d = whole.desc;
  if (whole.query)
    shard.add_projected({d.query.dtype, d.key.dtype, d.value.dtype},
                        {arrangement(0), arrangement(1), arrangement(2)});
  const Arrangement data = whole.in_place ? Arrangement::kDefault : arrangement(3);
  if (whole.data) shard.add_data(d.width, d.data.dtype, data);
  if (whole.w_query.matrix)
    shard.add_matrices(d.w_query.dtype, arrangement_of(*whole.w_query.matrix));
  shard.add_out(d.out.dtype, whole.in_place ? Arrangement::kDefault : arrangement(5));
  if (whole.lse) shard.want_lse(d.lse.dtype, arrangement(6));
}

void add_edges(const GraphProblem& whole, GraphProblem& shard) {
  const heed_graph_attention_desc& d = whole.desc;
  if (whole.edge_data) shard.add_edge_data(d.edge_width, d.edge_data.dtype, arrangement(7));
  if (whole.w_edge_key) shard.add_edge_keys(d.w_edge_key.dtype, arrangement(8));
  if (whole.w_edge_value) shard.add_edge_values(d.w_edge_value.dtype, arrangement(9));
  if (whole.edge_bias) {
    const bool shared = d.edge_bias.stride_head == 0 && d.edge_bias.stride_row != 0 && d.heads > 1;
    if (shared)
      shard.add_shared_edge_bias(d.edge_bias.dtype);
    else
      shard.add_edge_bias(d.edge_bias.dtype, arrangement(10));
  }
  if (whole.weights) shard.want_weights(d.weights.dtype, arrangement(11));
}

void take_matrix(const Weighting& from, const OwnRows& own, Weighting& to, GraphProblem& shard) {
  if (!from.matrix) return;
  const bool per_node = shard.desc.inputs == HEED_GRAPH_PER_NODE;
  take(from.matrix, per_node ? own.nodes : std::vector<std::int64_t>{0}, to.matrix, 0);
  if (from.bias) {
    shard.add_matrix_bias(to);
    to.bias->fill([&](const Axes& at) { return from.bias->get(at); });
  }
  to.prepared = from.prepared;
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
  EdgeList edges{static_cast<Index>(own.nodes.size()), own.sources, own.destinations,
                 whole.edges.unique};
  GraphProblem shard(edges, whole.desc.heads, whole.desc.features, whole.desc.value_features);
  const heed_graph_attention_desc& d = whole.desc;
  shard.desc.inputs = d.inputs;
  shard.desc.steps = d.steps;
  shard.desc.scale = d.scale;
  shard.desc.softcap = d.softcap;
  shard.desc.temperature = d.temperature;
  shard.desc.hard = d.hard;
  shard.desc.combine = d.combine;
  shard.desc.residual = d.residual;
  shard.desc.bias_dtype = d.bias_dtype;
  shard.in_place = whole.in_place;
  shard.head_weights = whole.head_weights;
  add_nodes(whole, shard);
  add_edges(whole, shard);
  take(whole.query, own.nodes, shard.query);
  take(whole.key, own.nodes, shard.key);
  take(whole.value, own.nodes, shard.value);
  take(whole.data, own.nodes, shard.data);
  take_matrix(whole.w_query, own, shard.w_query, shard);
  take_matrix(whole.w_key, own, shard.w_key, shard);
  take_matrix(whole.w_value, own, shard.w_value, shard);
  take(whole.edge_data, own.edges, shard.edge_data);
  take(whole.edge_bias, own.edges, shard.edge_bias);
  take(whole.w_edge_key, {0}, shard.w_edge_key, 0);
  take(whole.w_edge_value, {0}, shard.w_edge_value, 0);
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
