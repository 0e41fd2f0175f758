// What one rank alone gets wrong about a graph, all ranks refuse, in the same words.
#include <thread>

#include "tests/graph/problems.hpp"
#include "tests/mpi/rank_graphs.hpp"
#include "tests/mpi/refused.hpp"

using namespace heed_test;

namespace {

constexpr Index kNodes = 23;

EdgeList some_edges() { return random_edges(kNodes, 100, 3); }

GraphProblem some_problem() {
  GraphProblem p(some_edges(), of_data(HEED_GRAPH_SHARED, 8, 2, 4, 4));
  p.desc.residual = 1;
  add_edge_tensors(p, 3);
  p.add({kGraphLse});
  p.fill(4);
  return p;
}

/// What one rank brings of a good problem.
struct Call {
  Call()
      : whole(some_problem()),
        edges(whole.edges, owners),
        shard(shard_of(whole, OwnRows(make_mpi_graph(plain_context(), whole.edges, {})))),
        context(plain_context().get()),
        graph(edges.desc),
        attention(shard.desc),
        args(shard.args()) {
    shard.out->clear();
    shard.lse->clear();
  }

  heed_status run() {
    heed_mpi_graph* made = nullptr;
    const heed_status status = heed_mpi_graph_create(MPI_COMM_WORLD, context, &graph, &made);
    const MpiGraph own(made);
    if (status != HEED_STATUS_OK) return status;
    return heed_mpi_graph_attention(plan_context, made, &attention, &args);
  }
  bool untouched() const {
    return heed_test::untouched(*shard.out) && heed_test::untouched(*shard.lse);
  }

  OwnerList owners = {};
  GraphProblem whole;
  EdgeShare edges;
  GraphProblem shard;
  const heed_context* context;
  const heed_context* plan_context = plain_context().get();
  heed_mpi_graph_desc graph;
  heed_graph_attention_desc attention;
  heed_graph_attention_args args;
};

constexpr auto kInvalid = HEED_STATUS_INVALID_ARGUMENT;

const std::int32_t first_owner[kNodes] = {};
const std::int32_t no_owner[kNodes] = {0, 0, 0, -5};

}  // namespace

TEST_CASE("what one rank alone gets wrong in the descriptor of a graph") {
  const std::string ranks_below = std::to_string(ranks() - 1);
  const Refusal<Call> refusals[] = {
      {"no context", [](Call& c) { c.context = nullptr; }, kInvalid, "context is NULL"},
      {"struct size", [](Call& c) { c.graph.struct_size = 5; }, kInvalid,
       "desc.struct_size is 5; initialise the struct with its _INIT macro"},
      {"index type", [](Call& c) { c.graph.index_type = 3; }, kInvalid,
       "desc.index_type is 3; it must be a heed_index_type, 0 to 2"},
      {"duplicates", [](Call& c) { c.graph.duplicates = 3; }, kInvalid,
       "desc.duplicates is 3; it must be a heed_duplicates, 0 to 2"},
      {"reserved", [](Call& c) { c.graph.reserved = 1; }, kInvalid,
       "desc.reserved is 1; it must be 0"},
      {"nodes", [](Call& c) { c.graph.nodes = std::int64_t{1} << 31; }, kInvalid,
       "desc.nodes is 2147483648; it must be 0 to 2147483647"},
      {"edges", [](Call& c) { c.graph.edges = -1; }, kInvalid,
       "desc.edges is -1; it must be 0 to 1099511627776"},
      {"no sources", [](Call& c) { c.graph.edges = 5, c.graph.sources = nullptr; }, kInvalid,
       "desc.sources is NULL; desc.edges is 5"},
      {"no destinations", [](Call& c) { c.graph.edges = 5, c.graph.destinations = nullptr; },
       kInvalid, "desc.destinations is NULL; desc.edges is 5"},
      {"a path beside edges", [](Call& c) { c.graph.path = "edges.txt"; }, kInvalid,
       "desc.path is given; desc.edges must then be 0, and desc.sources and desc.destinations "
       "NULL"},
      {"owners of a file's nodes, however many",
       [](Call& c) {
         c.graph = HEED_MPI_GRAPH_DESC_INIT;
         c.graph.path = "edges.txt";
         c.graph.owners = first_owner;
       },
       kInvalid,
       "desc.owners is given with desc.nodes 0; with both desc.path and desc.owners it must say "
       "how many nodes there are"},
      {"a source below 0", [](Call& c) { c.edges.sources[1] = -1; }, kInvalid,
       "desc.sources[1] is -1; it must be at least 0 and below desc.nodes, 23"},
      {"a destination too large", [](Call& c) { c.edges.destinations[2] = 23; }, kInvalid,
       "desc.destinations[2] is 23; it must be at least 0 and below desc.nodes, 23"},
  };
  for (const auto& refusal : refusals) check_refusal(refusal);
}

TEST_CASE("descriptors of graphs that differ between ranks") {
  if (ranks() == 1) return;
  const Refusal<Call> refusals[] = {
      {"nodes", [](Call& c) { c.graph.nodes = 24; }, kInvalid,
       "desc.nodes is 24; on rank 0 it is 23, and must be the same"},
      {"duplicates", [](Call& c) { c.graph.duplicates = 1; }, kInvalid,
       "desc.duplicates is 1; on rank 0 it is 2, and must be the same"},
      {"owners on one rank", [](Call& c) { c.graph.owners = first_owner; }, kInvalid,
       "desc.owners != NULL is 1; on rank 0 it is 0, and must be the same"},
      {"heads", [](Call& c) { c.attention.softcap = 2; }, kInvalid,
       "desc.softcap is 2; on rank 0 it is 0, and must be the same"},
      {"scale", [](Call& c) { c.attention.scale = 0.5; }, kInvalid,
       "desc.scale is 0.5; on rank 0 it is 0, and must be the same"},
      {"steps", [](Call& c) { c.attention.steps = 2; }, kInvalid,
       "desc.steps is 2; on rank 0 it is 1, and must be the same"},
      {"a type", [](Call& c) { c.attention.out.dtype = HEED_DTYPE_BF16; }, kInvalid,
       "desc.out.dtype is 3; on rank 0 it is 1, and must be the same"},
  };
  for (const auto& refusal : refusals) check_refusal(refusal);
}

TEST_CASE("owners that are no ranks, or not the same everywhere") {
  const auto refused = [](const std::int32_t* owners) {
    const EdgeList edges = some_edges();
    EdgeShare share(edges, {});
    share.desc.owners = owners;
    heed_mpi_graph* graph = nullptr;
    CHECK(heed_mpi_graph_create(MPI_COMM_WORLD, plain_context().get(), &share.desc, &graph) ==
          kInvalid);
    CHECK(graph == nullptr);
    CHECK(same_everywhere(heed_mpi_last_error()));
    return std::string(heed_mpi_last_error());
  };
  const std::string last = std::to_string(ranks() - 1);
  const bool own = rank() == ranks() - 1;
  CHECK(refused(own ? no_owner : first_owner) ==
        "rank " + last + ": desc.owners[3] is -5; it must be a rank, 0 to " + last);
  std::int32_t other[kNodes] = {};
  other[7] = 1;
  if (ranks() > 1)
    CHECK(refused(own ? other : first_owner) ==
          "rank " + last + ": desc.owners[7] is 1; on rank 0 it is 0, and must be the same");
}

TEST_CASE("what one rank alone gets wrong in a plan or a run over a graph") {
  const Refusal<Call> refusals[] = {
      {"no context", [](Call& c) { c.plan_context = nullptr; }, kInvalid, "context is NULL"},
      {"what heed.h refuses", [](Call& c) { c.attention.heads = 0; }, kInvalid,
       "desc.heads is 0; it must be 1 to 1099511627776"},
      {"a layout", [](Call& c) { c.attention.lse.dtype = HEED_DTYPE_F16; }, kInvalid,
       "desc.lse.dtype is 4; it must be 0, HEED_DTYPE_F32 (1) or HEED_DTYPE_F64 (2)"},
      {"no data", [](Call& c) { c.args.data = nullptr; }, kInvalid,
       "args.data is NULL; its tensor has elements"},
      {"no matrix", [](Call& c) { c.args.w_key = nullptr; }, kInvalid,
       "args.w_key and args.p_key are both NULL; give one of them"},
      {"no edge data", [](Call& c) { c.args.edge_data = nullptr; }, kInvalid,
       "args.edge_data is NULL; its tensor has elements"},
      {"no edge matrices", [](Call& c) { c.args.w_edge_key = c.args.w_edge_value = nullptr; },
       kInvalid, "args.w_edge_key and args.w_edge_value are NULL; desc.edge_width is 3"},
      {"queries beside data", [](Call& c) { c.args.query = c.args.data; }, kInvalid,
       "args.query is given; it must be NULL unless desc.inputs is HEED_GRAPH_PROJECTED (0)"},
      {"no out", [](Call& c) { c.args.out = nullptr; }, kInvalid,
       "args.out is NULL; its tensor has elements"},
      {"reserved", [](Call& c) { c.args.reserved = 1; }, kInvalid,
       "args.reserved is 1; it must be 0"},
  };
  for (const auto& refusal : refusals) check_refusal(refusal);
}

TEST_CASE("a rank that runs out of memory for a graph") {
  Call good;
  check_out_of_memory([&](const heed_context* context) {
    good.context = good.plan_context = context;
    return good.run();
  });
}

TEST_CASE("a rank whose executor fails in the midst of a run over a graph") {
  GraphProblem whole = projected_problem(random_edges(3000, 30000, 8), 4, 32, 32);
  const MpiGraph graph = make_mpi_graph(plain_context(), whole.edges, {});
  GraphProblem shard = shard_of(whole, OwnRows(graph));
  const heed_graph_attention_args args = shard.args();
  check_failing_executor([&](const heed_context* context) {
    return heed_mpi_graph_attention(context, graph.get(), &shard.desc, &args);
  });
}

TEST_CASE("a rank that makes a graph from another thread than it may") {
  const EdgeShare share(some_edges(), {});
  heed_status status = HEED_STATUS_OK;
  std::string message;
  const auto call = [&] {
    heed_mpi_graph* graph = nullptr;
    status = heed_mpi_graph_create(MPI_COMM_WORLD, plain_context().get(), &share.desc, &graph);
    message = heed_mpi_last_error();
    heed_mpi_graph_destroy(graph);
  };
  int level = 0;
  MPI_Query_thread(&level);
  if (level > MPI_THREAD_FUNNELED) return;
  if (rank() == ranks() - 1)
    std::thread(call).join();
  else
    call();
  CHECK(status == kInvalid);
  CHECK(message == "rank " + std::to_string(ranks() - 1) +
                       ": this is not the thread that initialised MPI; with MPI_THREAD_FUNNELED it "
                       "must be");
}

TEST_CASE("NULL where a graph or a plan should be") {
  heed_mpi_graph_info info = HEED_MPI_GRAPH_INFO_INIT;
  CHECK(heed_mpi_graph_describe(nullptr, &info) == kInvalid);
  CHECK(heed_mpi_last_error() == std::string("graph is NULL"));
  heed_mpi_graph_attention_info told = HEED_MPI_GRAPH_ATTENTION_INFO_INIT;
  CHECK(heed_mpi_graph_attention_plan_describe(nullptr, &told) == kInvalid);
  CHECK(heed_mpi_last_error() == std::string("plan is NULL"));
  const EdgeShare share(some_edges(), {});
  CHECK(heed_mpi_graph_create(MPI_COMM_WORLD, plain_context().get(), &share.desc, nullptr) ==
        kInvalid);
  CHECK(heed_mpi_last_error() == std::string("rank 0: graph is NULL"));
  const MpiGraph graph = make_mpi_graph(plain_context(), some_edges(), {});
  if (describe(graph).own_nodes > 0) {
    CHECK(heed_mpi_graph_nodes(graph.get(), nullptr) == kInvalid);
    CHECK(heed_mpi_last_error() == std::string("nodes is NULL"));
  }
  CHECK(heed_mpi_graph_edges(graph.get(), nullptr, nullptr, nullptr) == HEED_STATUS_OK);
  heed_mpi_graph_destroy(nullptr);
  heed_mpi_graph_attention_plan_destroy(nullptr);
}
