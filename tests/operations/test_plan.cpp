// What plans say about themselves: useful operations, tiles, tasks and workspace.
#include "engine/dense/panel.hpp"
#include "engine/dense/plan.hpp"
#include "tests/graph/problems.hpp"
#include "tests/operations/operations.hpp"
#include "tests/support/isas.hpp"

using namespace heed_test;

namespace {

/// Of one head, and nothing but sizes.
heed_attention_desc desc_of(Index query_length, Index key_length, Index features,
                            Index value_features) {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = 1;
  desc.query_heads = 1;
  desc.query_length = query_length;
  desc.key_length = key_length;
  desc.features = features;
  desc.value_features = value_features;
  return desc;
}

heed_attention_info describe(const Context& context, const heed_attention_desc& desc) {
  return describe(make_plan(context, desc));
}

heed_attention_info describe_gradients(const Context& context,
                                       const heed_attention_desc& attention) {
  heed_attention_backward_desc desc = HEED_ATTENTION_BACKWARD_DESC_INIT;
  desc.attention = &attention;
  return describe(make_plan(context, desc));
}

std::size_t workspace_of(const Context& context, Index query_length, Index key_length,
                         Index features, Index value_features) {
  return describe(context, desc_of(query_length, key_length, features, value_features))
      .workspace_bytes;
}

/// Of self-attention in a block, without tensors to run it on.
std::size_t workspace_of_block(const Context& context, Index length, Index batch = 1,
                               std::uint32_t weights_point = HEED_WEIGHTS_NONE) {
  Block block = plain_block(1, 0, 4, 16, block_desc(HEED_DTYPE_DEFAULT, 64));
  heed_multihead_desc desc = block.desc();
  heed_attention_desc attention = *desc.attention;
  attention.batch = batch;
  attention.query_length = attention.key_length = length;
  attention.weights_point = weights_point;
  desc.attention = &attention;
  return describe(make_plan(context, desc)).workspace_bytes;
}

/// Of attention over a graph, or of its gradients, and how many heads' edges it has.
struct GraphMemory {
  heed_graph_attention_info info;
  std::size_t edges;
};
GraphMemory memory_over(const EdgeList& edges, Index heads, Index features,
                        bool gradients = false) {
  const Context context = make_context(isa_names().back());
  GraphForm form;
  form.reverse = gradients;
  const Graph graph = make_graph(context, edges, form);
  heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
  desc.heads = heads;
  desc.features = features;
  heed_graph_attention_backward_desc backward = HEED_GRAPH_ATTENTION_BACKWARD_DESC_INIT;
  backward.attention = &desc;
  return {gradients ? describe(make_plan(context, graph, backward))
                    : describe(make_plan(context, graph, desc)),
          static_cast<std::size_t>(describe(graph).edges * heads)};
}

}  // namespace

// ---- Dense attention and its gradients ----

TEST_CASE("flops count the products of attended pairs: two, and of gradients five", "[plan]") {
  const Context context = make_context("scalar");
  heed_attention_desc desc = desc_of(1, 1, 5, 7);
  desc.batch = 3;
  desc.query_heads = 6;
  desc.key_heads = 2;
  for (const Index queries : {0, 1, 2, 7, 16})
    for (const Index keys : {0, 1, 3, 7, 20})
      for (Index offset = -queries - 4; offset <= keys + 3; ++offset) {
        desc.query_length = queries;
        desc.key_length = keys;
        // The first of these offsets are the other ways to say where the diagonal lies.
        const Index way = offset + queries + 4;
        desc.causal = static_cast<std::uint32_t>(std::min<Index>(way, HEED_CAUSAL_OFFSET));
        desc.causal_offset = desc.causal == HEED_CAUSAL_OFFSET ? offset : 0;
        double pairs = 0;
        for (Index i = 0; i < queries; ++i) pairs += static_cast<double>(attended(desc, i));
        INFO(line_of(desc));
        CHECK(describe(context, desc).flops == 18 * 2 * (5 + 7) * pairs);
        CHECK(describe_gradients(context, desc).flops == 18 * (4 * (5 + 7) + 2 * 5) * pairs);
      }
}

TEST_CASE("tiles are rounded up to panels and key steps", "[plan]") {
  const heed_attention_desc desc = desc_of(1000, 1000, 64, 64);
  for (const Table<float>* const isa : usable_isas()) {
    const std::uint32_t panel = isa->panels.lanes * isa->panels.max_vectors;
    for (const std::uint32_t tile : {1U, 7U, 24U, 64U, 100U, 128U, 129U, 5000U}) {
      Choices choices;
      choices.tile_q = choices.tile_kv = tile;
      const heed_attention_info info = describe(make_context(isa->isa, choices), desc);
      INFO(isa->isa << ": tile " << tile);
      CHECK(info.tile_q == (tile + panel - 1) / panel * panel);
      CHECK(info.tile_kv ==
            (tile + isa->panels.key_block - 1) / isa->panels.key_block * isa->panels.key_block);
      CHECK(info.tasks == (1000 + info.tile_q - 1) / info.tile_q);
    }
  }
}

TEST_CASE("a plan says what it chose: automatic tiles are whole panels and key steps", "[plan]") {
  for (const Table<float>* const isa : usable_isas())
    for (const Index length : {0, 1, 23, 77, 197, 1000, 100000})
      for (const Index features : {1, 64, 256, 5000})
        for (const auto of :
             {&describe_gradients, static_cast<decltype(&describe_gradients)>(describe)}) {
          const heed_attention_info info =
              of(make_context(isa->isa), desc_of(length, length, features, features));
          const bool gradients = of == &describe_gradients;
          INFO(isa->isa << ": length " << length << " features " << features);
          CHECK(info.tile_q > 0);
          CHECK(info.tile_kv > 0);
          CHECK(info.tile_q % (isa->panels.lanes * isa->panels.max_vectors) == 0);
          CHECK(info.tile_kv % isa->panels.key_block == 0);
          CHECK(std::string(info.isa) == isa->isa);
          CHECK(std::string(info.executor) == "serial");
          CHECK((std::string(info.strategy) == "backward") == gradients);
          CHECK(info.threads == 1);
          if (gradients) CHECK(info.precision == HEED_PRECISION_EXACT);
        }
}

TEST_CASE("grouped heads are stacked into tasks", "[plan]") {
  Choices choices;
  choices.tile_q = 1;
  for (const Table<float>* const isa : usable_isas()) {
    heed_attention_desc desc = desc_of(10, 50, 16, 16);
    desc.batch = 3;
    desc.query_heads = 8;
    desc.key_heads = 2;
    const heed_attention_info info = describe(make_context(isa->isa, choices), desc);
    INFO(isa->isa);
    CHECK(info.tasks == 3 * 2 * ((40 + info.tile_q - 1) / info.tile_q));
  }
}

TEST_CASE("few rows for each key head are decoded, sequence by sequence", "[plan]") {
  for (const Table<float>* const isa : usable_isas()) {
    const Context context = make_context(isa->isa);
    const auto strategy = [&](const heed_attention_desc& desc) {
      INFO(line_of(desc));
      return std::string(describe(context, desc).strategy);
    };
    const Index most = isa->rows.queries;
    INFO(isa->isa << ": " << most << " rows");
    CHECK(strategy(desc_of(1, 5000, 64, 64)) == "decode");
    CHECK(strategy(desc_of(most, 20, 64, 64)) == "decode");
    CHECK(strategy(desc_of(most + 1, 5000, 64, 64)) == "prefill");
    // Twice as many of wide rows whose keys and values, 4 MiB and more, lie in no cache.
    CHECK(strategy(desc_of(2 * most, 4095, 128, 128)) == "prefill");
    CHECK(strategy(desc_of(2 * most, 4096, 128, 128)) == "mixed");
    CHECK(strategy(desc_of(2 * most + 1, 4096, 128, 128)) == "prefill");
    CHECK(strategy(desc_of(2 * most, 1 << 20, 1, 1)) == "prefill");

    heed_attention_desc grouped = desc_of(1, 2000, 64, 64);
    grouped.query_heads = 2 * most;
    grouped.key_heads = 2;
    CHECK(strategy(grouped) == "decode");
    grouped.query_length = 2;
    CHECK(strategy(grouped) == "prefill");

    heed_attention_desc hard = desc_of(1, 5000, 64, 64);
    hard.hard = 1;
    CHECK(strategy(hard) == "prefill");

    heed_attention_desc packed = desc_of(most, 5000, 64, 64);
    packed.packed_queries = most + 500;
    CHECK(strategy(packed) == "decode");
    packed.query_length = most + 1;
    CHECK(strategy(packed) == "mixed");
  }
}

TEST_CASE("decoding has a task for every chunk of keys, and keeps a row's sums of each", "[plan]") {
  for (const Table<float>* const isa : usable_isas()) {
    const Context context = make_context(isa->isa);
    heed_attention_desc desc = desc_of(1, 2 * heed::kDecodeChunk + 1, 64, 64);
    desc.batch = 3;
    desc.query_heads = desc.key_heads = 5;
    const auto workspace = [&](Index chunks) {
      return workspace_of(context, 1, chunks * heed::kDecodeChunk, 64, 80);
    };
    INFO(isa->isa);
    CHECK(describe(context, desc).tasks == 3 * 5 * 3);
    CHECK(workspace(9) - workspace(8) == (80 + 2) * sizeof(float));
    CHECK(workspace(1000) - workspace(999) == (80 + 2) * sizeof(float));
  }
}

TEST_CASE("prefill of few rows has a task for every chunk of keys, and no more than so many",
          "[plan]") {
  Choices fixed;
  fixed.tile_q = 128;
  for (const Table<float>* const isa : usable_isas()) {
    const Context context = make_context(isa->isa, fixed);
    heed_attention_desc desc = desc_of(128, 2 * heed::kPrefillChunk, 64, 80);
    const auto tasks = [&](Index chunks, Index rest = 0) {
      desc.key_length = chunks * heed::kPrefillChunk + rest;
      return static_cast<Index>(describe(context, desc).tasks);
    };
    const auto workspace = [&](Index chunks) {
      return workspace_of(context, desc.query_length, chunks * heed::kPrefillChunk, 64, 80);
    };
    INFO(isa->isa);
    const Index blocks = tasks(2) / 2;
    CHECK(tasks(2, -1) == blocks);
    CHECK(tasks(2, 1) == 3 * blocks);
    CHECK(tasks(heed::kMostChunks) == heed::kMostChunks * blocks);
    CHECK(tasks(5 * heed::kMostChunks, 7) == heed::kMostChunks * blocks);
    CHECK(workspace(9) - workspace(8) == 128 * (80 + 2) * sizeof(float));
    desc.query_length += 1;
    CHECK(tasks(9) == tasks(2));
  }
}

TEST_CASE("the workspace does not grow with the lengths, but for totals over many keys", "[plan]") {
  Choices fixed;
  fixed.tile_q = fixed.tile_kv = 256;
  for (const Table<float>* const isa : usable_isas()) {
    const Context context = make_context(isa->isa, fixed);
    const Index rows = heed::kMostChunkedRows + 1;
    const std::size_t few = workspace_of(context, rows, 1, 64, 80);
    const std::size_t many = workspace_of(context, rows, heed::kFoldKeys + 1, 64, 80);
    CHECK(many > few);
    for (const Index length : {Index{77}, heed::kFoldKeys, Index{1} << 20}) {
      INFO(isa->isa << ": length " << length);
      const std::size_t bytes = length > heed::kFoldKeys ? many : few;
      CHECK(workspace_of(context, length, length, 64, 80) == bytes);
      CHECK(workspace_of(context, rows, length, 64, 80) == bytes);
      CHECK(workspace_of(context, length, 1, 64, 80) == few);
    }
  }
}

TEST_CASE("weights of all rows are kept in 4 MiB and some, or computed again", "[plan]") {
  const auto workspace = [](const Context& context, Index keys, heed_weights_point point) {
    heed_attention_desc desc = desc_of(1000, keys, 64, 64);
    desc.weights_point = point;
    return describe(context, desc).workspace_bytes;
  };
  for (const Table<float>* const isa : usable_isas()) {
    Choices fixed;
    fixed.threads = 1;
    fixed.tile_q = fixed.tile_kv = 256;
    const Context context = make_context(isa->isa, fixed);
    const Index line = isa->panels.lanes * isa->panels.max_vectors * 4;  // bytes
    const Index most = (Index{4} << 20) / line;
    for (const Index keys : {Index{77}, Index{1024}, most, most + 1}) {
      INFO(isa->isa << ": " << keys << " keys");
      const auto none = static_cast<Index>(workspace(context, keys, HEED_WEIGHTS_NONE));
      const auto kept = static_cast<Index>(workspace(context, keys, HEED_WEIGHTS_PROBABILITIES));
      if (keys <= most) CHECK(kept - none >= keys * line);
      CHECK(kept - none < std::min(keys, most) * line / 16 * 17 + 256 * line);
      // How the softmax of 1000 rows ended.
      CHECK(static_cast<Index>(workspace(context, keys, HEED_WEIGHTS_MASKED)) - none <= 8064);
    }
  }
}

TEST_CASE("the workspace of a thread stays below 2 MB", "[plan]") {
  const std::vector<Index> lengths = {1, 17, 197, 385, 1000, 4096, 1 << 24};
  for (const Table<float>* const isa : usable_isas()) {
    const Context context = make_context(isa->isa);
    std::size_t most = 0;
    for (const Index features : {1, 16, 64, 128, 256})
      for (const Index value_features : {1, 64, 256})
        for (const Index query_length : lengths)
          for (const Index key_length : lengths)
            if (query_length > isa->rows.queries ||
                key_length < 100000)  // parts are not a thread's
              most = std::max(
                  most, workspace_of(context, query_length, key_length, features, value_features));
    INFO(isa->isa << ": " << most << " bytes");
    CHECK(most < 2000000);
    report("workspace, of 2 MB", isa->isa, static_cast<double>(most) / 2e6);
  }
}

TEST_CASE("the workspace is that of all threads together", "[plan][threads]") {
  for (const Table<float>* const isa : usable_isas()) {
    const heed_attention_desc desc = desc_of(5000, 5000, 64, 64);
    Choices four;
    four.threads = 4;
    four.tile_q = 96;
    Choices one = four;
    one.threads = 1;
    const heed_attention_info shared = describe(make_context(isa->isa, four), desc);
    const heed_attention_info alone = describe(make_context(isa->isa, one), desc);
    INFO(isa->isa);
    CHECK(shared.threads <= 4);
    CHECK(shared.workspace_bytes == shared.threads * alone.workspace_bytes);
  }
}

TEST_CASE("one long sequence with one head has tasks for several threads", "[plan]") {
  const Context context = make_context(isa_names()[0], {heed_executor_name(0), 1});
  const heed_attention_info info = describe_gradients(context, desc_of(8192, 8192, 64, 64));
  CHECK(info.tasks >= 4);
}

TEST_CASE("the workspace of gradients grows with lengths times features", "[plan]") {
  for (const char* const isa : isa_names()) {
    const Context context = make_context(isa);
    for (const Index features : {16, 128}) {
      const auto bytes = [&](Index length, Index heads) {
        heed_attention_desc desc = desc_of(length, length, features, features);
        desc.query_heads = desc.key_heads = heads;
        return static_cast<double>(describe_gradients(context, desc).workspace_bytes);
      };
      INFO(isa << ", " << features << " features");
      for (const double length : {4096.0, 65536.0}) {
        const double more =
            bytes(static_cast<Index>(2 * length), 1) - bytes(static_cast<Index>(length), 1);
        // Sums of eight splits, 4 bytes each, some numbers a row, and totals over many keys.
        CHECK(more <= 8 * length * 2 * static_cast<double>(features) * 4 + 64 * length + 0x1p20);
      }
      // Heads beyond those in work leave a few numbers per row.
      CHECK(bytes(4096, 64) - bytes(4096, 32) <= 32 * 4096 * 64);
    }
  }
}

// ---- Blocks ----

TEST_CASE("the workspace grows with tokens, not with pairs of them", "[plan]") {
  // Past the lengths at which parts per thread and per task have their full size: probabilities of
  // a few rows are kept for weights up to 87381 keys.
  constexpr Index kLong = 131072;
  for (const std::uint32_t threads : {1U, 2U}) {
    if (threads > 1 && heed_executor_count() < 2) continue;
    const char* const executor = heed_executor_name(threads - 1);
    const Context context = make_context(isa_names().back(), {executor, threads});
    for (const std::uint32_t point : {HEED_WEIGHTS_NONE, HEED_WEIGHTS_PROBABILITIES}) {
      const std::size_t bytes = workspace_of_block(context, kLong, 1, point);
      const std::size_t twice = workspace_of_block(context, 2 * kLong, 1, point);
      const std::size_t four = workspace_of_block(context, 4 * kLong, 1, point);
      const std::size_t batched = workspace_of_block(context, kLong, 4, point);
      INFO(bytes << ", " << twice << ", " << four << ", batched " << batched);
      CHECK(four - twice <= (twice - bytes) * 9 / 4);
      CHECK(four <= batched * 9 / 8);
      // Q, K, V and the heads are 4 x 64 numbers of 4 bytes per token; twice that, and 4 MiB per
      // thread, are plenty. The scores of one head would be 1 TiB.
      CHECK(four <= std::size_t{4 * kLong} * (2 * 4 * 64 * 4) + threads * (std::size_t{4} << 20));
    }
  }
}

TEST_CASE("a plan of a block describes itself", "[plan]") {
  REQUIRE(heed_product_count() > 0);
  for (const char* const isa : isa_names()) {
    const Context context = make_context(isa);
    for (const std::uint32_t combine : {HEED_COMBINE_CONCAT, HEED_COMBINE_MEAN}) {
      heed_multihead_desc desc = block_desc(HEED_DTYPE_DEFAULT, 20);
      desc.width_key = 18;
      desc.width_out = 10;
      desc.combine = combine;
      Block block = plain_block(21, 26, 4, 7, desc, 2, 2, 9);
      const MultiheadPlan plan = make_plan(context, block.desc());
      const heed_multihead_info info = describe(plan);
      CHECK(std::string(info.isa) == isa);
      CHECK(std::string(info.executor) == "serial");
      CHECK(std::string(info.product) == heed_product_name(0));
      CHECK(info.threads == 1);
      std::size_t bytes = 0;
      require_ok(heed_multihead_plan_workspace(plan.get(), &bytes));
      CHECK(bytes == info.workspace_bytes);
      const double products = 2.0 * 42 * 20 * 28 + 2.0 * 52 * 18 * (14 + 18);
      const double last = combine == HEED_COMBINE_CONCAT ? 2.0 * 42 * 36 * 10 : 0;
      CHECK(info.projection_flops == products + last);
      const Plan dense = make_plan(context, block.attention.desc);
      CHECK(info.attention_flops == describe(dense).flops);
    }
  }
}

// ---- Graphs ----

TEST_CASE("the workspace of graphs grows with threads and features, not with edges", "[plan]") {
  std::vector<std::size_t> bytes;
  for (const Index degree : {8, 32}) {
    const GraphMemory memory = memory_over(random_edges(20000, degree * 20000, 8), 4, 16);
    // A tenth of one float for every edge and head.
    CHECK(memory.info.workspace_bytes * 10 < sizeof(float) * memory.edges);
    CHECK(memory.info.gathered_bytes ==
          static_cast<double>(memory.edges * (16 + 16)) * sizeof(float));
    bytes.push_back(memory.info.workspace_bytes);
  }
  CHECK(bytes[0] == bytes[1]);
}

/// A log-sum-exp, what it lacks and a delta for every node and head; nothing for edges, whose
/// number is told apart from that of nodes.
TEST_CASE("gradients over a graph take three numbers for a node and head, and none for an edge",
          "[plan][backward]") {
  constexpr Index kHeads = 4, kNodes = 4000, kNumber = sizeof(float);
  const auto bytes_of = [&](Index nodes, Index degree) {
    EdgeList edges{nodes, {}, {}, false};
    for (Index n = 0; n < nodes; ++n)
      for (Index e = 0; e < degree; ++e) edges.add((n * 7 + e * 13) % nodes, n);
    return static_cast<Index>(memory_over(edges, kHeads, 16, true).info.workspace_bytes);
  };
  const Index bytes = bytes_of(kNodes, 4);
  CHECK(bytes_of(kNodes, 32) == bytes);
  CHECK(bytes_of(2 * kNodes, 4) - bytes == 3 * kHeads * kNodes * kNumber);
  CHECK(bytes - 3 * kHeads * kNodes * kNumber < 128 << 10);  // of one thread
}

TEST_CASE("a hub costs memory per piece, not per edge", "[plan]") {
  EdgeList edges = random_edges(1000, 300000, 9);
  for (Index& n : edges.destinations) n = 3;
  const GraphMemory memory = memory_over(edges, 8, 32);
  CHECK(memory.info.tasks > 1);
  CHECK(memory.info.workspace_bytes * 10 < sizeof(float) * memory.edges);
}

TEST_CASE("a reversed graph tells of its memory", "[plan]") {
  const Context context = make_context(nullptr);
  const EdgeList edges = random_edges(100, 700, 1);
  const heed_graph_info plain = describe(make_graph(context, edges));
  GraphForm form;
  form.reverse = true;
  const heed_graph_info reversed = describe(make_graph(context, edges, form));
  CHECK(plain.reverse == 0);
  CHECK(reversed.reverse == 1);
  CHECK(reversed.edges == plain.edges);
  CHECK(reversed.bytes >= plain.bytes + 700 * sizeof(std::int32_t));
}
