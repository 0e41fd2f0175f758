// Gradients over ranks: what one rank alone gets wrong, and plans.
#include "tests/mpi/backward_ranks.hpp"
#include "tests/mpi/refused.hpp"

using namespace heed_test;

namespace {

constexpr std::int64_t kLength = 23;

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
struct Call {
  explicit Call(BackwardProblem problem = good())
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
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  heed_status run() { return heed_mpi_attention_backward(MPI_COMM_WORLD, context, &desc, &args); }
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

constexpr auto kInvalid = HEED_STATUS_INVALID_ARGUMENT;
constexpr auto kUnsupported = HEED_STATUS_UNSUPPORTED;

}  // namespace

TEST_CASE("what one rank alone gets wrong in its descriptor of gradients") {
  const Refusal<Call> refusals[] = {
      {"no context", [](Call& c) { c.context = nullptr; }, kInvalid, "context is NULL"},
      {"no attention", [](Call& c) { c.desc.attention = nullptr; }, kInvalid,
       "desc.attention is NULL"},
      {"no attention inside", [](Call& c) { c.over.attention = nullptr; }, kInvalid,
       "desc.attention->attention is NULL"},
      {"struct size", [](Call& c) { c.desc.struct_size = 5; }, kInvalid,
       "desc.struct_size is 5; initialise the struct with its _INIT macro"},
      {"accumulate", [](Call& c) { c.desc.accumulate = 2; }, kInvalid,
       "desc.accumulate is 2; it must be a switch, 0 to 1"},
      {"gradients", [](Call& c) { c.desc.gradients = 256; }, kInvalid,
       "desc.gradients is 256; it must be heed_mpi_gradients, or-ed, 0 to 255"},
      {"reserved", [](Call& c) { c.desc.reserved = 1; }, kInvalid,
       "desc.reserved is 1; it must be 0"},
      {"the gradient of a bias that is not there", [](Call& c) { c.over.tensors = HEED_MPI_SINKS; },
       kInvalid, "desc.gradients has HEED_MPI_GRAD_BIAS (8); desc.tensors lacks HEED_MPI_BIAS (2)"},
      {"of sinks that are not there", [](Call& c) { c.over.tensors = HEED_MPI_BIAS; }, kInvalid,
       "desc.gradients has HEED_MPI_GRAD_SINKS (16); desc.tensors lacks HEED_MPI_SINKS (8)"},
      {"of slopes that are not there",
       [](Call& c) { c.desc.gradients = HEED_MPI_GRAD_ALIBI_SLOPES; }, kInvalid,
       "desc.gradients has HEED_MPI_GRAD_ALIBI_SLOPES (32); desc.tensors lacks "
       "HEED_MPI_ALIBI_SLOPES (4)"},
      {"the type of a gradient", [](Call& c) { c.desc.grad_key.dtype = HEED_DTYPE_F64; }, kInvalid,
       "desc.grad_key.dtype is 2; it must not be HEED_DTYPE_F64 (2), as query is"},
      {"the sizes of a bias's gradient", [](Call& c) { c.desc.grad_bias.keys = 5; }, kInvalid,
       "desc.grad_bias.keys is 5; it must be 23, as that of the bias is, or 0 (the same)"},
      {"what attention refuses", [](Call& c) { c.attention.softcap = -1; }, kInvalid,
       "desc.softcap is -1; it must be finite and at least 0"},
      {"what attention does not do over ranks", [](Call& c) { c.attention.hard = 1; }, kUnsupported,
       "hard attention (desc.hard), which has no log-sum-exp to merge by, is not supported over "
       "ranks"},
      {"packed", [](Call& c) { c.attention.packed_keys = 4; }, kUnsupported,
       "desc.packed_keys is 4; over ranks it must be 0, and desc.sequences says that a batch is "
       "packed"},
      {"sequences", [](Call& c) { c.over.sequences = 2; }, kInvalid,
       "desc.cu_seqlens_q is NULL with desc.sequences 2"},
      {"head ranks", [](Call& c) { c.over.head_ranks = 2; }, kInvalid,
       ranks() == 1 ? "desc.head_ranks is 2; it must divide the 1 ranks"
                    : "desc.head_ranks is 2; on rank 0 it is 0, and must be the same"},
  };
  for (const Refusal<Call>& refusal : refusals) check_refusal(refusal);
}

TEST_CASE("fields of gradients that differ between ranks") {
  if (ranks() == 1) return;
  const Refusal<Call> refusals[] = {
      {"accumulate", [](Call& c) { c.desc.accumulate = 1; }, kInvalid,
       "desc.accumulate is 1; on rank 0 it is 0, and must be the same"},
      {"gradients", [](Call& c) { c.desc.gradients = HEED_MPI_GRAD_QUERY; }, kInvalid,
       "desc.gradients is 1; on rank 0 it is 31, and must be the same"},
      {"the type of the gradient of out", [](Call& c) { c.desc.grad_out.dtype = HEED_DTYPE_BF16; },
       kInvalid, "desc.grad_out.dtype is 3; on rank 0 it is 1, and must be the same"},
      {"the type of the gradient of lse", [](Call& c) { c.desc.grad_lse.dtype = HEED_DTYPE_F64; },
       kInvalid, "desc.grad_lse.dtype is 2; on rank 0 it is 1, and must be the same"},
      {"the type of lse", [](Call& c) { c.attention.lse.dtype = HEED_DTYPE_F64; }, kInvalid,
       "desc.lse.dtype is 2; on rank 0 it is 1, and must be the same"},
      {"the heads of a bias", [](Call& c) { c.attention.bias.heads = 1; }, kInvalid,
       "desc.bias.heads is 1; on rank 0 it is 4, and must be the same"},
      {"softcap", [](Call& c) { c.attention.softcap = 0.5; }, kInvalid,
       "desc.softcap is 0.5; on rank 0 it is 0, and must be the same"},
  };
  for (const Refusal<Call>& refusal : refusals) check_refusal(refusal);
}

TEST_CASE("a bias that repeats over the queries of some ranks alone") {
  if (ranks() == 1) return;
  Call call;
  const bool last = rank() == ranks() - 1;
  if (last) call.attention.bias.rows = call.desc.grad_bias.rows = 0;
  CHECK(call.run() == HEED_STATUS_INVALID_ARGUMENT);
  const std::string rows = std::to_string((kLength + ranks() - 1) / ranks());
  CHECK(heed_mpi_last_error() == "rank 0: desc.bias.rows is 1 with desc.query_length " + rows +
                                     "; a bias that repeats over queries must do so on all ranks");
  CHECK(same_everywhere(heed_mpi_last_error()));
  CHECK(call.untouched());
}

TEST_CASE("what one rank alone gets wrong in a run of gradients") {
  const Refusal<Call> refusals[] = {
      {"no attention", [](Call& c) { c.args.attention = nullptr; }, kInvalid,
       "args.attention is NULL"},
      {"no key", [](Call& c) { c.inner.key = nullptr; }, kInvalid,
       "args.key is NULL; its tensor has elements"},
      {"no lse", [](Call& c) { c.inner.lse = nullptr; }, kInvalid,
       "args.lse is NULL; gradients need what heed_mpi_attention wrote there"},
      {"no gradient of out", [](Call& c) { c.args.grad_out = nullptr; }, kInvalid,
       "args.grad_out is NULL; its tensor has elements"},
      {"a gradient that was not planned",
       [](Call& c) { c.args.grad_scale = const_cast<void*>(c.inner.query); }, kInvalid,
       "args.grad_scale is given; desc.gradients of the plan lacks HEED_MPI_GRAD_SCALE (64)"},
      {"a mask that was not planned",
       [](Call& c) { c.inner.mask = static_cast<const std::uint8_t*>(c.inner.query); }, kInvalid,
       "args.mask is given; desc.tensors of the plan lacks HEED_MPI_MASK (1)"},
      {"the derivative of a score function",
       [](Call& c) { c.args.score_gradient = [](void*, const heed_score_tile*, void*) {}; },
       kUnsupported, "args.score_gradient is given, which is not supported over ranks"},
      {"reserved", [](Call& c) { c.args.reserved = 1; }, kInvalid,
       "args.reserved is 1; it must be 0"},
  };
  for (const Refusal<Call>& refusal : refusals) check_refusal(refusal);
}

TEST_CASE("gradients that some ranks do not want") {
  Call call;
  if (rank() > 0) call.args.grad_key = call.args.grad_bias = nullptr;
  CHECK(call.run() == HEED_STATUS_OK);
  const auto wrote = [&](GradientOf of) { return !untouched(*call.shard.problem.gradients[of]); };
  CHECK(wrote(kGradQuery));
  CHECK(wrote(kGradKey) == (rank() == 0));
  CHECK(wrote(kGradBias) == (rank() == 0));
}

TEST_CASE("gradients on a rank that runs out of memory, or whose executor fails") {
  {
    Call call;
    check_out_of_memory([&](const heed_context* context) {
      call.context = context;
      return call.run();
    });
  }
  Call call(good(std::int64_t{200} * ranks(), 64));  // enough for every rank to share
  check_failing_executor([&](const heed_context* context) {
    call.context = context;
    return call.run();
  });
  CHECK(call.untouched());
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
    heed_mpi_attention_backward_plan* plan = nullptr;
    CHECK(heed_mpi_attention_backward_plan_create(MPI_COMM_WORLD, plain_context().get(), &desc,
                                                  &plan) == HEED_STATUS_OK);
    heed_mpi_attention_info info = HEED_MPI_ATTENTION_INFO_INIT;
    CHECK(heed_mpi_attention_backward_plan_describe(plan, &info) == HEED_STATUS_OK);
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
    heed_mpi_attention_backward_plan_destroy(plan);
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
