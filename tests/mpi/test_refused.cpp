// What one rank alone gets wrong, all ranks refuse, in the same words.
#include <numeric>
#include <thread>

#include "tests/mpi/refused.hpp"

using namespace heed_test;

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

}  // namespace

TEST_CASE("an empty batch has no tensors") {
  Call call;
  call.attention.batch = 0;
  CHECK(call.run() == HEED_STATUS_INVALID_ARGUMENT);
  CHECK(std::string(heed_mpi_last_error()) ==
        "rank 0: args.query is given, but batch is 0; a tensor without elements must be NULL");
  call.args.query = call.args.key = call.args.value = nullptr;
  call.args.out = nullptr;
  const heed_status status = call.run();
  INFO(heed_mpi_last_error());
  CHECK(status == HEED_STATUS_OK);
  CHECK(call.untouched());
}

TEST_CASE("what one rank alone gets wrong in its descriptor") {
  constexpr auto kInvalid = HEED_STATUS_INVALID_ARGUMENT;
  constexpr auto kUnsupported = HEED_STATUS_UNSUPPORTED;
  const Refusal<Call> refusals[] = {
      {"no context", [](Call& c) { c.context = nullptr; }, kInvalid, "context is NULL"},
      {"no attention", [](Call& c) { c.desc.attention = nullptr; }, kInvalid,
       "desc.attention is NULL"},
      {"struct size", [](Call& c) { c.desc.struct_size = 5; }, kInvalid,
       "desc.struct_size is 5; initialise the struct with its _INIT macro"},
      {"placement", [](Call& c) { c.desc.placement = 3; }, kInvalid,
       "desc.placement is 3; it must be a heed_mpi_placement, 0 to 2"},
      {"queries", [](Call& c) { c.desc.queries = 2; }, kInvalid,
       "desc.queries is 2; it must be a heed_mpi_queries, 0 to 1"},
      {"tensors", [](Call& c) { c.desc.tensors = 32; }, kInvalid,
       "desc.tensors is 32; it must be heed_mpi_tensors, or-ed, 0 to 31"},
      {"head ranks", [](Call& c) { c.desc.head_ranks = -1; }, kInvalid,
       "desc.head_ranks is -1; it must be at least 0"},
      {"flops per byte", [](Call& c) { c.desc.flops_per_byte = kNaN; }, kInvalid,
       "desc.flops_per_byte is nan; it must be finite and above 0, or 0 for the default"},
      {"positions without the placement", [](Call& c) { c.desc.key_positions = positions; },
       kInvalid,
       "desc.key_positions is given with desc.placement 0; it must be NULL unless that is "
       "HEED_MPI_POSITIONS (2)"},
      {"the placement without positions", [](Call& c) { c.desc.placement = HEED_MPI_POSITIONS; },
       kInvalid, "desc.query_positions is NULL with desc.placement HEED_MPI_POSITIONS (2)"},
      {"query positions of all ranks",
       [](Call& c) {
         c.desc.queries = HEED_MPI_QUERIES_EVERYWHERE;
         c.desc.query_positions = positions;
       },
       kInvalid, "desc.query_positions is given; it must be NULL with HEED_MPI_QUERIES_EVERYWHERE"},
      {"packed", [](Call& c) { c.attention.packed_keys = 4; }, kUnsupported,
       "desc.packed_keys is 4; over ranks it must be 0, and desc.sequences says that a batch is "
       "packed"},
      {"packed queries", [](Call& c) { c.attention.packed_queries = 4; }, kUnsupported,
       "desc.packed_queries is 4; over ranks it must be 0, and desc.sequences says that a batch is "
       "packed"},
      {"sequences", [](Call& c) { c.desc.sequences = -1; }, kInvalid,
       "desc.sequences is -1; it must be 0 to 1073741824"},
      {"sequences that begin nowhere", [](Call& c) { c.desc.sequences = 2; }, kInvalid,
       "desc.cu_seqlens_q is NULL with desc.sequences 2"},
      {"beginnings of no sequences", [](Call& c) { c.desc.cu_seqlens_k = begins; }, kInvalid,
       "desc.cu_seqlens_k is given with desc.sequences 0"},
      {"sequences that begin late",
       [](Call& c) {
         c.pack();
         c.desc.cu_seqlens_q = begins + 1;
       },
       kInvalid, "desc.cu_seqlens_q[0] is 20; it must be 0"},
      {"sequences that end before they begin",
       [](Call& c) {
         c.pack();
         c.desc.sequences = 3;
       },
       kInvalid, "desc.cu_seqlens_q[3] is 5; it must be at least 23"},
      {"a batch of packed batches",
       [](Call& c) {
         c.pack();
         c.attention.batch = 2;
       },
       kInvalid, "desc.batch is 2 with desc.sequences 2; a packed batch has a batch of 1"},
      {"a stride alone", [](Call& c) { c.attention.query = {0, 0, 0, 0, 8, 0}; }, kInvalid,
       "desc.query.stride_feature is 0 beside other strides; it must be given with them, unless "
       "desc.query.reserved is HEED_STRIDES_EXPLICIT (1), which lets it repeat elements"},
      {"pages", [](Call& c) { c.attention.pages = 4; }, kUnsupported,
       "a cache in pages (desc.pages) is not supported over ranks"},
      {"8-bit keys", [](Call& c) { c.attention.key.dtype = HEED_DTYPE_I8; }, kUnsupported,
       "a key of 8 bits (desc.key.dtype) is not supported over ranks"},
      {"8-bit values", [](Call& c) { c.attention.value.dtype = HEED_DTYPE_F8_E4M3; }, kUnsupported,
       "a value of 8 bits (desc.value.dtype) is not supported over ranks"},
      {"hard", [](Call& c) { c.attention.hard = 1; }, kUnsupported,
       "hard attention (desc.hard), which has no log-sum-exp to merge by, is not supported over "
       "ranks"},
      {"weights", [](Call& c) { c.attention.weights_point = HEED_WEIGHTS_SCORES; }, kUnsupported,
       "an output of weights (desc.weights_point) is not supported over ranks"},
      {"column sums", [](Call& c) { c.attention.sum_columns = 1; }, kUnsupported,
       "an output of column sums (desc.sum_columns) is not supported over ranks"},
      {"bottom right and lengths",
       [](Call& c) {
         c.attention.causal = HEED_CAUSAL_BOTTOM_RIGHT;
         c.desc.tensors = HEED_MPI_KEY_LENGTHS;
       },
       kUnsupported,
       "bottom-right alignment with HEED_MPI_KEY_LENGTHS, an offset for each sequence, is not "
       "supported over ranks"},
      {"what heed.h refuses", [](Call& c) { c.attention.softcap = -1; }, kInvalid,
       "desc.softcap is -1; it must be finite and at least 0"},
      {"a workspace that overflows", [](Call& c) { c.attention.features = INT64_MAX; }, kInvalid,
       "desc.features is 9223372036854775807; it must be 1 to 1099511627776"},
  };
  for (const Refusal<Call>& refusal : refusals) check_refusal(refusal);
}

TEST_CASE("fields that differ between ranks") {
  if (ranks() == 1) return;
  constexpr auto kInvalid = HEED_STATUS_INVALID_ARGUMENT;
  const Refusal<Call> refusals[] = {
      {"softcap", [](Call& c) { c.attention.softcap = 0.1; }, kInvalid,
       "desc.softcap is 0.10000000000000001; on rank 0 it is 0, and must be the same"},
      {"causal", [](Call& c) { c.attention.causal = HEED_CAUSAL_TOP_LEFT; }, kInvalid,
       "desc.causal is 1; on rank 0 it is 0, and must be the same"},
      {"window", [](Call& c) { c.attention.window = 1; }, kInvalid,
       "desc.window is 1; on rank 0 it is 0, and must be the same"},
      {"key heads", [](Call& c) { c.attention.key_heads = 4; }, kInvalid,
       "desc.key_heads is 4; on rank 0 it is 2, and must be the same"},
      {"type", [](Call& c) { c.attention.key.dtype = HEED_DTYPE_BF16; }, kInvalid,
       "desc.key.dtype is 3; on rank 0 it is 1, and must be the same"},
      {"placement", [](Call& c) { c.desc.placement = HEED_MPI_ZIGZAG; }, kInvalid,
       "desc.placement is 1; on rank 0 it is 0, and must be the same"},
      {"tensors", [](Call& c) { c.desc.tensors = HEED_MPI_SINKS; }, kInvalid,
       "desc.tensors is 8; on rank 0 it is 0, and must be the same"},
      {"head ranks", [](Call& c) { c.desc.head_ranks = 2; }, kInvalid,
       "desc.head_ranks is 2; on rank 0 it is 0, and must be the same"},
  };
  for (const Refusal<Call>& refusal : refusals) check_refusal(refusal);
}

TEST_CASE("what one rank alone gets wrong in a run") {
  constexpr auto kInvalid = HEED_STATUS_INVALID_ARGUMENT;
  const Refusal<Call> refusals[] = {
      {"no query", [](Call& c) { c.args.query = nullptr; }, kInvalid,
       "args.query is NULL; its tensor has elements"},
      {"no out", [](Call& c) { c.args.out = nullptr; }, kInvalid,
       "args.out is NULL; its tensor has elements"},
      {"a mask that was not planned",
       [](Call& c) { c.args.mask = reinterpret_cast<const std::uint8_t*>(positions); }, kInvalid,
       "args.mask is given; desc.tensors of the plan lacks HEED_MPI_MASK (1)"},
      {"key lengths that were not planned",
       [](Call& c) {
         static constexpr std::int32_t kLengths[] = {1};
         c.args.key_lengths = kLengths;
       },
       kInvalid,
       "args.key_lengths is given; desc.tensors of the plan lacks HEED_MPI_KEY_LENGTHS (16)"},
      {"a score function",
       [](Call& c) { c.args.score_function = [](void*, const heed_score_tile*) {}; },
       HEED_STATUS_UNSUPPORTED, "args.score_function is given, which is not supported over ranks"},
      {"reserved", [](Call& c) { c.args.reserved = 1; }, kInvalid,
       "args.reserved is 1; it must be 0"},
  };
  for (const Refusal<Call>& refusal : refusals) check_refusal(refusal);
}

TEST_CASE("what ranks cannot be split by") {
  const auto refused = [](std::int64_t head_ranks, std::uint32_t tensors, std::uint32_t queries) {
    Problem whole({kLength, kLength, 8, 8, 1, 12, 6});
    const Split split = queries != 0 ? everywhere(kLength, kLength)
                                     : even_split(HEED_MPI_CONTIGUOUS, kLength, kLength);
    Shard shard(whole, split);
    heed_mpi_attention_desc desc = shard.desc();
    desc.head_ranks = head_ranks;
    desc.tensors = tensors;
    heed_mpi_attention_plan* plan = nullptr;
    const heed_status status =
        heed_mpi_attention_plan_create(MPI_COMM_WORLD, plain_context().get(), &desc, &plan);
    CHECK(status != HEED_STATUS_OK);
    CHECK(plan == nullptr);
    return std::string(heed_mpi_last_error());
  };
  const std::string n = std::to_string(ranks());
  CHECK(refused(8, 0, 0) == "rank 0: desc.head_ranks is 8; it must divide the " + n + " ranks");
  CHECK(refused(8, 0, HEED_MPI_QUERIES_EVERYWHERE) ==
        "rank 0: desc.head_ranks is 8; with HEED_MPI_QUERIES_EVERYWHERE it must be 1");
  if (ranks() == 4 || ranks() == 7)
    CHECK(refused(ranks(), 0, 0) ==
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
    CHECK(call.run() == HEED_STATUS_INVALID_ARGUMENT);
    CHECK(same_everywhere(heed_mpi_last_error()));
    CHECK(call.untouched());
    return std::string(heed_mpi_last_error());
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
    CHECK(call.run() == HEED_STATUS_INVALID_ARGUMENT);
    CHECK(same_everywhere(heed_mpi_last_error()));
    CHECK(call.untouched());
    return std::string(heed_mpi_last_error());
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
        rank + "desc.cu_seqlens_k[1] is 8; on rank 0 it is 9, and must be the same");
  CHECK(refused(last ? std::vector<std::int32_t>{0, 23} : std::vector<std::int32_t>{0, 9, 23},
                {0, last ? 23 : 9, 23},
                0) == rank + "desc.sequences is 1; on rank 0 it is 2, and must be the same");
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
  heed_mpi_attention_plan* plan = nullptr;
  CHECK(heed_mpi_attention_plan_create(MPI_COMM_WORLD, plain_context().get(), &desc, &plan) ==
        HEED_STATUS_UNSUPPORTED);
  CHECK(heed_mpi_last_error() ==
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
    heed_mpi_attention_plan* plan = nullptr;
    CHECK(heed_mpi_attention_plan_create(MPI_COMM_WORLD, plain_context().get(), &desc, &plan) ==
          HEED_STATUS_INVALID_ARGUMENT);
    CHECK(same_everywhere(heed_mpi_last_error()));
    return std::string(heed_mpi_last_error());
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
  heed_mpi_attention_plan* plan = nullptr;
  CHECK(heed_mpi_attention_plan_create(MPI_COMM_WORLD, plain_context().get(), &desc, &plan) ==
        HEED_STATUS_UNSUPPORTED);
  CHECK(heed_mpi_last_error() ==
        std::string("rank 0: desc.key_positions has a gap or a jump before row 1024; a shard may "
                    "have 1024 spans of consecutive positions, and this would be one more"));
}

TEST_CASE("a rank that runs out of memory") {
  Problem whole({kLength, kLength, 8, 8, 1, 4, 2});
  whole.fill(2);
  Shard shard(whole, even_split(HEED_MPI_ZIGZAG, kLength, kLength));
  const heed_mpi_attention_desc desc = shard.desc();
  const heed_attention_args args = shard.problem.args();
  check_out_of_memory([&](const heed_context* context) {
    return heed_mpi_attention(MPI_COMM_WORLD, context, &desc, &args);
  });
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
}

TEST_CASE("a rank that calls from another thread than it may") {
  Problem whole({kLength, kLength, 8, 8, 1, 4, 2});
  whole.fill(1);
  Shard shard(whole, even_split(HEED_MPI_CONTIGUOUS, kLength, kLength));
  const heed_mpi_attention_desc desc = shard.desc();
  const heed_attention_args args = shard.problem.args();
  heed_status status = HEED_STATUS_OK;
  std::string message;
  const auto call = [&] {
    status = heed_mpi_attention(MPI_COMM_WORLD, plain_context().get(), &desc, &args);
    message = heed_mpi_last_error();
  };
  if (rank() == ranks() - 1)
    std::thread(call).join();
  else
    call();
  int level = 0;
  MPI_Query_thread(&level);
  if (level > MPI_THREAD_FUNNELED) return;
  CHECK(status == HEED_STATUS_INVALID_ARGUMENT);
  CHECK(message == "rank " + std::to_string(ranks() - 1) +
                       ": this is not the thread that initialised MPI; with MPI_THREAD_FUNNELED it "
                       "must be");
}

TEST_CASE("no communicator") {
  heed_mpi_attention_plan* plan = nullptr;
  const heed_mpi_attention_desc desc = HEED_MPI_ATTENTION_DESC_INIT;
  CHECK(heed_mpi_attention_plan_create(MPI_COMM_NULL, plain_context().get(), &desc, &plan) ==
        HEED_STATUS_INVALID_ARGUMENT);
  CHECK(heed_mpi_last_error() == std::string("communicator is MPI_COMM_NULL"));
  heed_mpi_attention_plan_destroy(nullptr);
}
