// What one rank alone gets wrong, all ranks refuse, in the same words. Messages of the rank's own
// process are tested in tests/api: here a row shows that they come through.
#include <numeric>
#include <thread>

#include "tests/graph/problems.hpp"
#include "tests/mpi/rank_graphs.hpp"
#include "tests/mpi/ranks.hpp"
#include "tests/mpi/refused.hpp"

using namespace heed_test;

// ---- Attention ---------------------------------------------------------------------------------

namespace {

constexpr std::int64_t kLength = 23;

std::int64_t positions[kLength];
const std::int32_t begins[] = {0, 20, kLength, 5};

/// What one rank brings of a good problem.
struct Call {
  Call()
      : whole({kLength, kLength, 8, 8, 1, 4, 2}),
        shard(filled(whole), even_split(HEED_MPI_CONTIGUOUS, kLength, kLength)),
        context(plain_context().get()),
        desc(shard.desc()),
        attention(shard.problem.desc),
        args(shard.problem.args()) {
    shard.problem.out.clear();
  }

  static Problem& filled(Problem& p) {
    p.fill(1);
    p.want_lse();
    return p;
  }
  heed_status run() {
    if (desc.attention != nullptr) desc.attention = &attention;
    return heed_mpi_attention(MPI_COMM_WORLD, context, &desc, &args);
  }
  heed_status run_in(const heed_context* other) {
    context = other;
    return run();
  }
  void pack() {
    desc.sequences = 2;
    desc.cu_seqlens_q = desc.cu_seqlens_k = begins;
  }
  bool untouched() const { return heed_test::untouched(shard.problem.out); }

  Problem whole;
  Shard shard;
  const heed_context* context;
  heed_mpi_attention_desc desc;
  heed_attention_desc attention;
  heed_attention_args args;
};

/// A plan that all ranks are refused, in the same words.
std::string plan_refusal(const heed_mpi_attention_desc& desc, heed_status as = kInvalid) {
  heed_mpi_attention_plan* plan = nullptr;
  CHECK(heed_mpi_attention_plan_create(MPI_COMM_WORLD, plain_context().get(), &desc, &plan) == as);
  CHECK(plan == nullptr);
  CHECK(same_everywhere(heed_mpi_last_error()));
  return heed_mpi_last_error();
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
      {{[](Call& c) { c.context = nullptr; }, "context is NULL"},
       {[](Call& c) { c.desc.attention = nullptr; }, "desc.attention is NULL"},
       {[](Call& c) { c.desc.struct_size = 5; },
        "desc.struct_size is 5; initialise the struct with its _INIT macro"},
       {[](Call& c) { c.desc.placement = 3; },
        "desc.placement is 3; it must be a heed_mpi_placement, 0 to 2"},
       {[](Call& c) { c.desc.queries = 2; },
        "desc.queries is 2; it must be a heed_mpi_queries, 0 to 1"},
       {[](Call& c) { c.desc.tensors = 64; },
        "desc.tensors is 64; it must be heed_mpi_tensors, or-ed, 0 to 63"},
       {[](Call& c) { c.desc.head_ranks = -1; }, "desc.head_ranks is -1; it must be at least 0"},
       {[](Call& c) { c.desc.flops_per_byte = kNaN; },
        "desc.flops_per_byte is nan; it must be finite and above 0, or 0 for the default"},
       {[](Call& c) { c.desc.key_positions = positions; },
        "desc.key_positions is given with desc.placement 0; it must be NULL unless that is "
        "HEED_MPI_POSITIONS (2)"},
       {[](Call& c) { c.desc.placement = HEED_MPI_POSITIONS; },
        "desc.query_positions is NULL with desc.placement HEED_MPI_POSITIONS (2)"},
       {[](Call& c) {
          c.desc.queries = HEED_MPI_QUERIES_EVERYWHERE;
          c.desc.query_positions = positions;
        },
        "desc.query_positions is given; it must be NULL with HEED_MPI_QUERIES_EVERYWHERE"},
       {[](Call& c) { c.attention.packed_keys = 4; },
        "desc.packed_keys is 4; over ranks it must be 0, and desc.sequences says that a batch is "
        "packed",
        kUnsupported},
       {[](Call& c) { c.attention.packed_queries = 4; },
        "desc.packed_queries is 4; over ranks it must be 0, and desc.sequences says that a batch "
        "is "
        "packed",
        kUnsupported},
       {[](Call& c) { c.desc.sequences = -1; }, "desc.sequences is -1; it must be 0 to 1073741824"},
       {[](Call& c) { c.desc.sequences = 2; }, "desc.cu_seqlens_q is NULL with desc.sequences 2"},
       {[](Call& c) { c.desc.cu_seqlens_k = begins; },
        "desc.cu_seqlens_k is given with desc.sequences 0"},
       {[](Call& c) {
          c.pack();
          c.desc.cu_seqlens_q = begins + 1;
        },
        "desc.cu_seqlens_q[0] is 20; it must be 0"},
       {[](Call& c) {
          c.pack();
          c.desc.sequences = 3;
        },
        "desc.cu_seqlens_q[3] is 5; it must be at least 23"},
       {[](Call& c) {
          c.pack();
          c.attention.batch = 2;
        },
        "desc.batch is 2 with desc.sequences 2; a packed batch has a batch of 1"},
       {[](Call& c) { c.attention.pages = 4; },
        "a cache in pages (desc.pages) is not supported over ranks", kUnsupported},
       {[](Call& c) { c.attention.key.dtype = HEED_DTYPE_I8; },
        "a key of 8 bits (desc.key.dtype) is not supported over ranks", kUnsupported},
       {[](Call& c) { c.attention.value.dtype = HEED_DTYPE_F8_E4M3; },
        "a value of 8 bits (desc.value.dtype) is not supported over ranks", kUnsupported},
       {[](Call& c) { c.attention.hard = 1; },
        "hard attention (desc.hard), which has no log-sum-exp to merge by, is not supported over "
        "ranks",
        kUnsupported},
       {[](Call& c) { c.attention.dropout = 1; },
        "desc.dropout is 1; it must be at least 0 and less than 1"},
       {[](Call& c) { c.attention.score = HEED_SCORE_ADDITIVE; },
        "desc.tensors lacks HEED_MPI_SCORE_WEIGHTS (32); desc.score is HEED_SCORE_ADDITIVE (2)"},
       {[](Call& c) { c.desc.tensors = HEED_MPI_SCORE_WEIGHTS; },
        "desc.tensors has HEED_MPI_SCORE_WEIGHTS (32); desc.score is 0, neither "
        "HEED_SCORE_ADDITIVE (2) nor HEED_SCORE_COSINE (3)"},
       {[](Call& c) { c.attention.weights_point = HEED_WEIGHTS_SCORES; },
        "an output of weights (desc.weights_point) is not supported over ranks", kUnsupported},
       {[](Call& c) { c.attention.sum_columns = 1; },
        "an output of column sums (desc.sum_columns) is not supported over ranks", kUnsupported},
       {[](Call& c) {
          c.attention.causal = HEED_CAUSAL_BOTTOM_RIGHT;
          c.desc.tensors = HEED_MPI_KEY_LENGTHS;
        },
        "bottom-right alignment with HEED_MPI_KEY_LENGTHS, an offset for each sequence, is not "
        "supported over ranks",
        kUnsupported},
       {[](Call& c) { c.attention.softcap = -1; },
        "desc.softcap is -1; it must be finite and at least 0"}});
}

TEST_CASE("fields that differ between ranks") {
  if (ranks() == 1) return;
  check_refused<Call>(
      {{[](Call& c) { c.attention.softcap = 0.1; },
        differs("desc.softcap", "0.10000000000000001", "0")},
       {[](Call& c) { c.attention.causal = HEED_CAUSAL_TOP_LEFT; },
        differs("desc.causal", "1", "0")},
       {[](Call& c) { c.attention.window = 1; }, differs("desc.window", "1", "0")},
       {[](Call& c) { c.attention.dropout = 0.5; }, differs("desc.dropout", "0.5", "0")},
       {[](Call& c) { c.attention.key_heads = 4; }, differs("desc.key_heads", "4", "2")},
       {[](Call& c) { c.attention.key.dtype = HEED_DTYPE_BF16; },
        differs("desc.key.dtype", "3", "1")},
       {[](Call& c) { c.desc.placement = HEED_MPI_ZIGZAG; }, differs("desc.placement", "1", "0")},
       {[](Call& c) { c.desc.tensors = HEED_MPI_SINKS; }, differs("desc.tensors", "8", "0")},
       {[](Call& c) { c.desc.head_ranks = 2; }, differs("desc.head_ranks", "2", "0")}});
}

TEST_CASE("what one rank alone gets wrong in a run") {
  check_refused<Call>(
      {{[](Call& c) { c.args.query = nullptr; }, "args.query is NULL; its tensor has elements"},
       {[](Call& c) { c.args.mask = reinterpret_cast<const std::uint8_t*>(positions); },
        "args.mask is given; desc.tensors of the plan lacks HEED_MPI_MASK (1)"},
       {[](Call& c) {
          static constexpr std::int32_t kLengths[] = {1};
          c.args.key_lengths = kLengths;
        },
        "args.key_lengths is given; desc.tensors of the plan lacks HEED_MPI_KEY_LENGTHS (16)"},
       {[](Call& c) {
          static constexpr std::int32_t kFirst[] = {1};
          c.args.first_keys = kFirst;
        },
        "args.first_keys is given, which is not supported over ranks", kUnsupported},
       {[](Call& c) { c.args.dropout_offset = 1; },
        "args.dropout_offset is 1; it must be 0 with desc.dropout 0"},
       {[](Call& c) { c.args.dropout_origin = positions; },
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
  const std::string rank = "rank " + std::to_string(ranks() - 1) + ": ";
  CHECK(refused(true, 20, last ? 4 : 3) ==
        rank + "args.key_lengths[1] is 4; it must be 0 to 3, the keys of the sequence");
  CHECK(refused(true, last ? -1 : 0, 3) ==
        rank + "args.key_lengths[0] is -1; it must be 0 to 20, the keys of the sequence");
  CHECK(refused(false, last ? 24 : 23, 0) ==
        rank + "args.key_lengths[0] is 24; it must be 0 to 23, the keys of all ranks");
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
  const std::string rank = "rank " + std::to_string(ranks() - 1) + ": ";
  CHECK(refused({0, 9, 23}, {0, last ? 8 : 9, 23}, 0) ==
        rank + differs("desc.cu_seqlens_k[1]", "8", "9"));
  CHECK(refused(last ? std::vector<std::int32_t>{0, 23} : std::vector<std::int32_t>{0, 9, 23},
                {0, last ? 23 : 9, 23}, 0) == rank + differs("desc.sequences", "1", "2"));
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
    Problem whole({2, 2, 8, 8});
    std::int64_t own[2] = {2 * rank(), 2 * rank() + 1};
    if (rank() == ranks() - 1) own[0] = first_of_last_rank;
    heed_mpi_attention_desc desc = HEED_MPI_ATTENTION_DESC_INIT;
    desc.attention = &whole.desc;
    desc.placement = HEED_MPI_POSITIONS;
    desc.query_positions = desc.key_positions = own;
    return plan_refusal(desc);
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
  constexpr std::int64_t kRows = 1025;
  std::vector<std::int64_t> own;
  for (std::int64_t i = 0; i < kRows; ++i) own.push_back(2 * i);
  Problem whole({kRows, kRows, 8, 8});
  heed_mpi_attention_desc desc = HEED_MPI_ATTENTION_DESC_INIT;
  desc.attention = &whole.desc;
  desc.placement = HEED_MPI_POSITIONS;
  desc.query_positions = desc.key_positions = own.data();
  CHECK(plan_refusal(desc, kUnsupported) ==
        std::string("rank 0: desc.key_positions has a gap or a jump before row 1024; a shard may "
                    "have 1024 spans of consecutive positions, and this would be one more"));
}

TEST_CASE("no communicator") {
  heed_mpi_attention_plan* plan = nullptr;
  const heed_mpi_attention_desc desc = HEED_MPI_ATTENTION_DESC_INIT;
  CHECK(heed_mpi_attention_plan_create(MPI_COMM_NULL, plain_context().get(), &desc, &plan) ==
        HEED_STATUS_INVALID_ARGUMENT);
  CHECK(heed_mpi_last_error() == std::string("communicator is MPI_COMM_NULL"));
  heed_mpi_attention_plan_destroy(nullptr);
}

// ---- Gradients ---------------------------------------------------------------------------------

namespace {

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

/// What one rank brings of a good problem.
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

  heed_status run() { return heed_mpi_attention_backward(MPI_COMM_WORLD, context, &desc, &args); }
  heed_status run_in(const heed_context* other) {
    context = other;
    return run();
  }
  bool untouched() const {
    for (const auto& gradient : shard.problem.gradients)
      if (gradient && !heed_test::untouched(*gradient)) return false;
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

}  // namespace

TEST_CASE("what one rank alone gets wrong in its descriptor of gradients") {
  check_refused<GradientCall>(
      {{[](GradientCall& c) { c.context = nullptr; }, "context is NULL"},
       {[](GradientCall& c) { c.desc.attention = nullptr; }, "desc.attention is NULL"},
       {[](GradientCall& c) { c.over.attention = nullptr; }, "desc.attention->attention is NULL"},
       {[](GradientCall& c) { c.desc.struct_size = 5; },
        "desc.struct_size is 5; initialise the struct with its _INIT macro"},
       {[](GradientCall& c) { c.desc.accumulate = 2; },
        "desc.accumulate is 2; it must be a switch, 0 to 1"},
       {[](GradientCall& c) { c.desc.gradients = 512; },
        "desc.gradients is 512; it must be heed_mpi_gradients, or-ed, 0 to 511"},
       {[](GradientCall& c) { c.desc.reserved = 1; }, "desc.reserved is 1; it must be 0"},
       {[](GradientCall& c) { c.over.tensors = HEED_MPI_SINKS; },
        "desc.gradients has HEED_MPI_GRAD_BIAS (8); desc.tensors lacks HEED_MPI_BIAS (2)"},
       {[](GradientCall& c) { c.over.tensors = HEED_MPI_BIAS; },
        "desc.gradients has HEED_MPI_GRAD_SINKS (16); desc.tensors lacks HEED_MPI_SINKS (8)"},
       {[](GradientCall& c) { c.desc.gradients = HEED_MPI_GRAD_ALIBI_SLOPES; },
        "desc.gradients has HEED_MPI_GRAD_ALIBI_SLOPES (32); desc.tensors lacks "
        "HEED_MPI_ALIBI_SLOPES (4)"},
       {[](GradientCall& c) { c.desc.gradients = HEED_MPI_GRAD_SCORE_WEIGHTS; },
        "desc.gradients has HEED_MPI_GRAD_SCORE_WEIGHTS (256); desc.tensors lacks "
        "HEED_MPI_SCORE_WEIGHTS (32)"},
       {[](GradientCall& c) { c.desc.grad_bias.keys = 5; },
        "desc.grad_bias.keys is 5; it must be 23, as that of the bias is, or 0 (the same)"},
       {[](GradientCall& c) { c.attention.softcap = -1; },
        "desc.softcap is -1; it must be finite and at least 0"},
       {[](GradientCall& c) { c.attention.hard = 1; },
        "hard attention (desc.hard), which has no log-sum-exp to merge by, is not supported over "
        "ranks",
        kUnsupported},
       {[](GradientCall& c) { c.over.head_ranks = 2; },
        ranks() == 1 ? "desc.head_ranks is 2; it must divide the 1 ranks"
                     : differs("desc.head_ranks", "2", "0")}});
}

TEST_CASE("fields of gradients that differ between ranks") {
  if (ranks() == 1) return;
  check_refused<GradientCall>(
      {{[](GradientCall& c) { c.desc.accumulate = 1; }, differs("desc.accumulate", "1", "0")},
       {[](GradientCall& c) { c.desc.gradients = HEED_MPI_GRAD_QUERY; },
        differs("desc.gradients", "1", "31")},
       {[](GradientCall& c) { c.desc.grad_out.dtype = HEED_DTYPE_BF16; },
        differs("desc.grad_out.dtype", "3", "1")},
       {[](GradientCall& c) { c.desc.grad_lse.dtype = HEED_DTYPE_F64; },
        differs("desc.grad_lse.dtype", "2", "1")},
       {[](GradientCall& c) { c.attention.lse.dtype = HEED_DTYPE_F64; },
        differs("desc.lse.dtype", "2", "1")},
       {[](GradientCall& c) { c.attention.bias.heads = 1; }, differs("desc.bias.heads", "1", "4")},
       {[](GradientCall& c) { c.attention.softcap = 0.5; }, differs("desc.softcap", "0.5", "0")}});
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
      {{[](GradientCall& c) { c.args.attention = nullptr; }, "args.attention is NULL"},
       {[](GradientCall& c) { c.inner.lse = nullptr; },
        "args.lse is NULL; gradients need what heed_mpi_attention wrote there"},
       {[](GradientCall& c) { c.args.grad_scale = const_cast<void*>(c.inner.query); },
        "args.grad_scale is given; desc.gradients of the plan lacks HEED_MPI_GRAD_SCALE (64)"},
       {[](GradientCall& c) { c.inner.mask = static_cast<const std::uint8_t*>(c.inner.query); },
        "args.mask is given; desc.tensors of the plan lacks HEED_MPI_MASK (1)"},
       {[](GradientCall& c) {
          c.args.score_gradient = [](void*, const heed_score_tile*, void*) {};
        },
        "args.score_gradient is given, which is not supported over ranks", kUnsupported},
       {[](GradientCall& c) { c.args.reserved = 1; }, "args.reserved is 1; it must be 0"}});
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

TEST_CASE("what plans of gradients say") {
  heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
  attention.batch = 1, attention.query_heads = 4, attention.key_heads = 2;
  attention.query_length = attention.key_length = 100, attention.features = 64;
  heed_mpi_attention_desc over = HEED_MPI_ATTENTION_DESC_INIT;
  over.attention = &attention, over.head_ranks = 1;
  heed_mpi_attention_backward_desc desc = HEED_MPI_ATTENTION_BACKWARD_DESC_INIT;
  desc.attention = &over;
  const auto described = [&](std::uint32_t gradients, std::uint32_t causal) {
    desc.gradients = gradients;
    attention.causal = causal;
    const auto owner = create_on_ranks<heed_mpi_attention_backward_plan>(
        MPI_COMM_WORLD, plain_context().get(), &desc);
    heed_mpi_attention_backward_plan* const plan = owner.get();
    const heed_mpi_attention_info info = describe(owner);
    std::size_t bytes = 0;
    CHECK(heed_mpi_attention_backward_plan_workspace(plan, &bytes) == HEED_STATUS_OK);
    CHECK(bytes == info.workspace_bytes);
    heed_mpi_choice choice = HEED_MPI_CHOICE_INIT;
    CHECK(heed_mpi_attention_backward_plan_choice(plan, 0, &choice) == HEED_STATUS_OK);
    if (causal == HEED_CAUSAL_NONE) {
      CHECK(choice.flops == info.flops);
      CHECK(choice.ring_bytes == info.bytes);
    }
    const heed_attention_backward_args args = HEED_ATTENTION_BACKWARD_ARGS_INIT;
    CHECK(heed_mpi_attention_backward_plan_run(plan, &args, nullptr, 0) != HEED_STATUS_OK);
    CHECK(heed_mpi_last_error() == std::string("rank 0: args.attention is NULL"));
    heed_mpi_times times = HEED_MPI_TIMES_INIT;
    times.run = 1;
    CHECK(heed_mpi_attention_backward_plan_times(plan, &times) == HEED_STATUS_OK);
    CHECK(times.run == 0);  // none has gone well
    CHECK(heed_mpi_attention_backward_plan_times(plan, nullptr) == HEED_STATUS_INVALID_ARGUMENT);
    CHECK(heed_mpi_last_error() == std::string("times is NULL"));
    return info;
  };
  const double n = ranks();
  const double row = 2.0 * 64 * sizeof(float) * 2;  // of keys and values
  const heed_mpi_attention_info all = described(0, HEED_CAUSAL_NONE);
  CHECK(all.strategy == std::string("ring"));
  CHECK(all.rounds == ranks());
  CHECK(all.flops == 100 * 100 * n * 4 * 10 * 64);
  CHECK(all.bytes == (n - 1) * 100 * 2 * row);  // they come, and their gradients go
  CHECK(described(HEED_MPI_GRAD_QUERY, HEED_CAUSAL_NONE).bytes == (n - 1) * 100 * row);
  CHECK(described(HEED_MPI_GRAD_VALUE, HEED_CAUSAL_NONE).bytes == (n - 1) * 100 * 1.5 * row);
  // Shards go on to ranks above, and a gradient comes back of each that was there.
  const double sent = rank() == ranks() - 1 ? 0 : (rank() + 1) * 100 * row;
  CHECK(described(0, HEED_CAUSAL_TOP_LEFT).bytes == sent + rank() * 100 * row);
  CHECK(heed_mpi_attention_backward_plan_describe(nullptr, nullptr) ==
        HEED_STATUS_INVALID_ARGUMENT);
  heed_mpi_attention_backward_plan_destroy(nullptr);
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

const std::int32_t first_owner[kNodes] = {};
const std::int32_t no_owner[kNodes] = {0, 0, 0, -5};

}  // namespace

TEST_CASE("what one rank alone gets wrong in the descriptor of a graph") {
  check_refused<GraphCall>(
      {{[](GraphCall& c) { c.context = nullptr; }, "context is NULL"},
       {[](GraphCall& c) { c.graph.struct_size = 5; },
        "desc.struct_size is 5; initialise the struct with its _INIT macro"},
       {[](GraphCall& c) { c.graph.index_type = 3; },
        "desc.index_type is 3; it must be a heed_index_type, 0 to 2"},
       {[](GraphCall& c) { c.graph.duplicates = 3; },
        "desc.duplicates is 3; it must be a heed_duplicates, 0 to 2"},
       {[](GraphCall& c) { c.graph.reserved = 1; }, "desc.reserved is 1; it must be 0"},
       {[](GraphCall& c) { c.graph.nodes = std::int64_t{1} << 31; },
        "desc.nodes is 2147483648; it must be 0 to 2147483647"},
       {[](GraphCall& c) { c.graph.edges = -1; }, "desc.edges is -1; it must be 0 to 2^40"},
       {[](GraphCall& c) { c.graph.edges = 5, c.graph.sources = nullptr; },
        "desc.sources is NULL; desc.edges is 5"},
       {[](GraphCall& c) { c.graph.edges = 5, c.graph.destinations = nullptr; },
        "desc.destinations is NULL; desc.edges is 5"},
       {[](GraphCall& c) { c.graph.path = "edges.txt"; },
        "desc.path is given; desc.edges must then be 0, and desc.sources and desc.destinations "
        "NULL"},
       {[](GraphCall& c) {
          c.graph = HEED_MPI_GRAPH_DESC_INIT;
          c.graph.path = "edges.txt";
          c.graph.owners = first_owner;
        },
        "desc.owners is given with desc.nodes 0; with both desc.path and desc.owners it must say "
        "how many nodes there are"},
       {[](GraphCall& c) { c.edges.sources[1] = -1; },
        "desc.sources[1] is -1; it must be at least 0 and below desc.nodes, 23"},
       {[](GraphCall& c) { c.edges.destinations[2] = 23; },
        "desc.destinations[2] is 23; it must be at least 0 and below desc.nodes, 23"}});
}

TEST_CASE("descriptors of graphs that differ between ranks") {
  if (ranks() == 1) return;
  check_refused<GraphCall>(
      {{[](GraphCall& c) { c.graph.nodes = 24; }, differs("desc.nodes", "24", "23")},
       {[](GraphCall& c) { c.graph.duplicates = 1; }, differs("desc.duplicates", "1", "2")},
       {[](GraphCall& c) { c.graph.owners = first_owner; },
        differs("desc.owners != NULL", "1", "0")},
       {[](GraphCall& c) { c.attention.softcap = 2; }, differs("desc.softcap", "2", "0")},
       {[](GraphCall& c) { c.attention.scale = 0.5; }, differs("desc.scale", "0.5", "0")},
       {[](GraphCall& c) { c.attention.score = 2; }, differs("desc.score", "2", "0")},
       {[](GraphCall& c) { c.attention.steps = 2; }, differs("desc.steps", "2", "1")},
       {[](GraphCall& c) { c.attention.dropout = 0.5; }, differs("desc.dropout", "0.5", "0")},
       {[](GraphCall& c) { c.attention.out.dtype = HEED_DTYPE_BF16; },
        differs("desc.out.dtype", "3", "1")}});
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
  check_refused<GraphCall>(
      {{[](GraphCall& c) { c.plan_context = nullptr; }, "context is NULL"},
       {[](GraphCall& c) { c.attention.dropout = 1; },
        "desc.dropout is 1; it must be at least 0 and less than 1"},
       {[](GraphCall& c) { c.args.dropout_seed = 1; },
        "args.dropout_seed is 1; it must be 0 with desc.dropout 0"},
       {[](GraphCall& c) { c.args.dropout_edges = positions; },
        "args.dropout_edges is given, which is not supported over ranks: edges have the numbers "
        "that heed_mpi_graph_edges gives",
        kUnsupported},
       {[](GraphCall& c) { c.attention.heads = 0; }, "desc.heads is 0; it must be 1 to 2^40"},
       {[](GraphCall& c) { c.args.data = nullptr; }, "args.data is NULL; its tensor has elements"},
       {[](GraphCall& c) { c.args.reserved = 1; }, "args.reserved is 1; it must be 0"}});
}

TEMPLATE_TEST_CASE("seeds of dropout that differ between ranks", "", Call, GraphCall) {
  if (ranks() == 1) return;
  TestType call;
  call.attention.dropout = 0.5;
  call.args.dropout_seed = rank() == ranks() - 1 ? UINT64_MAX : 7;
  CHECK(refusal_of(call) == "rank " + std::to_string(ranks() - 1) + ": " +
                                differs("args.dropout_seed", "18446744073709551615", "7"));
  call.args.dropout_seed = 7;
  call.args.dropout_offset = rank() == ranks() - 1 ? 3 : 0;
  CHECK(refusal_of(call) ==
        "rank " + std::to_string(ranks() - 1) + ": " + differs("args.dropout_offset", "3", "0"));
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

// ---- Ranks alone -------------------------------------------------------------------------------

TEMPLATE_TEST_CASE("a rank that runs out of memory", "", Call, GradientCall, GraphCall) {
  TestType call;
  check_out_of_memory([&](const heed_context* context) { return call.run_in(context); });
}

TEST_CASE("a rank whose executor fails in the midst of a run") {
  const std::int64_t length = std::int64_t{200} * ranks();  // enough for every rank to share
  Problem whole({length, length, 64, 64, 1, 4, 4});
  whole.fill(3);
  Shard shard(whole, even_split(HEED_MPI_CONTIGUOUS, length, length));
  const heed_mpi_attention_desc desc = shard.desc();
  const heed_attention_args args = shard.problem.args();
  shard.problem.out.clear();
  check_failing_executor([&](const heed_context* context) {
    return heed_mpi_attention(MPI_COMM_WORLD, context, &desc, &args);
  });
  CHECK(untouched(shard.problem.out));

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
  CHECK(message == "rank " + std::to_string(ranks() - 1) +
                       ": this is not the thread that initialised MPI; with MPI_THREAD_FUNNELED it "
                       "must be");
}
