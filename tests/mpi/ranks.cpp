#include "tests/mpi/ranks.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "tests/support/calls.hpp"

namespace heed_test {
namespace {

using Positions = std::vector<std::int64_t>;

/// MPI, as long as the program runs.
struct Session {
  Session() {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
  }
  ~Session() { MPI_Finalize(); }
};
const Session session;

Positions row_range(std::int64_t begin, std::int64_t count) {
  Positions positions(static_cast<std::size_t>(count));
  std::iota(positions.begin(), positions.end(), begin);
  return positions;
}

std::vector<Positions> placed_evenly(std::uint32_t placement, std::int64_t length) {
  std::vector<Positions> all;
  for (int i = 0; i < ranks(); ++i) {
    heed_mpi_rows rows[2];
    require_ok(heed_mpi_place(placement, length, ranks(), i, rows));
    all.push_back(row_range(rows[0].begin, rows[0].count));
    const Positions second = row_range(rows[1].begin, rows[1].count);
    all.back().insert(all.back().end(), second.begin(), second.end());
  }
  return all;
}

/// Rank i gets i % 3 shares of what there is, the last one the rest.
std::vector<Positions> placed_unevenly(std::int64_t length) {
  std::vector<Positions> all;
  std::int64_t begin = 0;
  for (int i = 0; i < ranks(); ++i) {
    const std::int64_t share = i % 3 * length / (2 * ranks());
    const std::int64_t count = i == ranks() - 1 ? length - begin : share;
    all.push_back(row_range(begin, count));
    begin += count;
  }
  return all;
}

/// Stretches of rows in a random order.
std::vector<Positions> dealt(std::int64_t length, Random& random) {
  std::vector<std::int64_t> stretches((static_cast<std::size_t>(length) + 6) / 7);
  std::iota(stretches.begin(), stretches.end(), 0);
  for (std::size_t i = stretches.size(); i > 1; --i)
    std::swap(
        stretches[i - 1],
        stretches[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(i) - 1))]);
  std::vector<Positions> all(static_cast<std::size_t>(ranks()));
  for (const std::int64_t stretch : stretches) {
    Positions& to = all[static_cast<std::size_t>(random.integer(0, ranks() - 1))];
    const Positions rows = row_range(stretch * 7, std::min<std::int64_t>(7, length - stretch * 7));
    to.insert(to.end(), rows.begin(), rows.end());
  }
  return all;
}

/// Whether several elements share a place.
bool repeats(const heed_layout& layout) {
  const bool zero = layout.stride_head == 0 && layout.stride_row == 0 && layout.stride_feature == 0;
  return layout.reserved == HEED_STRIDES_EXPLICIT || (layout.stride_head == 0 && !zero);
}

}  // namespace

int rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int ranks() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

void require_ranks_ok(heed_status status) {
  if (status != HEED_STATUS_OK) throw std::runtime_error(heed_mpi_last_error());
}

const Context& plain_context() {
  static const Context context = make_context(isa_names().back());
  return context;
}

const Context& threaded_context() {
  static const Context context = make_context(isa_names().back(), {"tbb", 2, 16, 16});
  return context;
}

Split even_split(std::uint32_t placement, std::int64_t queries, std::int64_t keys) {
  return {placement == HEED_MPI_ZIGZAG ? "zigzag" : "contiguous", placement,
          placed_evenly(placement, queries), placed_evenly(placement, keys)};
}

Split everywhere(std::int64_t queries, std::int64_t keys) {
  const std::vector<Positions> all(static_cast<std::size_t>(ranks()), row_range(0, queries));
  return {"everywhere", HEED_MPI_CONTIGUOUS, all, placed_unevenly(keys), true};
}

std::vector<Split> all_splits(std::int64_t queries, std::int64_t keys, std::uint64_t seed) {
  Random random(seed);
  return {
      even_split(HEED_MPI_CONTIGUOUS, queries, keys),
      {"uneven", HEED_MPI_CONTIGUOUS, placed_unevenly(queries), placed_unevenly(keys)},
      even_split(HEED_MPI_ZIGZAG, queries, keys),
      {"dealt", HEED_MPI_POSITIONS, dealt(queries, random), dealt(keys, random)},
      everywhere(queries, keys),
  };
}

std::string Shard::line(std::int64_t head_ranks) const {
  return "rank " + std::to_string(rank()) + " of " + std::to_string(ranks()) + ", " + split.name +
         ", head_ranks " + std::to_string(head_ranks) + ": ";
}

Tensor cut(const Tensor& from, const Positions& rows, Arrangement arrangement, std::size_t axis) {
  Axes shape = from.shape();
  shape[axis] = static_cast<std::int64_t>(rows.size());
  Tensor to = placed(shape, arrangement, from.dtype(), 1);
  to.fill([&](Axes at) {
    at[axis] = rows[static_cast<std::size_t>(at[axis])];
    return from.get(at);
  });
  return to;
}

void cut(Tensor& tensor, heed_layout& layout, const Positions& rows, Arrangement arrangement) {
  tensor = cut(tensor, rows, arrangement);
  layout = layout_of(tensor, arrangement, layout.dtype);
}

Arrangement own_arrangement(int shift) {
  return static_cast<Arrangement>((rank() + shift) % static_cast<int>(Arrangement::kCount));
}

Shard::Shard(const Problem& whole, const Split& by)
    : split(by),
      query_positions(by.queries[static_cast<std::size_t>(rank())]),
      key_positions(by.keys[static_cast<std::size_t>(rank())]),
      problem(whole),
      total_queries_(whole.query.shape()[2]) {
  heed_attention_desc& d = problem.desc;
  d.query_length = static_cast<std::int64_t>(query_positions.size());
  d.key_length = static_cast<std::int64_t>(key_positions.size());
  cu_seqlens_q_.swap(problem.cu_seqlens_q);
  cu_seqlens_k_.swap(problem.cu_seqlens_k);
  if (d.packed_queries > 0) d.batch = 1;  // rows of whatever sequences
  d.packed_queries = d.packed_keys = 0;
  cut(problem.query, d.query, query_positions, own_arrangement(0));
  cut(problem.key, d.key, key_positions, own_arrangement(1));
  cut(problem.value, d.value, key_positions, own_arrangement(2));
  cut(problem.out, d.out, query_positions, own_arrangement(3));
  if (problem.lse) cut(*problem.lse, d.lse, query_positions, own_arrangement(4));
  const auto cut_scores = [&](std::optional<Tensor>& scores, heed_score_layout& layout) {
    if (!scores) return;
    const bool repeated = scores->shape()[2] == 1;
    scores = cut(*scores, repeated ? Positions{0} : query_positions, own_arrangement(5));
    layout = score_layout_of(*scores, own_arrangement(5), layout.dtype);
    if (!repeated) layout.rows = 0;  // own ones, also if 1
  };
  cut_scores(problem.mask, d.mask);
  cut_scores(problem.bias, d.bias);
}

heed_mpi_attention_desc Shard::desc() {
  heed_mpi_attention_desc desc = HEED_MPI_ATTENTION_DESC_INIT;
  desc.attention = &problem.desc;
  desc.placement = split.placement;
  desc.queries = split.everywhere ? HEED_MPI_QUERIES_EVERYWHERE : HEED_MPI_QUERIES_SPLIT;
  if (split.placement == HEED_MPI_POSITIONS) {
    desc.query_positions = query_positions.data();
    desc.key_positions = key_positions.data();
  }
  const auto bring = [&](bool given, heed_mpi_tensors tensor) {
    if (given) desc.tensors |= static_cast<std::uint32_t>(tensor);
  };
  if (!cu_seqlens_q_.empty()) {
    desc.sequences = static_cast<std::int64_t>(cu_seqlens_q_.size()) - 1;
    desc.cu_seqlens_q = cu_seqlens_q_.data();
    desc.cu_seqlens_k = cu_seqlens_k_.data();
  }
  bring(problem.mask.has_value(), HEED_MPI_MASK);
  bring(problem.bias.has_value(), HEED_MPI_BIAS);
  bring(!problem.slopes.numbers.empty(), HEED_MPI_ALIBI_SLOPES);
  bring(!problem.sinks.numbers.empty(), HEED_MPI_SINKS);
  bring(!problem.key_lengths.empty(), HEED_MPI_KEY_LENGTHS);
  // Without heads there are none, and they are promised all the same.
  const bool adds = problem.desc.score == HEED_SCORE_ADDITIVE;
  bring(adds || !problem.score_weights.numbers.empty(), HEED_MPI_SCORE_WEIGHTS);
  return desc;
}

Outputs Shard::run(const Context& context, std::int64_t head_ranks) {
  heed_mpi_attention_desc all = desc();
  all.head_ranks = head_ranks;
  return problem.run_all([&](const heed_attention_args& args) {
    require_ranks_ok(heed_mpi_attention(MPI_COMM_WORLD, context.get(), &all, &args));
    return HEED_STATUS_OK;
  });
}

void check_said(heed_status status, const std::string& message, heed_status as) {
  CHECK(status == as);
  CHECK(heed_mpi_last_error() == message);
}

bool same_everywhere(const std::string& text) {
  std::vector<char> first(1024, '\0');
  std::memcpy(first.data(), text.data(), std::min(text.size(), first.size() - 1));
  const std::vector<char> own = first;
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  int same = own == first ? 1 : 0;
  int all = 0;
  MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all == 1;
}

BackwardShard::BackwardShard(BackwardProblem& whole, const Split& split)
    : attention(whole.forward, split),
      problem(attention.problem, 1, {whole.grad_out.dtype(), own_arrangement(5), 1}) {
  const std::vector<std::int64_t>& rows = attention.query_positions;
  problem.grad_out.assign(cut(whole.grad_out, rows, Arrangement::kDefault));
  // Some ranks may leave out a gradient that is 0.
  if (whole.grad_lse) {
    problem.give_grad_lse(1, {whole.grad_lse->dtype(), own_arrangement(6), 1});
    problem.grad_lse->assign(cut(*whole.grad_lse, rows, Arrangement::kDefault));
  }
  std::array<std::optional<Tensor>, kGradients> before;
  for (const GradientOf of : all_gradients()) {
    if (!whole.gradients[of]) continue;
    shapes_[of] = whole.gradients[of]->shape();
    const bool numbers = of > kGradBias;
    problem.want(of, {whole.gradients[of]->dtype(),
                      numbers ? Arrangement::kDefault : own_arrangement(static_cast<int>(of)), 0});
    if (!whole.before()[of]) continue;
    before[of] = *problem.gradients[of];
    before[of]->assign(is_split(of)
                           ? cut(*whole.before()[of], positions_of(of), Arrangement::kDefault)
                           : *whole.before()[of]);
  }
  if (whole.desc().accumulate != 0) problem.accumulate(std::move(before));
}

bool BackwardShard::is_split(GradientOf gradient) const {
  return gradient <= kGradValue || (gradient == kGradBias && shapes_[kGradBias][2] > 1);
}

const heed_mpi_attention_backward_desc& BackwardShard::desc(std::int64_t head_ranks) {
  over_ = attention.desc();
  over_.attention = &problem.forward.desc;
  over_.head_ranks = head_ranks;
  const heed_attention_backward_desc& own = problem.desc();
  desc_ = {static_cast<std::uint32_t>(sizeof desc_),
           own.accumulate,
           &over_,
           0,
           0,
           own.grad_out,
           own.grad_lse,
           own.grad_query,
           own.grad_key,
           own.grad_value,
           own.grad_bias};
  for (const GradientOf of : all_gradients())
    if (problem.gradients[of]) desc_.gradients |= 1U << of;
  return desc_;
}

Gradients BackwardShard::run(const Context& context, std::int64_t head_ranks) {
  const auto plan = create_on_ranks<heed_mpi_attention_backward_plan>(MPI_COMM_WORLD, context.get(),
                                                                      &desc(head_ranks));
  Workspace workspace(describe(plan).workspace_bytes);
  Gradients got = problem.run([&](const heed_attention_backward_args& args) {
    require_ranks_ok(heed_mpi_attention_backward_plan_run(plan.get(), &args, workspace.get(),
                                                          workspace.bytes()));
    return HEED_STATUS_OK;
  });
  CHECK(workspace.intact());
  heed_mpi_times times = HEED_MPI_TIMES_INIT;
  require_ranks_ok(heed_mpi_attention_backward_plan_times(plan.get(), &times));
  CHECK(times.compute > 0);
  CHECK(times.run >= times.compute + times.wait);
  return got;
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

}  // namespace heed_test
