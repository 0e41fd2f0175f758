#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>

#include "engine/mpi/graph/graph.hpp"

namespace heed::mpi {
namespace {

/// The sum of what the ranks before this one have. Collective.
std::int64_t count_before(const Communicator& comm, std::int64_t own) {
  std::int64_t before = 0;
  HEED_CALL(MPI_Exscan, &own, &before, 1, MPI_INT64_T, MPI_SUM, comm.get());
  return comm.rank() == 0 ? 0 : before;
}

std::vector<Edge> read_arrays(const heed_mpi_graph_desc& desc) {
  const auto node = [&](const char* field, const void* nodes, std::int64_t e) {
    const std::int64_t value = desc.index_type == HEED_INDEX_I64
                                   ? static_cast<const std::int64_t*>(nodes)[e]
                                   : static_cast<const std::int32_t*>(nodes)[e];
    if (value < 0 || value >= desc.nodes)
      refuse("desc.%s[%lld] is %lld; it must be at least 0 and below desc.nodes, %lld", field,
             lld(e), lld(value), lld(desc.nodes));
    return static_cast<std::int32_t>(value);
  };
  std::vector<Edge> edges;
  edges.reserve(static_cast<std::size_t>(desc.edges));
  for (std::int64_t e = 0; e < desc.edges; ++e)
    edges.push_back(
        {node("sources", desc.sources, e), node("destinations", desc.destinations, e), 0});
  return edges;
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

[[noreturn]] void refuse_file(const char* path, const char* what) {
  fail(HEED_STATUS_IO, "desc.path %.120s %s: %s", path, what, std::strerror(errno));
}

/// Reads the share of one rank in a file: the lines that begin in its share of the bytes.
class FileShare {
 public:
  FileShare(const Communicator& comm, const heed_mpi_graph_desc& desc)
      : comm_(comm), path_(desc.path), nodes_(desc.nodes == 0 ? kMostNodes : desc.nodes) {}

  /// Collective.
  void read() {
    comm_.agreed([&] { open(); });
    std::int64_t first = size_;
    HEED_CALL(MPI_Bcast, &first, 1, MPI_INT64_T, 0, comm_.get());
    comm_.agreed([&] {
      if (size_ != first)
        refuse("desc.path %.120s has %lld bytes; on rank 0 it has %lld, and must be the same",
               path_, lld(size_), lld(first));
      read_lines();
    });
    const long long line = count_before(comm_, lines_) + fault_line_ + 1;
    comm_.agreed([&] {
      if (fault_.status != HEED_STATUS_OK)
        fail(fault_.status, "desc.path %.100s, line %lld (byte %lld): %s", path_, line,
             lld(fault_byte_), fault_.message);
    });
  }

  std::vector<Edge> edges;
  std::int64_t most = -1;  ///< the largest node

 private:
  void open() {
    file_.reset(std::fopen(path_, "rb"));
    if (file_ == nullptr) refuse_file(path_, "cannot be opened");
    if (fseeko(file_.get(), 0, SEEK_END) != 0 || (size_ = ftello(file_.get())) < 0)
      refuse_file(path_, "has no size");
  }

  std::int64_t share_begin(int rank) const {
    return size_ / comm_.size() * rank + std::min<std::int64_t>(rank, size_ % comm_.size());
  }

  /// A line is the rank's in whose share it begins: after the newline before.
  void read_lines() {
    const std::int64_t begin = share_begin(comm_.rank());
    const std::int64_t end = share_begin(comm_.rank() + 1);
    if (fseeko(file_.get(), std::max<std::int64_t>(begin - 1, 0), SEEK_SET) != 0)
      refuse_file(path_, "cannot be read");
    std::int64_t at = begin == 0 ? 0 : begin - 1 + read_line();
    for (std::int64_t bytes = 0; at < end && (bytes = read_line()) > 0; at += bytes, ++lines_) {
      if (fault_.status != HEED_STATUS_OK) continue;
      try {
        parse();
      } catch (const Error& error) {
        fault_ = error;
        fault_line_ = lines_;
        fault_byte_ = at;
      }
    }
  }

  /// Reads a line, and returns its bytes, with the newline; 0 at the end. As much as line_ holds is
  /// kept.
  std::int64_t read_line() {
    std::int64_t bytes = 0;
    length_ = 0;
    cut_ = false;
    for (int c = 0; c != '\n' && (c = getc_unlocked(file_.get())) != EOF; ++bytes)
      if (length_ < sizeof line_ - 1)
        line_[length_++] = static_cast<char>(c);
      else
        cut_ = cut_ || std::isspace(c) == 0;
    if (std::ferror(file_.get()) != 0) refuse_file(path_, "cannot be read");
    line_[length_] = '\0';
    return bytes;
  }

  /// Reads the number at `text`, which moves on past it; -1 without one.
  static std::int64_t number(const char*& text) {
    while (*text == ' ' || *text == '\t') ++text;
    if (std::isdigit(static_cast<unsigned char>(*text)) == 0) return -1;
    char* end = nullptr;
    const std::int64_t value = std::strtoll(text, &end, 10);  // of too many digits the largest
    text = end;
    return value;
  }

  /// The beginning of the line, as far as it can be shown.
  std::string shown() const {
    std::string text;
    for (int i = 0; i < 40 && std::isprint(static_cast<unsigned char>(line_[i])) != 0; ++i)
      text += line_[i];
    return text;
  }

  void parse() {
    const char* text = line_;
    while (std::isspace(static_cast<unsigned char>(*text)) != 0) ++text;
    const char* const end = line_ + length_;
    if ((text == end && !cut_) || *text == '#' || *text == '%') return;
    const std::int64_t source = number(text);
    const std::int64_t destination = source < 0 ? -1 : number(text);
    while (std::isspace(static_cast<unsigned char>(*text)) != 0) ++text;
    if (source < 0 || destination < 0 || text != end || cut_)
      fail(HEED_STATUS_CORRUPT,
           "\"%s\" is not an edge; it must be two numbers of nodes, \"source destination\"",
           shown().c_str());
    if (std::max(source, destination) >= nodes_)
      refuse("\"%s\" has a node that is not below %s, %lld", shown().c_str(),
             nodes_ == kMostNodes ? "the most" : "desc.nodes", lld(nodes_));
    most = std::max({most, source, destination});
    edges.push_back({static_cast<std::int32_t>(source), static_cast<std::int32_t>(destination), 0});
  }

  const Communicator& comm_;
  const char* const path_;
  const std::int64_t nodes_;
  File file_;
  std::int64_t size_ = 0, lines_ = 0;
  char line_[256] = "";
  std::size_t length_ = 0;
  bool cut_ = false;  ///< line_ lacks more than spaces
  Error fault_ = {};  ///< of this rank's first line that is wrong
  std::int64_t fault_line_ = 0, fault_byte_ = 0;
};

std::vector<Edge> read_file(const Communicator& comm, heed_mpi_graph_desc& desc) {
  FileShare share(comm, desc);
  share.read();
  const std::int64_t most = comm.reduced(share.most, MPI_MAX);
  if (desc.nodes == 0) desc.nodes = most + 1;
  return std::move(share.edges);
}

}  // namespace

std::vector<Edge> read_edges(const Communicator& comm, heed_mpi_graph_desc& desc) {
  std::vector<Edge> edges =
      desc.path != nullptr ? read_file(comm, desc) : comm.agreed([&] { return read_arrays(desc); });
  std::int64_t given = count_before(comm, static_cast<std::int64_t>(edges.size()));
  for (Edge& edge : edges) edge.given = given++;
  return edges;
}

// ---- Owners -------------------------------------------------------------------------------------

namespace {

/// A node counts as much as this many edges: its rows of queries, keys, values and results are
/// moved and written, where an edge reads two.
constexpr std::int64_t kEdgesOfNode = 4;

/// Finds for every rank the least node before which lies at least rank / ranks of the work of all
/// nodes and the edges into them. All are searched at once, by halves.
std::vector<std::int64_t> balance(const Communicator& comm, std::int64_t nodes,
                                  const std::vector<Edge>& edges) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<std::int32_t> ends;
  std::vector<std::int64_t> low, high, before, sum;
  comm.agreed([&] {
    for (const Edge& edge : edges) ends.push_back(edge.destination);
    std::sort(ends.begin(), ends.end());
    low.assign(ranks + 1, 0);
    high.assign(ranks + 1, nodes);
    before.resize(ranks + 1);
    sum.resize(ranks + 1);
  });
  const auto middle = [&](std::size_t r) { return low[r] + (high[r] - low[r]) / 2; };
  const auto count = [&](const auto& nodes_before) {
    for (std::size_t r = 0; r <= ranks; ++r)
      before[r] = std::lower_bound(ends.begin(), ends.end(), nodes_before(r)) - ends.begin();
    HEED_CALL(MPI_Allreduce, before.data(), sum.data(), static_cast<int>(ranks) + 1, MPI_INT64_T,
              MPI_SUM, comm.get());
    for (std::size_t r = 0; r <= ranks; ++r) sum[r] += kEdgesOfNode * nodes_before(r);
  };
  count([&](std::size_t) { return nodes; });
  const double share = static_cast<double>(sum[0]) / static_cast<double>(ranks);
  while (low != high) {
    count(middle);
    for (std::size_t r = 0; r <= ranks; ++r) {
      const std::int64_t at = middle(r);
      if (low[r] == high[r]) continue;
      if (static_cast<double>(sum[r]) >= share * static_cast<double>(r))
        high[r] = at;
      else
        low[r] = at + 1;
    }
  }
  low[ranks] = nodes;
  return low;
}

}  // namespace

std::vector<std::int32_t> Owners::nodes_of(int rank, std::int64_t nodes) const {
  std::vector<std::int32_t> own;
  if (given == nullptr) {
    const auto r = static_cast<std::size_t>(rank);
    own.resize(static_cast<std::size_t>(first[r + 1] - first[r]));
    std::iota(own.begin(), own.end(), static_cast<std::int32_t>(first[r]));
  }
  for (std::int64_t n = 0; given != nullptr && n < nodes; ++n)
    if (given[n] == rank) own.push_back(static_cast<std::int32_t>(n));
  return own;
}

Owners make_owners(const Communicator& comm, const heed_mpi_graph_desc& desc,
                   const std::vector<Edge>& edges) {
  if (desc.owners == nullptr) return {nullptr, balance(comm, desc.nodes, edges)};
  compare(comm, "owners", desc.owners, desc.nodes);
  return {desc.owners, {}};
}

}  // namespace heed::mpi
