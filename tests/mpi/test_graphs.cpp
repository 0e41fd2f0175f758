// Attention over graphs over ranks has the bits of attention in one process.
#include <numeric>

#include "tests/graph/problems.hpp"
#include "tests/mpi/ranks.hpp"
#include "tests/problem/random_problems.hpp"
#include "tests/support/size.hpp"

using namespace heed_test;

namespace {

std::int64_t sum_over_ranks(std::int64_t x) {
  std::int64_t sum = 0;
  MPI_Allreduce(&x, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

/// Nodes on a circle, with edges from those on both sides.
EdgeList circle(Index nodes) {
  EdgeList edges{nodes, {}, {}, false};
  for (Index n = 0; n < nodes; ++n) {
    edges.add((n + 1) % nodes, n);
    edges.add((n + nodes - 1) % nodes, n);
  }
  return edges;
}

OwnerList dealt_owners(Index nodes, std::uint64_t seed) {
  Random random(seed);
  OwnerList owners;
  for (Index n = 0; n < nodes; ++n)
    owners.push_back(static_cast<std::int32_t>(random.integer(0, ranks() - 1)));
  return owners;
}

/// Every other rank has nothing.
OwnerList few_owners(Index nodes) {
  OwnerList owners;
  for (Index n = 0; n < nodes; ++n)
    owners.push_back(static_cast<std::int32_t>(n % ((ranks() + 1) / 2) * 2));
  return owners;
}

/// Compares with these rows of what the whole has for all [heads, of all, columns].
void check_rows(const char* name, const Numbers& got, const Numbers& whole, Index heads,
                Index columns, Index of_all, const std::vector<std::int64_t>& rows) {
  INFO(name);
  if (whole.size() == 0)
    CHECK(got.size() == 0);
  else
    CHECK(same_bits(got, {whole.dtype, rows_of(whole.bits, {1, heads, of_all, columns}, rows)}));
}

/// Runs a problem split so: every rank's rows must have the bits of the whole in one process.
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

}  // namespace

TEST_CASE("random problems over random graphs, split in every way") {
  Draw draw(20261122);
  const std::size_t cases = count_forms(240);
  for (std::size_t i = 0; i < cases; ++i) {
    GraphProblem whole = draw_graph_problem(draw, i % 12 == 5 ? Graphs::kHub : Graphs::kAny);
    if (whole.edges.source_nodes > 0) continue;  // graphs over ranks have none
    whole.dropout_edges.clear();                 // and numbers of edges of their own
    const Index nodes = whole.edges.nodes;
    check_split(whole, i % 3 == 0 || nodes == 0 ? OwnerList{}
                       : i % 3 == 1             ? dealt_owners(nodes, i)
                                                : few_owners(nodes));
  }
}

TEST_CASE("dropout goes by the edges of the whole graph, of hubs and in every step") {
  // Most edges lead from near by, so that ranks have inner nodes; and edges from nodes to
  // themselves, whose ranks need nothing of each other.
  const Index nodes = Index{40} * ranks();
  EdgeList near = circle(nodes), own{nodes, {}, {}, false};
  for (Index e = 0; e < 8 * nodes; ++e) {
    near.add((e + e / nodes + 1) % nodes, e % nodes);
    own.add(e * 7 % nodes, e * 7 % nodes);
  }
  for (const EdgeList& edges : {hub_graph(nodes, 2000, 17, 3), near, own})
    for (const std::int64_t steps : {1, 3}) {
      heed_graph_attention_desc d = of_data(HEED_GRAPH_SHARED, 24, 3, 8, 8);
      d.steps = steps;
      d.dropout = 0.4;
      GraphProblem whole(edges, d);
      add_edge_tensors(whole, 2);
      whole.add({kGraphLse, kGraphWeights});
      whole.fill(5, 0.4);
      whole.dropout_seed = 6;
      whole.dropout_offset = UINT64_MAX;  // that of the second step is 0
      check_split(whole, {});
      check_split(whole, dealt_owners(nodes, 7));
      check_split(whole, few_owners(nodes));
    }
}

TEST_CASE("what a rank has, gets and sends") {
  const Index nodes = Index{100} * ranks();
  const MpiGraph graph = make_mpi_graph(plain_context(), circle(nodes), {});
  const heed_mpi_graph_info info = describe(graph);
  const bool alone = ranks() == 1;
  CHECK(info.nodes == nodes);
  CHECK(info.edges == 2 * nodes);
  CHECK(info.own_nodes == 100);
  CHECK(info.own_given == 200);
  CHECK(info.own_edges == 200);
  CHECK(info.inner_nodes == (alone ? 100 : 98));
  CHECK(info.inner_edges == (alone ? 200 : 196));
  CHECK(info.remote_rows == (alone ? 0 : 2));
  CHECK(info.sent_rows == (alone ? 0 : 2));
  CHECK(info.senders == (alone ? 0 : ranks() == 2 ? 1 : 2));
  CHECK(info.receivers == info.senders);
  CHECK(info.bytes > 0);
  const OwnRows own(graph);
  std::vector<std::int64_t> range(100);
  std::iota(range.begin(), range.end(), 100 * rank());
  CHECK(own.nodes == range);
  for (std::size_t e = 0; e < own.edges.size(); ++e) {
    CHECK(own.destinations[e] == own.edges[e] / 2);
    CHECK(std::abs(own.sources[e] - own.destinations[e]) % (nodes - 2) == 1);
  }

  heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
  desc.heads = 3;
  desc.features = 5;
  desc.key.dtype = HEED_DTYPE_BF16;
  const auto plan =
      create_on_ranks<heed_mpi_graph_attention_plan>(plain_context().get(), graph.get(), &desc);
  const heed_mpi_graph_attention_info told = describe(plan);
  CHECK(told.ranks == ranks());
  CHECK(told.rank == rank());
  CHECK(told.steps == 1);
  // 15 keys of 2 bytes, values from the next multiple of 4 on.
  CHECK(told.step_bytes == (alone ? 0 : 2 * (32 + 60)));
  CHECK(told.gathered_bytes == 200 * (30 + 60));
  std::size_t bytes = 0;
  CHECK(heed_mpi_graph_attention_plan_workspace(plan.get(), &bytes) == HEED_STATUS_OK);
  CHECK(bytes == told.workspace_bytes);
}

TEST_CASE("ranges have nodes and edges alike") {
  const EdgeList edges = hub_graph(200, 3000, 199, 4);
  const heed_mpi_graph_info info = describe(make_mpi_graph(plain_context(), edges, {}));
  CHECK(sum_over_ranks(info.own_nodes) == 200);
  CHECK(sum_over_ranks(info.own_given) == edges.size());
  // No range can be cut within the node that has most.
  CHECK(info.own_nodes + info.own_given <= (200 + edges.size()) / ranks() + edges.size());
  const heed_mpi_graph_info even = describe(make_mpi_graph(plain_context(), circle(84), {}));
  CHECK(even.own_nodes == 84 / ranks());
}

TEST_CASE("a plan outlives its graph, and runs again") {
  GraphProblem whole = projected_problem(random_edges(40, 200, 5), 2, 8, 8);
  const Outputs want = whole.run(plain_context());
  MpiGraph graph = make_mpi_graph(plain_context(), whole.edges, dealt_owners(40, 6));
  const OwnRows own(graph);
  GraphProblem shard = shard_of(whole, own);
  const auto plan = create_on_ranks<heed_mpi_graph_attention_plan>(plain_context().get(),
                                                                   graph.get(), &shard.desc);
  graph.reset();
  heed_mpi_times times = HEED_MPI_TIMES_INIT;
  CHECK(heed_mpi_graph_attention_plan_times(plan.get(), &times) == HEED_STATUS_OK);
  CHECK(times.run == 0);
  Outputs first, second;
  for (Outputs* const got : {&first, &second})
    *got = shard.run(plain_context(), [&](const heed_graph_attention_args& args) {
      Workspace workspace(describe(plan).workspace_bytes);
      require_ranks_ok(
          heed_mpi_graph_attention_plan_run(plan.get(), &args, workspace.get(), workspace.bytes()));
      CHECK(workspace.intact());
    });
  CHECK(same_bits(first, second));
  CHECK(heed_mpi_graph_attention_plan_times(plan.get(), &times) == HEED_STATUS_OK);
  CHECK(times.run >= times.wait);
  CHECK(times.run > 0);
}
