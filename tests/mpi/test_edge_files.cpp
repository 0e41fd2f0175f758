// Edge lists that all ranks read together.
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "tests/mpi/ranks.hpp"

using namespace heed_test;

namespace {

/// A file that rank 0 writes and all see, as long as this lives.
class SharedFile {
 public:
  explicit SharedFile(const std::string& text) {
    char name[64] = "";
    if (rank() == 0) std::snprintf(name, sizeof name, "edges-%d.txt", static_cast<int>(getpid()));
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    path_ = name;
    if (rank() == 0) std::ofstream(path_, std::ios::binary) << text;
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~SharedFile() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank() == 0) std::remove(path_.c_str());
  }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

heed_mpi_graph_desc desc_of(const std::string& path, Index nodes) {
  heed_mpi_graph_desc desc = HEED_MPI_GRAPH_DESC_INIT;
  desc.path = path.c_str();
  desc.nodes = nodes;
  desc.duplicates = HEED_DUPLICATES_KEEP;
  return desc;
}

MpiGraph read(const std::string& text, Index nodes = 0) {
  const SharedFile file(text);
  const heed_mpi_graph_desc desc = desc_of(file.path(), nodes);
  return create_on_ranks<heed_mpi_graph>(MPI_COMM_WORLD, plain_context().get(), &desc);
}

/// {source, destination} of all ranks' edges, as the file has them.
std::vector<std::vector<std::int64_t>> all_edges(const MpiGraph& graph) {
  const OwnRows own(graph);
  std::vector<std::int64_t> nodes(2 * static_cast<std::size_t>(describe(graph).edges));
  for (std::size_t e = 0; e < own.edges.size(); ++e) {
    const auto place = 2 * static_cast<std::size_t>(own.edges[e]);
    nodes.at(place) += own.sources[e];
    nodes.at(place + 1) += own.destinations[e];
  }
  MPI_Allreduce(MPI_IN_PLACE, nodes.data(), static_cast<int>(nodes.size()), MPI_INT64_T, MPI_SUM,
                MPI_COMM_WORLD);
  std::vector<std::vector<std::int64_t>> edges;
  for (std::size_t n = 0; n < nodes.size(); n += 2) edges.push_back({nodes[n], nodes[n + 1]});
  return edges;
}

/// What all ranks say of a file that they refuse.
std::string refusal_of_file(const std::string& path, Index nodes, heed_status status) {
  const heed_mpi_graph_desc desc = desc_of(path, nodes);
  heed_mpi_graph* graph = nullptr;
  CHECK(heed_mpi_graph_create(MPI_COMM_WORLD, plain_context().get(), &desc, &graph) == status);
  CHECK(graph == nullptr);
  CHECK(same_everywhere(heed_mpi_last_error()));
  return heed_mpi_last_error();
}

/// The same of a text, without the path and the rank that it is told of.
std::string refused(const std::string& text, Index nodes = 0,
                    heed_status status = HEED_STATUS_INVALID_ARGUMENT) {
  const SharedFile file(text);
  const std::string message = refusal_of_file(file.path(), nodes, status);
  const std::string path = "desc.path " + file.path();
  const std::size_t at = message.find(path);
  CHECK(message.find("rank ") == 0);
  return at == std::string::npos ? message : message.substr(at + path.size());
}

}  // namespace

TEST_CASE("all lines of a file are read once, whoever reads them") {
  const EdgeList edges = random_edges(1000, 500, 7);
  std::string text = "# nodes of all lengths\n";
  std::vector<std::vector<std::int64_t>> want;
  for (std::size_t e = 0; e < edges.sources.size(); ++e) {
    const std::string source = std::to_string(edges.sources[e]);
    const std::string destination = std::to_string(edges.destinations[e]);
    const char* const ends[] = {"\n", "\r\n", " \n", "\n\n", "\n% remark\n"};
    text +=
        (e % 7 == 0 ? "  " : "") + source + (e % 3 == 0 ? "\t" : " ") + destination + ends[e % 5];
    want.push_back({edges.sources[e], edges.destinations[e]});
  }
  const MpiGraph graph = read(text, 1000);
  CHECK(describe(graph).nodes == 1000);
  CHECK(all_edges(graph) == want);
  // Cut wherever a share may end: in numbers, in line ends, in a line longer than a share.
  for (std::size_t cut = 0; cut < 9; ++cut)
    CHECK(all_edges(read("11 2\n\n3 4\r\n" + std::string(cut, ' ') + "5 6\n7 8")) ==
          std::vector<std::vector<std::int64_t>>{{11, 2}, {3, 4}, {5, 6}, {7, 8}});
}

TEST_CASE("files that name their nodes, or have none") {
  CHECK(describe(read("3 4\n17 0\n")).nodes == 18);
  CHECK(describe(read("3 4\n", 100)).nodes == 100);
  CHECK(describe(read("")).nodes == 0);
  CHECK(describe(read("# nothing\n")).edges == 0);
  CHECK(describe(read("# " + std::string(1000, 'x') + "\n1 0\n")).edges == 1);
}

TEST_CASE("lines that are no edges") {
  const std::string must =
      " is not an edge; it must be two numbers of nodes, \"source destination\"";
  const auto malformed = [](const std::string& text) {
    return refused(text, 0, HEED_STATUS_CORRUPT);
  };
  CHECK(malformed("1 2\n3\n4 5\n") == ", line 2 (byte 4): \"3\"" + must);
  CHECK(malformed("1 2\n1 2\nx y\n4 5\n") == ", line 3 (byte 8): \"x y\"" + must);
  CHECK(malformed("1 2\n1 2 3\n") == ", line 2 (byte 4): \"1 2 3\"" + must);
  CHECK(malformed("1 -2\n") == ", line 1 (byte 0): \"1 -2\"" + must);
  CHECK(malformed("1 2.5\n") == ", line 1 (byte 0): \"1 2.5\"" + must);
  CHECK(malformed("1 2\n\n4 5" + std::string(300, ' ') + "6\n") ==
        ", line 3 (byte 5): \"4 5" + std::string(37, ' ') + "\"" + must);
  CHECK(malformed(std::string("1 2\n3 4\0 5\n", 11)) == ", line 2 (byte 4): \"3 4\"" + must);
}

TEST_CASE("nodes that a file may not have") {
  CHECK(refused("1 2\n9 10\n", 10) ==
        ", line 2 (byte 4): \"9 10\" has a node that is not below desc.nodes, 10");
  CHECK(refused("1 2\n10 9\n", 10) ==
        ", line 2 (byte 4): \"10 9\" has a node that is not below desc.nodes, 10");
  CHECK(refused("1 2147483647\n") ==
        ", line 1 (byte 0): \"1 2147483647\" has a node that is not below the most, 2147483647");
  CHECK(refused("1 99999999999999999999999\n") ==
        ", line 1 (byte 0): \"1 99999999999999999999999\" has a node that is not below the most, "
        "2147483647");
}

TEST_CASE("files that one rank cannot read") {
  const SharedFile file("0 1\n");
  const bool last = rank() == ranks() - 1;
  CHECK(refusal_of_file(last ? "no-such-file" : file.path(), 0, HEED_STATUS_IO) ==
        last_rank() + "desc.path no-such-file cannot be opened: No such file or directory");
  if (ranks() == 1) return;
  const std::string own = "other-" + file.path();
  if (last) std::ofstream(own) << "0 1\n1 2\n";
  CHECK(refusal_of_file(last ? own : file.path(), 0, HEED_STATUS_INVALID_ARGUMENT) ==
        last_rank() + "desc.path " + own +
            " has 8 bytes; on rank 0 it has 4, and must be the same");
  if (last) std::remove(own.c_str());
}
