// Every refusal of a graph: the message names the entry, its value and the bound, and nothing is
// written.
#include <limits>

#include "tests/api/graphs.hpp"

using namespace api_test;

namespace {

void check_refused(const std::function<void(SmallGraph&)>& change, Parts parts) {
  for (const char* const executor : {"serial", heed_executor_name(heed_executor_count() - 1)}) {
    const Context context = make_context(nullptr, executor, executor[0] == 's' ? 1 : 2);
    SmallGraph form;
    change(form);
    forget_last_error();
    heed_graph* graph = untouched<heed_graph>();
    const heed_status got = heed_graph_create(context.get(), &form.desc, &graph);
    check_refusal(got, HEED_STATUS_INVALID_ARGUMENT, parts);
    CHECK(graph == untouched<heed_graph>());
    if (got == HEED_STATUS_OK) heed_graph_destroy(graph);
  }
}

void check_accepted(const std::function<void(SmallGraph&)>& change) {
  SmallGraph form;
  change(form);
  const Context context = serial();
  const Graph graph = make_graph(context, form.desc);
  heed_graph_info info = HEED_GRAPH_INFO_INIT;
  CHECK(heed_graph_describe(graph.get(), &info) == HEED_STATUS_OK);
  CHECK(info.nodes == form.desc.nodes);
}

/// All four ways to hand in the same graph.
template <class Function>
void in_every_form(Function&& function) {
  for (const bool rows : {false, true})
    for (const bool wide : {false, true})
      function([=](SmallGraph& form) {
        if (rows) form.by_rows();
        if (wide) form.widen();
      });
}

}  // namespace

TEST_CASE("what is refused of graphs is refused for one reason", "[graph]") {
  in_every_form([](const auto& form) { check_accepted(form); });
  check_accepted([](SmallGraph& form) { form.desc.duplicates = HEED_DUPLICATES_KEEP; });
  check_accepted([](SmallGraph& form) {
    form.desc.nodes = form.desc.edges = 0;
    form.desc.sources = form.desc.destinations = nullptr;
  });
  check_accepted([](SmallGraph& form) {
    form.desc.edges = 0;
    form.desc.sources = form.desc.destinations = nullptr;
  });
}

TEST_CASE("sizes of graphs", "[graph]") {
  check_refused([](SmallGraph& form) { form.desc.nodes = -1; },
                {"desc.nodes is -1", "0 to 2147483647"});
  check_refused([](SmallGraph& form) { form.desc.nodes = std::int64_t{1} << 31; },
                {"desc.nodes is 2147483648", "0 to 2147483647"});
  check_refused(
      [](SmallGraph& form) { form.desc.nodes = std::numeric_limits<std::int64_t>::min(); },
      {"desc.nodes is -9223372036854775808"});
  check_refused([](SmallGraph& form) { form.desc.edges = -1; },
                {"desc.edges is -1", "0 to 1099511627776"});
  check_refused([](SmallGraph& form) { form.desc.edges = (std::int64_t{1} << 40) + 1; },
                {"desc.edges is 1099511627777", "0 to 1099511627776"});
}

TEST_CASE("choices of graphs", "[graph]") {
  check_refused([](SmallGraph& form) { form.desc.index_type = 3; },
                {"desc.index_type is 3", "heed_index_type", "0 to 2"});
  check_refused([](SmallGraph& form) { form.desc.duplicates = 3; },
                {"desc.duplicates is 3", "heed_duplicates", "0 to 2"});
  check_refused([](SmallGraph& form) { form.desc.reserved = 7; },
                {"desc.reserved is 7", "must be 0"});
}

TEST_CASE("arrays of graphs that are missing, too many or misaligned", "[graph]") {
  check_refused([](SmallGraph& form) { form.desc.sources = nullptr; },
                {"desc.sources is NULL", "desc.edges is 6"});
  check_refused([](SmallGraph& form) { form.desc.destinations = nullptr; },
                {"desc.destinations", "desc.offsets", "NULL"});
  check_refused([](SmallGraph& form) { form.desc.offsets = form.offsets; },
                {"desc.destinations", "desc.offsets", "both"});
  for (const bool wide : {false, true}) {
    const char* const multiple = wide ? "multiple of 8" : "multiple of 4";
    const auto shifted = [&](const void* array) {
      return static_cast<const void*>(static_cast<const char*>(array) + (wide ? 4 : 2));
    };
    const auto widened = [=](SmallGraph& form) {
      if (wide) form.widen();
    };
    check_refused(
        [&](SmallGraph& form) {
          widened(form);
          form.desc.sources = shifted(form.desc.sources);
        },
        {"desc.sources is 0x", multiple});
    check_refused(
        [&](SmallGraph& form) {
          widened(form);
          form.desc.destinations = shifted(form.desc.destinations);
        },
        {"desc.destinations is 0x", multiple});
    check_refused(
        [&](SmallGraph& form) {
          form.by_rows();
          widened(form);
          form.desc.offsets = shifted(form.desc.offsets);
        },
        {"desc.offsets is 0x", multiple});
  }
}

TEST_CASE("an index out of range is refused, and named", "[graph]") {
  for (const int entry : {0, 3, 5})
    for (const std::int32_t index : {-1, 4, 1000000, std::numeric_limits<std::int32_t>::min(),
                                     std::numeric_limits<std::int32_t>::max()}) {
      const std::string at = "[" + std::to_string(entry) + "] is " + std::to_string(index);
      in_every_form([&](const auto& form) {
        check_refused(
            [&](SmallGraph& graph) {
              graph.sources[entry] = index;
              form(graph);
            },
            {("desc.sources" + at).c_str(), "0 to 3"});
      });
      for (const bool wide : {false, true})
        check_refused(
            [&](SmallGraph& graph) {
              graph.destinations[entry] = index;
              if (wide) graph.widen();
            },
            {("desc.destinations" + at).c_str(), "0 to 3"});
    }
  // Indices that fit once their upper half is cut off.
  for (const std::int64_t index :
       {std::int64_t{1} << 32, (std::int64_t{1} << 33) + 2, -(std::int64_t{1} << 32) + 1}) {
    const std::string at = "[4] is " + std::to_string(index);
    check_refused(
        [&](SmallGraph& graph) {
          graph.widen();
          graph.wide_sources[4] = index;
        },
        {("desc.sources" + at).c_str(), "0 to 3"});
    check_refused(
        [&](SmallGraph& graph) {
          graph.widen();
          graph.wide_destinations[4] = index;
        },
        {("desc.destinations" + at).c_str(), "0 to 3"});
  }
  check_refused([](SmallGraph& graph) { graph.desc.nodes = 0; }, {"[0] is 3", "desc.nodes is 0"});
}

TEST_CASE("of several entries out of range the first is named, whatever the threads", "[graph]") {
  const std::size_t edges = 300000;
  std::vector<std::int32_t> nodes(edges, 1);
  for (std::size_t e = 70001; e < edges; e += 1000) nodes[e] = -5;
  for (const std::uint32_t threads : {1U, 2U, 4U})
    for (std::size_t i = 0; i < heed_executor_count(); ++i) {
      if (i == 0 && threads > 1) continue;
      const Context context = make_context(nullptr, heed_executor_name(i), threads);
      heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
      desc.nodes = 2;
      desc.edges = static_cast<std::int64_t>(edges);
      desc.sources = desc.destinations = nodes.data();
      forget_last_error();
      heed_graph* graph = untouched<heed_graph>();
      check_refusal(heed_graph_create(context.get(), &desc, &graph), HEED_STATUS_INVALID_ARGUMENT,
                    {"desc.sources[70001] is -5", "0 to 1"});
      CHECK(graph == untouched<heed_graph>());
    }
}

TEST_CASE("offsets that begin late, fall, or end elsewhere are refused, and named", "[graph]") {
  const auto refused = [](int entry, std::int32_t value, Parts parts) {
    for (const bool wide : {false, true})
      check_refused(
          [&](SmallGraph& form) {
            form.by_rows();
            form.offsets[entry] = value;
            if (wide) form.widen();
          },
          parts);
  };
  refused(0, 1, {"desc.offsets[0] is 1", "must be 0"});
  refused(0, -1, {"desc.offsets[0] is -1", "must be 0"});
  refused(2, 2, {"desc.offsets[2] is 2", "3"});
  refused(3, 4, {"desc.offsets[3] is 4", "5"});
  refused(1, -3, {"desc.offsets[1] is -3", "0"});
  refused(2, 7, {"desc.offsets[2] is 7", "6"});
  refused(4, 5, {"desc.offsets[4] is 5", "6"});
  refused(4, 7, {"desc.offsets[4] is 7", "6"});
  refused(4, 4, {"desc.offsets[4] is 4", "5"});
  check_refused(
      [](SmallGraph& form) {
        form.by_rows();
        form.widen();
        form.wide_offsets[2] = std::int64_t{5} + (std::int64_t{1} << 32);
      },
      {"desc.offsets[2] is 4294967301", "6"});
  // An offset for every node, and none too many: without nodes there is one.
  std::int32_t offset = 0;
  check_accepted([&](SmallGraph& form) {
    form.desc.nodes = form.desc.edges = 0;
    form.desc.sources = form.desc.destinations = nullptr;
    form.desc.offsets = &offset;
  });
  offset = 2;
  check_refused(
      [&](SmallGraph& form) {
        form.desc.nodes = form.desc.edges = 0;
        form.desc.sources = form.desc.destinations = nullptr;
        form.desc.offsets = &offset;
      },
      {"desc.offsets[0] is 2"});
}

TEST_CASE("NULL is refused by the functions of graphs", "[graph][null]") {
  const Context context = serial();
  const SmallGraph form;
  heed_graph* made = untouched<heed_graph>();
  const auto refused = [](heed_status status, const char* name) {
    check_refusal(status, HEED_STATUS_INVALID_ARGUMENT, {name, "NULL"});
    forget_last_error();
  };
  forget_last_error();
  refused(heed_graph_create(nullptr, &form.desc, &made), "context");
  refused(heed_graph_create(context.get(), nullptr, &made), "desc");
  refused(heed_graph_create(context.get(), &form.desc, nullptr), "graph");
  CHECK(made == untouched<heed_graph>());
  heed_graph_destroy(nullptr);
  heed_graph_attention_plan_destroy(nullptr);

  const Graph graph = make_graph(context, form.desc);
  heed_graph_info info = HEED_GRAPH_INFO_INIT;
  refused(heed_graph_describe(nullptr, &info), "graph");
  refused(heed_graph_describe(graph.get(), nullptr), "info");

  GraphForm good;
  heed_graph_attention_plan* plan = untouched<heed_graph_attention_plan>();
  refused(heed_graph_attention_plan_create(nullptr, graph.get(), &good.desc, &plan), "context");
  refused(heed_graph_attention_plan_create(context.get(), nullptr, &good.desc, &plan), "graph");
  refused(heed_graph_attention_plan_create(context.get(), graph.get(), nullptr, &plan), "desc");
  refused(heed_graph_attention_plan_create(context.get(), graph.get(), &good.desc, nullptr),
          "plan");
  CHECK(plan == untouched<heed_graph_attention_plan>());
  refused(heed_graph_attention(nullptr, graph.get(), &good.desc, &good.args), "context");
  refused(heed_graph_attention(context.get(), nullptr, &good.desc, &good.args), "graph");
  refused(heed_graph_attention(context.get(), graph.get(), nullptr, &good.args), "desc");
  refused(heed_graph_attention(context.get(), graph.get(), &good.desc, nullptr), "args");

  const GraphPlan ready = make_plan(context, graph, good.desc);
  const Workspace workspace(describe(ready).workspace_bytes);
  heed_graph_attention_info plan_info = HEED_GRAPH_ATTENTION_INFO_INIT;
  std::size_t bytes = 0;
  refused(heed_graph_attention_plan_describe(nullptr, &plan_info), "plan");
  refused(heed_graph_attention_plan_describe(ready.get(), nullptr), "info");
  refused(heed_graph_attention_plan_workspace(nullptr, &bytes), "plan");
  refused(heed_graph_attention_plan_workspace(ready.get(), nullptr), "bytes");
  refused(heed_graph_attention_plan_run(nullptr, &good.args, workspace.get(), workspace.bytes()),
          "plan");
  refused(heed_graph_attention_plan_run(ready.get(), nullptr, workspace.get(), workspace.bytes()),
          "args");
  CHECK(good.outputs_untouched());
}
