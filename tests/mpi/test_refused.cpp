// What one rank alone gets wrong, all ranks refuse, in the same words. Messages of the rank's own
// process are tested in tests/api: here a row shows that they come through.
#include <functional>
#include <numeric>
#include <thread>

#include "tests/graph/problems.hpp"
#include "tests/mpi/ranks.hpp"
#include "tests/support/allocator.hpp"
#include "tests/support/executors.hpp"

using namespace heed_test;

namespace {

/// Whether nobody has written an element.
bool untouched(const Tensor& tensor) {
  const Numbers numbers = tensor.numbers();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers.written(i)) return false;
  return true;
}

constexpr heed_status kInvalid = HEED_STATUS_INVALID_ARGUMENT;
constexpr heed_status kUnsupported = HEED_STATUS_UNSUPPORTED;

/// What one rank makes of a good call, and what all say of it.
template <class Call>
struct Refusal {
  void (*change)(Call&);
  std::string words;
  heed_status status = kInvalid;
};

/// Of a field that must be the same on all ranks.
std::string differs(const std::string& field, const std::string& own, const std::string& first) {
  return field + " is " + own + "; on rank 0 it is " + first + ", and must be the same";
}

/// What all ranks say of a call that they are refused. A Call has run() and untouched().
template <class Call>
std::string refusal_of(Call& call, heed_status as = kInvalid) {
  const heed_status status = call.run();
  const std::string message = heed_mpi_last_error();
  CHECK(heed_status_name(status) == std::string(heed_status_name(as)));
  CHECK(same_everywhere(message));
  CHECK(call.untouched());
  return message;
}

/// The last rank changes its call, which all make.
template <class Call>
void check_refused(const std::vector<Refusal<Call>>& refusals) {
  for (const Refusal<Call>& refusal : refusals) {
    INFO(refusal.words);
    Call call;
    if (rank() == ranks() - 1) refusal.change(call);
    CHECK(refusal_of(call, refusal.status) == last_rank() + refusal.words);
  }
}

// A change of a good call, and rows of fields that it sets to a value: messages begin with both.
#define WITH(...) [](auto& c) { __VA_ARGS__; }
#define DESC(of, field, value, ...) \
  { WITH(c.of.field = value), "desc." #field " is " #value "; " __VA_ARGS__ }
#define ARGS(of, field, value, ...) \
  { WITH(c.of.field = value), "args." #field " is " #value "; " __VA_ARGS__ }
/// Of one that must be the same on all ranks.
#define DIFFERS(of, field, value, own, first) \
  { WITH(c.of.field = value), differs("desc." #field, own, first) }

}  // namespace

// ---- Attention ---------------------------------------------------------------------------------

namespace {

constexpr std::int64_t kLength = 23;

std::int64_t positions[kLength];
const std::int32_t begins[] = {0, 20, kLength, 5};

BackwardProblem good(std::int64_t length = kLength, std::int64_t features = 8) {
  Problem problem({length, length, features, features, 1, 4, 2});
  problem.fill(1);
  problem.sinks.numbers = {1, 2, 3, 4};
  problem.add_bias({1, 4, 1, length});
  BackwardProblem p(std::move(problem), 2);
  for (const GradientOf of : {kGradQuery, kGradKey, kGradValue, kGradBias, kGradSinks}) p.want(of);
  p.attend(plain_context());
  return p;
}

/// What one rank brings of a good problem of gradients.
struct GradientCall {
  explicit GradientCall(BackwardProblem problem = good())
      : whole(std::move(problem)),
        shard(whole, even_split(HEED_MPI_CONTIGUOUS, whole.forward.desc.query_length,
                                whole.forward.desc.query_length)),
        context(plain_context().get()),
        desc(shard.desc()),
        over(*desc.attention),
        attention(*over.attention),
        args(shard.problem.args()),
        inner(*args.attention) {
    for (auto& gradient : shard.problem.gradients)
      if (gradient) gradient->clear();
    desc.attention = &over;
    over.attention = &attention;
    args.attention = &inner;
  }
  GradientCall(const GradientCall&) = delete;
  GradientCall& operator=(const GradientCall&) = delete;

  virtual heed_status run() {
    return heed_mpi_attention_backward(MPI_COMM_WORLD, context, &desc, &args);
  }
  heed_status run_in(const heed_context* other) {
    context = other;
    return run();
  }
  bool untouched() const {
    for (const auto& gradient : shard.problem.gradients)
      if (gradient && !::untouched(*gradient)) return false;
    return true;
  }

  BackwardProblem whole;
  BackwardShard shard;
  const heed_context* context;
  heed_mpi_attention_backward_desc desc;
  heed_mpi_attention_desc over;
  heed_attention_desc attention;
  heed_attention_backward_args args;
  heed_attention_args inner;
};

/// And of attention itself.
struct Call : GradientCall {
  explicit Call(std::int64_t length = kLength, std::int64_t features = 8)
      : GradientCall(plain(length, features)), desc(over), args(inner) {
    shard.problem.forward.out.clear();
  }

  static BackwardProblem plain(std::int64_t length, std::int64_t features) {
    Problem problem({length, length, features, features, 1, 4, 2});
    problem.fill(1);
    return BackwardProblem(std::move(problem), 2);
  }
  heed_status run() override { return heed_mpi_attention(MPI_COMM_WORLD, context, &desc, &args); }
  void pack() {
    desc.sequences = 2;
    desc.cu_seqlens_q = desc.cu_seqlens_k = begins;
  }
  bool untouched() const { return ::untouched(shard.problem.forward.out); }

  heed_mpi_attention_desc& desc;
  heed_attention_args& args;
};

/// A plan that all ranks are refused, in the same words.
std::string plan_refusal(const heed_mpi_attention_desc& desc, heed_status as = kInvalid) {
  heed_mpi_attention_plan* plan = nullptr;
  CHECK(heed_mpi_attention_plan_create(MPI_COMM_WORLD, plain_context().get(), &desc, &plan) == as);
  CHECK(plan == nullptr);
  CHECK(same_everywhere(heed_mpi_last_error()));
  return heed_mpi_last_error();
}

/// The same of a rank's rows by their positions.
std::string refusal_of_rows(const std::vector<std::int64_t>& positions, heed_status as = kInvalid) {
  const auto rows = static_cast<std::int64_t>(positions.size());
  Problem whole({rows, rows, 8, 8});
  heed_mpi_attention_desc desc = HEED_MPI_ATTENTION_DESC_INIT;
  desc.attention = &whole.desc;
  desc.placement = HEED_MPI_POSITIONS;
  desc.query_positions = desc.key_positions = positions.data();
  return plan_refusal(desc, as);
}

}  // namespace

TEST_CASE("an empty batch has no tensors") {
  Call call;
  call.attention.batch = 0;
  CHECK(refusal_of(call) ==
        "rank 0: args.query is given, but batch is 0; a tensor without elements must be NULL");
  call.args.query = call.args.key = call.args.value = nullptr;
  call.args.out = nullptr;
  const heed_status status = call.run();
  INFO(heed_mpi_last_error());
  CHECK(status == HEED_STATUS_OK);
  CHECK(call.untouched());
}

TEST_CASE("what one rank alone gets wrong in its descriptor") {
  check_refused<Call>(
      {{WITH(c.context = nullptr), "context is NULL"},
       {WITH(c.desc.attention = nullptr), "desc.attention is NULL"},
       DESC(desc, struct_size, 5, "initialise the struct with its _INIT macro"),
       DESC(desc, placement, 3, "it must be a heed_mpi_placement, 0 to 2"),
       DESC(desc, queries, 2, "it must be a heed_mpi_queries, 0 to 1"),
       DESC(desc, tensors, 64, "it must be heed_mpi_tensors, or-ed, 0 to 63"),
       DESC(desc, head_ranks, -1, "it must be at least 0"),
       {WITH(c.desc.flops_per_byte = kNaN),
        "desc.flops_per_byte is nan; it must be finite and above 0, or 0 for the default"},
       {WITH(c.desc.key_positions = positions),
        "desc.key_positions is given with desc.placement 0; it must be NULL unless that is "
        "HEED_MPI_POSITIONS (2)"},
       {WITH(c.desc.placement = HEED_MPI_POSITIONS),
        "desc.query_positions is NULL with desc.placement HEED_MPI_POSITIONS (2)"},
       {WITH(c.desc.queries = HEED_MPI_QUERIES_EVERYWHERE, c.desc.query_positions = positions),
        "desc.query_positions is given; it must be NULL with HEED_MPI_QUERIES_EVERYWHERE"},
       DESC(attention, packed_keys, 4,
            "over ranks it must be 0, and desc.sequences says that a batch is packed",
            kUnsupported),
       DESC(attention, packed_queries, 4,
            "over ranks it must be 0, and desc.sequences says that a batch is packed",
            kUnsupported),
       DESC(desc, sequences, -1, "it must be 0 to 1073741824"),
       {WITH(c.desc.sequences = 2), "desc.cu_seqlens_q is NULL with desc.sequences 2"},
       {WITH(c.desc.cu_seqlens_k = begins), "desc.cu_seqlens_k is given with desc.sequences 0"},
       {WITH(c.pack(), c.desc.cu_seqlens_q = begins + 1),
        "desc.cu_seqlens_q[0] is 20; it must be 0"},
       {WITH(c.pack(), c.desc.sequences = 3), "desc.cu_seqlens_q[3] is 5; it must be at least 23"},
       {WITH(c.pack(), c.attention.batch = 2),
        "desc.batch is 2 with desc.sequences 2; a packed batch has a batch of 1"},
       {WITH(c.attention.pages = 4), "a cache in pages (desc.pages) is not supported over ranks",
        kUnsupported},
       {WITH(c.attention.key.dtype = HEED_DTYPE_I8),
        "a key of 8 bits (desc.key.dtype) is not supported over ranks", kUnsupported},
       {WITH(c.attention.value.dtype = HEED_DTYPE_F8_E4M3),
        "a value of 8 bits (desc.value.dtype) is not supported over ranks", kUnsupported},
       {WITH(c.attention.hard = 1),
        "hard attention (desc.hard), which has no log-sum-exp to merge by, is not supported over "
        "ranks",
        kUnsupported},
       {WITH(c.attention.score = HEED_SCORE_ADDITIVE),
        "desc.tensors lacks HEED_MPI_SCORE_WEIGHTS (32); desc.score is HEED_SCORE_ADDITIVE (2)"},
       {WITH(c.desc.tensors = HEED_MPI_SCORE_WEIGHTS),
        "desc.tensors has HEED_MPI_SCORE_WEIGHTS (32); desc.score is 0, neither "
        "HEED_SCORE_ADDITIVE (2) nor HEED_SCORE_COSINE (3)"},
       {WITH(c.attention.weights_point = HEED_WEIGHTS_SCORES),
        "an output of weights (desc.weights_point) is not supported over ranks", kUnsupported},
       {WITH(c.attention.sum_columns = 1),
        "an output of column sums (desc.sum_columns) is not supported over ranks", kUnsupported},
       {WITH(c.attention.causal = HEED_CAUSAL_BOTTOM_RIGHT, c.desc.tensors = HEED_MPI_KEY_LENGTHS),
        "bottom-right alignment with HEED_MPI_KEY_LENGTHS, an offset for each sequence, is not "
        "supported over ranks",
        kUnsupported},
       DESC(attention, softcap, -1, "it must be finite and at least 0")});
}

TEST_CASE("fields that differ between ranks") {
  if (ranks() == 1) return;
  check_refused<Call>(
      {DIFFERS(attention, softcap, 0.1, "0.10000000000000001", "0"),
       DIFFERS(attention, causal, HEED_CAUSAL_TOP_LEFT, "1", "0"),
       DIFFERS(attention, window, 1, "1", "0"), DIFFERS(attention, dropout, 0.5, "0.5", "0"),
       DIFFERS(attention, key_heads, 4, "4", "2"),
       DIFFERS(attention, key.dtype, HEED_DTYPE_BF16, "3", "1"),
       DIFFERS(desc, placement, HEED_MPI_ZIGZAG, "1", "0"),
       DIFFERS(desc, tensors, HEED_MPI_SINKS, "8", "0"), DIFFERS(desc, head_ranks, 2, "2", "0")});
}

TEST_CASE("what one rank alone gets wrong in a run") {
  check_refused<Call>(
      {{WITH(c.args.query = nullptr), "args.query is NULL; its tensor has elements"},
       {WITH(c.args.mask = reinterpret_cast<const std::uint8_t*>(positions)),
        "args.mask is given; desc.tensors of the plan lacks HEED_MPI_MASK (1)"},
       {WITH(c.args.key_lengths = begins),
        "args.key_lengths is given; desc.tensors of the plan lacks HEED_MPI_KEY_LENGTHS (16)"},
       {WITH(c.args.first_keys = begins),
        "args.first_keys is given, which is not supported over ranks", kUnsupported},
       ARGS(args, dropout_offset, 1, "it must be 0 with desc.dropout 0"),
       {WITH(c.args.dropout_origin = positions),
        "args.dropout_origin is given, which is not supported over ranks", kUnsupported},
       {[](Call& c) { c.args.score_function = [](void*, const heed_score_tile*) {}; },
        "args.score_function is given, which is not supported over ranks", kUnsupported}});
}

TEST_CASE("what ranks cannot be split by") {
  const auto refused = [](std::int64_t head_ranks, bool everywhere) {
    Problem whole({kLength, kLength, 8, 8, 1, 12, 6});
    Shard shard(whole, everywhere ? heed_test::everywhere(kLength, kLength)
                                  : even_split(HEED_MPI_CONTIGUOUS, kLength, kLength));
    heed_mpi_attention_desc desc = shard.desc();
    desc.head_ranks = head_ranks;
    return plan_refusal(desc, everywhere ? kUnsupported : kInvalid);
  };
  const std::string n = std::to_string(ranks());
  CHECK(refused(8, false) == "rank 0: desc.head_ranks is 8; it must divide the " + n + " ranks");
  CHECK(refused(8, true) ==
        "rank 0: desc.head_ranks is 8; with HEED_MPI_QUERIES_EVERYWHERE it must be 1");
  if (ranks() == 4 || ranks() == 7)
    CHECK(refused(ranks(), false) ==
          "rank 0: desc.head_ranks is " + n + "; it must divide desc.key_heads, 6");
}

TEST_CASE("key lengths past the keys of a sequence, and of all") {
  const bool last = rank() == ranks() - 1;
  const auto refused = [](bool packed, std::int32_t first, std::int32_t second) {
    const std::int32_t lengths[] = {first, second};
    Call call;
    if (packed) call.pack();
    call.desc.tensors = HEED_MPI_KEY_LENGTHS;
    call.args.key_lengths = lengths;
    return refusal_of(call);
  };
  CHECK(refused(true, 20, last ? 4 : 3) ==
        last_rank() + "args.key_lengths[1] is 4; it must be 0 to 3, the keys of the sequence");
  CHECK(refused(true, last ? -1 : 0, 3) ==
        last_rank() + "args.key_lengths[0] is -1; it must be 0 to 20, the keys of the sequence");
  CHECK(refused(false, last ? 24 : 23, 0) ==
        last_rank() + "args.key_lengths[0] is 24; it must be 0 to 23, the keys of all ranks");
}

TEST_CASE("sequences that differ between ranks, or do not fit the rows") {
  const auto refused = [](std::vector<std::int32_t> queries, std::vector<std::int32_t> keys,
                          std::uint32_t window) {
    Call call;
    call.desc.sequences = static_cast<std::int64_t>(queries.size()) - 1;
    call.desc.cu_seqlens_q = queries.data();
    call.desc.cu_seqlens_k = keys.data();
    call.attention.window = window;
    return refusal_of(call);
  };
  const bool last = rank() == ranks() - 1;
  CHECK(refused({0, 9, 22}, {0, 9, 23}, 0) ==
        "rank 0: desc.cu_seqlens_q[2] is 22; it must be 23, the rows of all ranks");
  CHECK(refused({0, 9, 23}, {0, 9, 24}, 0) ==
        "rank 0: desc.cu_seqlens_k[2] is 24; it must be 23, the rows of all ranks");
  CHECK(refused({0, 9, 23}, {0, 8, 23}, 1) ==
        "rank 0: desc.alignment is 0, and sequence 0 has 9 queries and 8 keys; it must say where "
        "queries stand");
  if (ranks() == 1) return;
  CHECK(refused({0, 9, 23}, {0, last ? 8 : 9, 23}, 0) ==
        last_rank() + differs("desc.cu_seqlens_k[1]", "8", "9"));
  CHECK(refused(last ? std::vector<std::int32_t>{0, 23} : std::vector<std::int32_t>{0, 9, 23},
                {0, last ? 23 : 9, 23}, 0) == last_rank() + differs("desc.sequences", "1", "2"));
}

TEST_CASE("more sequences than a shard may have spans") {
  constexpr std::int32_t kSequences = 1025;
  std::vector<std::int32_t> each_row(kSequences + 1);
  std::iota(each_row.begin(), each_row.end(), 0);
  // The first rank has all rows.
  Problem whole({rank() == 0 ? kSequences : 0, rank() == 0 ? kSequences : 0, 8, 8});
  heed_mpi_attention_desc desc = HEED_MPI_ATTENTION_DESC_INIT;
  desc.attention = &whole.desc;
  desc.sequences = kSequences;
  desc.cu_seqlens_q = desc.cu_seqlens_k = each_row.data();
  CHECK(plan_refusal(desc, kUnsupported) ==
        std::string("rank 0: a shard has 1025 spans of query rows that are consecutive and in one "
                    "sequence; it may have 1024"));
}

TEST_CASE("positions that are missing, or there twice") {
  const auto refused = [](std::int64_t first_of_last_rank) {
    const std::int64_t first = 2 * rank();
    return refusal_of_rows({rank() == ranks() - 1 ? first_of_last_rank : first, first + 1});
  };
  const std::string last = std::to_string(ranks() - 1);
  CHECK(refused(-1) ==
        "rank 0: desc.key_positions of rank " + last + " has position -1, which is below 0");
  CHECK(refused(2 * ranks() - 1) ==
        "rank 0: desc.key_positions of rank " + last +
            (ranks() == 1
                 ? " goes on at position 1, but no rank has position 0; together they must "
                   "be 0 to 1, each once"
                 : " goes on at position " + std::to_string(2 * ranks() - 1) +
                       ", but no rank has position " + std::to_string(2 * ranks() - 2) +
                       "; together they must be 0 to " + std::to_string(2 * ranks() - 1) +
                       ", each once"));
  if (ranks() > 1)
    CHECK(refused(1) == "rank 0: desc.key_positions of rank " + last +
                            " has position 1, which is also a position of this or another rank");
}

TEST_CASE("more spans than a shard may have") {
  std::vector<std::int64_t> own;
  for (std::int64_t i = 0; i < 1025; ++i) own.push_back(2 * i);
  CHECK(refusal_of_rows(own, kUnsupported) ==
        std::string("rank 0: desc.key_positions has a gap or a jump before row 1024; a shard may "
                    "have 1024 spans of consecutive positions, and this would be one more"));
}

TEST_CASE("no communicator") {
  heed_mpi_attention_plan* plan = nullptr;
  const heed_mpi_attention_desc desc = HEED_MPI_ATTENTION_DESC_INIT;
  check_said(heed_mpi_attention_plan_create(MPI_COMM_NULL, plain_context().get(), &desc, &plan),
             "communicator is MPI_COMM_NULL");
  heed_mpi_attention_plan_destroy(nullptr);
}

// ---- Gradients ---------------------------------------------------------------------------------

TEST_CASE("what one rank alone gets wrong in its descriptor of gradients") {
  check_refused<GradientCall>(
      {{WITH(c.desc.attention = nullptr), "desc.attention is NULL"},
       {WITH(c.over.attention = nullptr), "desc.attention->attention is NULL"},
       DESC(desc, accumulate, 2, "it must be a switch, 0 to 1"),
       DESC(desc, gradients, 512, "it must be heed_mpi_gradients, or-ed, 0 to 511"),
       DESC(desc, reserved, 1, "it must be 0"),
       {WITH(c.over.tensors = HEED_MPI_SINKS),
        "desc.gradients has HEED_MPI_GRAD_BIAS (8); desc.tensors lacks HEED_MPI_BIAS (2)"},
       {WITH(c.over.tensors = HEED_MPI_BIAS),
        "desc.gradients has HEED_MPI_GRAD_SINKS (16); desc.tensors lacks HEED_MPI_SINKS (8)"},
       {WITH(c.desc.gradients = HEED_MPI_GRAD_ALIBI_SLOPES),
        "desc.gradients has HEED_MPI_GRAD_ALIBI_SLOPES (32); desc.tensors lacks "
        "HEED_MPI_ALIBI_SLOPES (4)"},
       {WITH(c.desc.gradients = HEED_MPI_GRAD_SCORE_WEIGHTS),
        "desc.gradients has HEED_MPI_GRAD_SCORE_WEIGHTS (256); desc.tensors lacks "
        "HEED_MPI_SCORE_WEIGHTS (32)"},
       DESC(desc, grad_bias.keys, 5, "it must be 23, as that of the bias is, or 0 (the same)"),
       DESC(attention, softcap, -1, "it must be finite and at least 0")});
}

TEST_CASE("fields of gradients that differ between ranks") {
  if (ranks() == 1) return;
  check_refused<GradientCall>({DIFFERS(desc, accumulate, 1, "1", "0"),
                               DIFFERS(desc, gradients, HEED_MPI_GRAD_QUERY, "1", "31"),
                               DIFFERS(desc, grad_out.dtype, HEED_DTYPE_BF16, "3", "1"),
                               DIFFERS(desc, grad_lse.dtype, HEED_DTYPE_F64, "2", "1"),
                               DIFFERS(attention, lse.dtype, HEED_DTYPE_F64, "2", "1"),
                               DIFFERS(attention, bias.heads, 1, "1", "4")});
}

TEST_CASE("a bias that repeats over the queries of some ranks alone") {
  if (ranks() == 1) return;
  GradientCall call;
  const bool last = rank() == ranks() - 1;
  if (last) call.attention.bias.rows = call.desc.grad_bias.rows = 0;
  const std::string rows = std::to_string((kLength + ranks() - 1) / ranks());
  CHECK(refusal_of(call) == "rank 0: desc.bias.rows is 1 with desc.query_length " + rows +
                                "; a bias that repeats over queries must do so on all ranks");
}

TEST_CASE("what one rank alone gets wrong in a run of gradients") {
  check_refused<GradientCall>(
      {{WITH(c.args.attention = nullptr), "args.attention is NULL"},
       {WITH(c.inner.lse = nullptr),
        "args.lse is NULL; gradients need what heed_mpi_attention wrote there"},
       {WITH(c.args.grad_scale = const_cast<void*>(c.inner.query)),
        "args.grad_scale is given; desc.gradients of the plan lacks HEED_MPI_GRAD_SCALE (64)"},
       {WITH(c.inner.mask = static_cast<const std::uint8_t*>(c.inner.query)),
        "args.mask is given; desc.tensors of the plan lacks HEED_MPI_MASK (1)"},
       {[](GradientCall& c) {
          c.args.score_gradient = [](void*, const heed_score_tile*, void*) {};
        },
        "args.score_gradient is given, which is not supported over ranks", kUnsupported},
       ARGS(args, reserved, 1, "it must be 0")});
}

TEST_CASE("gradients that some ranks do not want") {
  GradientCall call;
  if (rank() > 0) call.args.grad_key = call.args.grad_bias = nullptr;
  CHECK(call.run() == HEED_STATUS_OK);
  const auto wrote = [&](GradientOf of) { return !untouched(*call.shard.problem.gradients[of]); };
  CHECK(wrote(kGradQuery));
  CHECK(wrote(kGradKey) == (rank() == 0));
  CHECK(wrote(kGradBias) == (rank() == 0));
}

// ---- Graphs ------------------------------------------------------------------------------------

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
struct GraphCall {
  GraphCall()
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
  heed_status run_in(const heed_context* other) {
    context = plan_context = other;
    return run();
  }
  bool untouched() const { return ::untouched(*shard.out) && ::untouched(*shard.lse); }

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

const std::int32_t first_owner[kNodes] = {};
const std::int32_t no_owner[kNodes] = {0, 0, 0, -5};

}  // namespace

TEST_CASE("what one rank alone gets wrong in the descriptor of a graph") {
  check_refused<GraphCall>(
      {{WITH(c.context = nullptr), "context is NULL"},
       DESC(graph, struct_size, 5, "initialise the struct with its _INIT macro"),
       DESC(graph, index_type, 3, "it must be a heed_index_type, 0 to 2"),
       DESC(graph, duplicates, 3, "it must be a heed_duplicates, 0 to 2"),
       DESC(graph, reserved, 1, "it must be 0"),
       {WITH(c.graph.nodes = std::int64_t{1} << 31),
        "desc.nodes is 2147483648; it must be 0 to 2147483647"},
       DESC(graph, edges, -1, "it must be 0 to 2^40"),
       {WITH(c.graph.edges = 5, c.graph.sources = nullptr),
        "desc.sources is NULL; desc.edges is 5"},
       {WITH(c.graph.edges = 5, c.graph.destinations = nullptr),
        "desc.destinations is NULL; desc.edges is 5"},
       {WITH(c.graph.path = "edges.txt"),
        "desc.path is given; desc.edges must then be 0, and desc.sources and desc.destinations "
        "NULL"},
       {WITH(c.graph = HEED_MPI_GRAPH_DESC_INIT, c.graph.path = "edges.txt",
             c.graph.owners = first_owner),
        "desc.owners is given with desc.nodes 0; with both desc.path and desc.owners it must say "
        "how many nodes there are"},
       {WITH(c.edges.sources[1] = -1),
        "desc.sources[1] is -1; it must be at least 0 and below desc.nodes, 23"},
       {WITH(c.edges.destinations[2] = 23),
        "desc.destinations[2] is 23; it must be at least 0 and below desc.nodes, 23"}});
}

TEST_CASE("descriptors of graphs that differ between ranks") {
  if (ranks() == 1) return;
  check_refused<GraphCall>(
      {DIFFERS(graph, nodes, 24, "24", "23"),
       DIFFERS(graph, duplicates, 1, "1", "2"),
       {WITH(c.graph.owners = first_owner), differs("desc.owners != NULL", "1", "0")},
       DIFFERS(attention, softcap, 2, "2", "0"),
       DIFFERS(attention, scale, 0.5, "0.5", "0"),
       DIFFERS(attention, score, 2, "2", "0"),
       DIFFERS(attention, steps, 2, "2", "1"),
       DIFFERS(attention, dropout, 0.5, "0.5", "0"),
       DIFFERS(attention, out.dtype, HEED_DTYPE_BF16, "3", "1")});
}

TEST_CASE("owners that are no ranks, or not the same everywhere") {
  const auto refused = [](const std::int32_t* owners) {
    GraphCall call;
    call.graph.owners = owners;
    return refusal_of(call);
  };
  const std::string last = std::to_string(ranks() - 1);
  const bool own = rank() == ranks() - 1;
  CHECK(refused(own ? no_owner : first_owner) ==
        last_rank() + "desc.owners[3] is -5; it must be a rank, 0 to " + last);
  std::int32_t other[kNodes] = {};
  other[7] = 1;
  if (ranks() > 1)
    CHECK(refused(own ? other : first_owner) == last_rank() + differs("desc.owners[7]", "1", "0"));
}

TEST_CASE("what one rank alone gets wrong in a plan or a run over a graph") {
  check_refused<GraphCall>(
      {{WITH(c.plan_context = nullptr), "context is NULL"},
       {WITH(c.args.dropout_edges = positions),
        "args.dropout_edges is given, which is not supported over ranks: edges have the numbers "
        "that heed_mpi_graph_edges gives",
        kUnsupported},
       DESC(attention, heads, 0, "it must be 1 to 2^40"),
       {WITH(c.args.data = nullptr), "args.data is NULL; its tensor has elements"},
       ARGS(args, reserved, 1, "it must be 0")});
}

TEMPLATE_TEST_CASE("seeds of dropout that differ between ranks", "", Call, GraphCall) {
  if (ranks() == 1) return;
  TestType call;
  call.attention.dropout = 0.5;
  call.args.dropout_seed = rank() == ranks() - 1 ? UINT64_MAX : 7;
  CHECK(refusal_of(call) ==
        last_rank() + differs("args.dropout_seed", "18446744073709551615", "7"));
  call.args.dropout_seed = 7;
  call.args.dropout_offset = rank() == ranks() - 1 ? 3 : 0;
  CHECK(refusal_of(call) == last_rank() + differs("args.dropout_offset", "3", "0"));
}

TEST_CASE("NULL where a graph or a plan should be") {
  heed_mpi_graph_info info = HEED_MPI_GRAPH_INFO_INIT;
  check_said(heed_mpi_graph_describe(nullptr, &info), "graph is NULL");
  heed_mpi_graph_attention_info told = HEED_MPI_GRAPH_ATTENTION_INFO_INIT;
  check_said(heed_mpi_graph_attention_plan_describe(nullptr, &told), "plan is NULL");
  const EdgeShare share(some_edges(), {});
  check_said(heed_mpi_graph_create(MPI_COMM_WORLD, plain_context().get(), &share.desc, nullptr),
             "rank 0: graph is NULL");
  const MpiGraph graph = make_mpi_graph(plain_context(), some_edges(), {});
  if (describe(graph).own_nodes > 0) {
    check_said(heed_mpi_graph_nodes(graph.get(), nullptr), "nodes is NULL");
  }
  CHECK(heed_mpi_graph_edges(graph.get(), nullptr, nullptr, nullptr) == HEED_STATUS_OK);
  heed_mpi_graph_destroy(nullptr);
  heed_mpi_graph_attention_plan_destroy(nullptr);
}

// ---- Ranks alone -------------------------------------------------------------------------------

namespace {

/// A call with a context.
using Attempt = std::function<heed_status(const heed_context*)>;

void check_told_of_last_rank() {
  const std::string message = heed_mpi_last_error();
  CHECK(message.find(last_rank()) == 0);
  CHECK(same_everywhere(message));
}

/// All refuse it where the last rank runs out of memory, whenever that is.
void check_out_of_memory(const Attempt& call) {
  bool enough = false;
  for (std::size_t blocks = 1; blocks < 100 && !enough; ++blocks) {
    CountingAllocator memory(rank() == ranks() - 1 ? blocks : CountingAllocator::kNever);
    const heed_context_options options = memory.options();
    heed_context* made = nullptr;
    const heed_status context_status = heed_context_create(&options, &made);
    const Context own(made);
    // Where even the context finds no memory, the others are told of a context that is NULL.
    const heed_status status = call(own.get());
    enough = status == HEED_STATUS_OK;
    if (enough || status == HEED_STATUS_INVALID_ARGUMENT) continue;
    CHECK(context_status == HEED_STATUS_OK);
    CHECK(status == HEED_STATUS_OUT_OF_MEMORY);
    check_told_of_last_rank();
  }
  CHECK(enough);
}

/// The last rank's executor runs nothing once in the midst of a run.
void check_failing_executor(const Attempt& call) {
  const auto fail = [](void* user, std::uint32_t count, ExecutorBody body, void* argument) {
    int& failures = *static_cast<int*>(user);
    if (failures > 0) {
      --failures;  // and runs nothing
      return;
    }
    for (std::uint32_t i = 0; i < count; ++i) body(argument, i);
  };
  int failures = rank() == ranks() - 1 ? 1 : 0;
  const heed_executor executor = executor_of(2, fail, &failures);
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor = &executor;
  heed_context* made = nullptr;
  const heed_status context_status = heed_context_create(&options, &made);
  CHECK(context_status == HEED_STATUS_OK);
  const Context context(made);
  CHECK(call(context.get()) == HEED_STATUS_EXECUTOR_FAILED);
  check_told_of_last_rank();
}

}  // namespace

TEMPLATE_TEST_CASE("a rank that runs out of memory", "", Call, GradientCall, GraphCall) {
  TestType call;
  check_out_of_memory([&](const heed_context* context) { return call.run_in(context); });
}

TEST_CASE("a rank whose executor fails in the midst of a run") {
  const std::int64_t length = std::int64_t{200} * ranks();  // enough for every rank to share
  Call attention(length, 64);
  check_failing_executor([&](const heed_context* context) { return attention.run_in(context); });
  CHECK(attention.untouched());

  GradientCall gradients(good(length, 64));
  check_failing_executor([&](const heed_context* context) { return gradients.run_in(context); });
  CHECK(gradients.untouched());

  GraphProblem nodes = projected_problem(random_edges(3000, 30000, 8), 4, 32, 32);
  const MpiGraph graph = make_mpi_graph(plain_context(), nodes.edges, {});
  GraphProblem own = shard_of(nodes, OwnRows(graph));
  const heed_graph_attention_args own_args = own.args();
  check_failing_executor([&](const heed_context* context) {
    return heed_mpi_graph_attention(context, graph.get(), &own.desc, &own_args);
  });
}

TEMPLATE_TEST_CASE("a rank that calls from another thread than it may", "", Call, GradientCall,
                   GraphCall) {
  TestType given;
  heed_status status = HEED_STATUS_OK;
  std::string message;
  const auto call = [&] {
    status = given.run();
    message = heed_mpi_last_error();
  };
  int level = 0;
  MPI_Query_thread(&level);
  if (level > MPI_THREAD_FUNNELED) return;
  if (rank() == ranks() - 1)
    std::thread(call).join();
  else
    call();
  CHECK(status == kInvalid);
  CHECK(message == last_rank() +
                       "this is not the thread that initialised MPI; with MPI_THREAD_FUNNELED it "
                       "must be");
}
