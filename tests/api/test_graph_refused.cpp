// Refusals of a graph that are not of every field of a kind: arrays that are missing or too many,
// and the entries in them.
#include "tests/api/graphs.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

void by_rows(SmallGraph& form) { form.by_rows(); }
void widen(SmallGraph& form) { form.widen(); }
void wide_rows(SmallGraph& form) { form.by_rows(), form.widen(); }
using EdgeChange = ChangeOf<SmallGraph>;
const EdgeChange kLists[] = {unchanged<SmallGraph>, widen};
const EdgeChange kRows[] = {by_rows, wide_rows};

/// An entry as int32 and int64; `index` only where both have it.
EdgeChange with_entry(std::int32_t (SmallGraph::*narrow)[6], std::int64_t (SmallGraph::*wide)[6],
                      int entry, std::int64_t index) {
  return [=](SmallGraph& form) {
    (form.*narrow)[entry] = static_cast<std::int32_t>(index);
    (form.*wide)[entry] = index;
  };
}
EdgeChange with_source(int entry, std::int64_t index) {
  return with_entry(&SmallGraph::sources, &SmallGraph::wide_sources, entry, index);
}
EdgeChange with_destination(int entry, std::int64_t index) {
  return with_entry(&SmallGraph::destinations, &SmallGraph::wide_destinations, entry, index);
}
EdgeChange with_offset(int entry, std::int64_t offset) {
  return [=](SmallGraph& form) {
    form.offsets[entry] = static_cast<std::int32_t>(offset);
    form.wide_offsets[entry] = offset;
  };
}

void no_edges(SmallGraph& form) {
  form.desc.edges = 0;
  form.desc.sources = form.desc.destinations = nullptr;
}
void no_nodes(SmallGraph& form) { no_edges(form), form.desc.nodes = 0; }

std::string at(int entry, std::int64_t index) {
  return "[" + std::to_string(entry) + "] is " + std::to_string(index);
}

}  // namespace

TEST_CASE("graphs without edges, without nodes, and with duplicates are accepted",
          "[refused][graph]") {
  for (const EdgeChange& change : {EdgeChange(no_edges), EdgeChange(no_nodes),
                                   EdgeChange(with("desc.duplicates", HEED_DUPLICATES_KEEP))})
    check_accepted<SmallGraph>(change);
}

TEST_CASE("nodes are counted by int32", "[refused][graph]") {
  check_refused<SmallGraph>({{"desc.nodes", -1, "must be 0 to 2147483647"},
                             {"desc.nodes", INT64_MIN, "must be 0 to 2147483647"},
                             {"desc.nodes", std::int64_t{1} << 31, "must be 0 to 2147483647"},
                             {with("desc.nodes", 0), "desc.sources[0] is 3; desc.nodes is 0"}});
}

TEST_CASE("sources of another kind are counted by int32, and edges lead from these",
          "[refused][graph]") {
  check_refused<SmallGraph>(
      {{"desc.source_nodes", -1, "must be 0 to 2147483647"},
       {"desc.source_nodes", std::int64_t{1} << 31, "must be 0 to 2147483647"},
       {with("desc.source_nodes", 3), "desc.sources[0] is 3; it must be 0 to 2"}});
  check_accepted<SmallGraph>(with("desc.source_nodes", 4));
}

TEST_CASE("a graph's edges are given, in one way", "[refused][graph]") {
  check_refused<SmallGraph>(
      {{"desc.sources", kNull, "desc.edges is 6"},
       {with("desc.destinations", kNull),
        "desc.destinations and desc.offsets are both NULL; desc.edges is 6"},
       {with("desc.offsets", kGiven),
        "desc.destinations and desc.offsets are both given; give one of them"}});
}

TEST_CASE("an index out of range is refused, and named", "[refused][graph]") {
  for (const int entry : {0, 3, 5})
    for (const std::int64_t index : {-1, 4, 1000000, INT32_MIN, INT32_MAX}) {
      const std::string words = at(entry, index) + "; it must be 0 to 3";
      for (const EdgeChange& make : {kLists[0], kLists[1], kRows[0], kRows[1]})
        check_refused<SmallGraph>(make, {{with_source(entry, index), "desc.sources" + words}});
      for (const EdgeChange& make : kLists)
        check_refused<SmallGraph>(make,
                                  {{with_destination(entry, index), "desc.destinations" + words}});
    }
  // Indices that fit once their upper half is cut off.
  for (const std::int64_t index :
       {std::int64_t{1} << 32, (std::int64_t{1} << 33) + 2, -(std::int64_t{1} << 32) + 1})
    check_refused<SmallGraph>(
        widen,
        {{with_source(4, index), "desc.sources" + at(4, index) + "; it must be 0 to 3"},
         {with_destination(4, index), "desc.destinations" + at(4, index) + "; it must be 0 to 3"}});
}

TEST_CASE("of several entries out of range the first is named, whatever the threads",
          "[refused][graph]") {
  const std::size_t edges = 300000;
  std::vector<std::int32_t> nodes(edges, 1);
  for (std::size_t e = 70001; e < edges; e += 1000) nodes[e] = -5;
  for (const std::uint32_t threads : {1U, 2U, 4U})
    for (const std::string& executor : executors()) {
      if (executor == "serial" && threads > 1) continue;
      const Context context = make_context(nullptr, executor.c_str(), threads);
      heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
      desc.nodes = 2;
      desc.edges = static_cast<std::int64_t>(edges);
      desc.sources = desc.destinations = nodes.data();
      forget_last_error();
      heed_graph* graph = untouched<heed_graph>();
      check_refusal(heed_graph_create(context.get(), &desc, &graph), HEED_STATUS_INVALID_ARGUMENT,
                    "desc.sources[70001] is -5; it must be 0 to 1");
      CHECK(graph == untouched<heed_graph>());
    }
}

TEST_CASE("offsets that begin late, fall, or end elsewhere are refused, and named",
          "[refused][graph]") {
  struct Wrong {
    int entry;
    std::int64_t offset;
    const char* bound;
  };
  for (const EdgeChange& make : kRows)
    for (const Wrong& wrong :  // 0, 3, 5, 5, 6
         {Wrong{0, 1, "it must be 0"}, Wrong{0, -1, "it must be 0"},
          Wrong{2, 2, "it must be 3 to 6"}, Wrong{3, 4, "it must be 5 to 6"},
          Wrong{1, -3, "it must be 0 to 6"}, Wrong{2, 7, "it must be 3 to 6"},
          Wrong{4, 5, "the last must be desc.edges, 6"}, Wrong{4, 7, "it must be 5 to 6"},
          Wrong{4, 4, "it must be 5 to 6"}})
      check_refused<SmallGraph>(
          make, {{with_offset(wrong.entry, wrong.offset),
                  "desc.offsets" + at(wrong.entry, wrong.offset) + "; " + wrong.bound}});
  const std::int64_t cut = (std::int64_t{1} << 32) + 5;  // fits once its upper half is cut off
  check_refused<SmallGraph>(
      wide_rows, {{with_offset(2, cut), "desc.offsets" + at(2, cut) + "; it must be 3 to 6"}});
  // An offset for every node, and none too many: without nodes there is one.
  check_refused<SmallGraph>([](SmallGraph& form) { form.by_rows(), no_nodes(form); },
                            {{with_offset(0, 2), "desc.offsets[0] is 2; it must be 0"}});
}
