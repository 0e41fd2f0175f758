// What plans say: placements, choices, what is sent and computed.
#include "tests/mpi/ranks.hpp"

using namespace heed_test;

namespace {

using MpiPlan = Owned<heed_mpi_attention_plan>;
using GradientPlan = Owned<heed_mpi_attention_backward_plan>;

/// Of so many rows on every rank, float32, B 1, D 64.
struct Asked {
  std::int64_t rows;
  std::int64_t query_heads, key_heads;
  std::uint32_t causal = HEED_CAUSAL_NONE;
  std::uint32_t placement = HEED_MPI_CONTIGUOUS;
  std::int64_t head_ranks = 0;
  std::int64_t window_left = -1;
  double flops_per_byte = 0;
};

struct Desc {
  explicit Desc(const Asked& asked) {
    attention.batch = 1;
    attention.query_heads = asked.query_heads;
    attention.key_heads = asked.key_heads;
    attention.query_length = attention.key_length = asked.rows;
    attention.features = 64;
    attention.causal = asked.causal;
    attention.window = asked.window_left >= 0 ? 1 : 0;
    attention.window_left = attention.window != 0 ? asked.window_left : 0;
    over.attention = &attention;
    over.placement = asked.placement;
    over.head_ranks = asked.head_ranks;
    over.flops_per_byte = asked.flops_per_byte;
  }
  Desc(const Desc&) = delete;
  Desc& operator=(const Desc&) = delete;

  heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
  heed_mpi_attention_desc over = HEED_MPI_ATTENTION_DESC_INIT;
};

MpiPlan plan_of(const Asked& asked) {
  const Desc desc(asked);
  return create_on_ranks<heed_mpi_attention_plan>(MPI_COMM_WORLD, plain_context().get(),
                                                  &desc.over);
}

GradientPlan plan_of(const Asked& asked, std::uint32_t gradients) {
  const Desc attention(asked);
  heed_mpi_attention_backward_desc desc = HEED_MPI_ATTENTION_BACKWARD_DESC_INIT;
  desc.attention = &attention.over;
  desc.gradients = gradients;
  return create_on_ranks<heed_mpi_attention_backward_plan>(MPI_COMM_WORLD, plain_context().get(),
                                                           &desc);
}

std::vector<heed_mpi_choice> choices_of(const MpiPlan& plan) {
  std::vector<heed_mpi_choice> choices(describe(plan).choices, HEED_MPI_CHOICE_INIT);
  for (std::uint32_t i = 0; i < choices.size(); ++i)
    CHECK(heed_mpi_attention_plan_choice(plan.get(), i, &choices[i]) == HEED_STATUS_OK);
  return choices;
}

double sum_over_ranks(double x) {
  double sum = 0;
  MPI_Allreduce(&x, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

double largest_over_ranks(double x) {
  double most = 0;
  MPI_Allreduce(&x, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return most;
}

constexpr double kPerPair = 4 * 64;                 // flops, per head
constexpr double kPerRow = 2 * 64 * sizeof(float);  // bytes, per key head
constexpr double kOfThreads = 2 << 20;  // scratch of a few, more where tiles are multiplied

}  // namespace

TEST_CASE("placements by hand") {
  const auto rows = [](std::uint32_t placement, std::int64_t length, int ranks, int rank) {
    heed_mpi_rows rows[2];
    CHECK(heed_mpi_place(placement, length, ranks, rank, rows) == HEED_STATUS_OK);
    return std::vector<std::int64_t>{rows[0].begin, rows[0].count, rows[1].begin, rows[1].count};
  };
  using Rows = std::vector<std::int64_t>;
  CHECK(rows(HEED_MPI_CONTIGUOUS, 10, 3, 0) == Rows{0, 4, 0, 0});
  CHECK(rows(HEED_MPI_CONTIGUOUS, 10, 3, 2) == Rows{7, 3, 0, 0});
  CHECK(rows(HEED_MPI_ZIGZAG, 10, 2, 0) == Rows{0, 3, 8, 2});
  CHECK(rows(HEED_MPI_ZIGZAG, 10, 2, 1) == Rows{3, 3, 6, 2});
  CHECK(rows(HEED_MPI_ZIGZAG, 1, 3, 2) == Rows{1, 0, 1, 0});

  heed_mpi_rows out[2];
  check_said(heed_mpi_place(HEED_MPI_POSITIONS, 1, 1, 0, out),
             "placement is 2; it must be HEED_MPI_CONTIGUOUS (0) or HEED_MPI_ZIGZAG (1)");
  check_said(heed_mpi_place(0, -1, 1, 0, out), "length is -1; it must be 0 to 2^40");
  check_said(heed_mpi_place(0, 1, 0, 0, out), "ranks is 0; it must be at least 1");
  check_said(heed_mpi_place(0, 1, 2, 2, out), "rank is 2; it must be 0 to ranks - 1");
  check_said(heed_mpi_place(0, 1, 1, 0, nullptr), "rows is NULL");
}

TEST_CASE("without positions every rank computes with every shard, which goes all the way") {
  const MpiPlan plan = plan_of({100, 4, 2, HEED_CAUSAL_NONE, HEED_MPI_CONTIGUOUS, 1});
  const heed_mpi_attention_info info = describe(plan);
  const double n = ranks();
  CHECK(info.strategy == std::string("ring"));
  CHECK(info.ranks == ranks());
  CHECK(info.rank == rank());
  CHECK(info.rounds == ranks());
  CHECK(info.flops == 100 * 100 * n * 4 * kPerPair);
  CHECK(info.bytes == (n - 1) * 100 * 2 * kPerRow);
}

TEST_CASE("causal: what attends nothing is neither sent on nor computed") {
  const MpiPlan plan = plan_of({100, 1, 1, HEED_CAUSAL_TOP_LEFT, HEED_MPI_CONTIGUOUS, 1});
  const heed_mpi_attention_info info = describe(plan);
  CHECK(info.rounds == rank() + 1);
  CHECK(info.flops == (100.0 * 100 * rank() + 100 * 101 / 2) * kPerPair);
  // The last rank gets all shards and sends none; the others pass on what they have had so far.
  CHECK(info.bytes == (rank() == ranks() - 1 ? 0 : (rank() + 1) * 100 * kPerRow));
}

TEST_CASE("a window shorter than a shard goes to the next rank alone") {
  const MpiPlan plan = plan_of({100, 1, 1, HEED_CAUSAL_TOP_LEFT, HEED_MPI_CONTIGUOUS, 1, 50});
  const heed_mpi_attention_info info = describe(plan);
  CHECK(info.bytes == (rank() == ranks() - 1 ? 0 : 100 * kPerRow));
  CHECK(info.rounds == (rank() == 0 ? 1 : 2));
}

TEST_CASE("zigzag balances causal attention") {
  const MpiPlan plan = plan_of({1000, 1, 1, HEED_CAUSAL_TOP_LEFT, HEED_MPI_ZIGZAG, 1});
  const double flops = describe(plan).flops;
  const double total = 1000.0 * ranks();
  CHECK(sum_over_ranks(flops) == total * (total + 1) / 2 * kPerPair);
  CHECK(largest_over_ranks(flops) * ranks() <= sum_over_ranks(flops) * 1.01);
}

TEST_CASE("choices say what they cost, and the cheapest is taken") {
  const MpiPlan plan = plan_of({100, 12, 12});
  const std::vector<heed_mpi_choice> choices = choices_of(plan);
  const double n = ranks();
  std::size_t count = 0;
  double least = choices.front().cost;
  for (const heed_mpi_choice& c : choices) {
    const double share = 1 - 1.0 / static_cast<double>(c.head_ranks);
    CHECK(ranks() % c.head_ranks == 0);
    CHECK(12 % c.head_ranks == 0);
    CHECK(c.flops == Approx(100 * 100 * n * 12 * kPerPair));
    CHECK(c.ring_bytes == Approx((n / static_cast<double>(c.head_ranks) - 1) * 100 * 12 * kPerRow));
    CHECK(c.heads_bytes == Approx(share * 100 * 12 * (2 * kPerRow + sizeof(double))));
    CHECK(c.cost == Approx(std::max(c.flops, 160 * c.ring_bytes) + 160 * c.heads_bytes));
    least = std::min(least, c.cost);
    count += c.chosen;
    if (c.chosen != 0) {
      CHECK(c.cost == least);
      CHECK(describe(plan).head_ranks == c.head_ranks);
    }
  }
  CHECK(count == 1);
  // A slow network: the fewest bytes; a fast one: nothing but the ring, which costs no more flops.
  const auto chosen = [](double flops_per_byte) {
    return describe(
               plan_of({100, 12, 12, HEED_CAUSAL_NONE, HEED_MPI_CONTIGUOUS, 0, -1, flops_per_byte}))
        .head_ranks;
  };
  CHECK(chosen(1e-3) == 1);
  if (ranks() == 4) CHECK(chosen(1e9) == 4);
  // Causal in order of ranks leaves the first ones idle; heads keep all busy.
  if (ranks() > 1 && 12 % ranks() == 0)
    CHECK(describe(plan_of({100, 12, 12, HEED_CAUSAL_TOP_LEFT, HEED_MPI_CONTIGUOUS, 0, -1, 1e-3}))
              .strategy == std::string("heads"));
}

TEST_CASE("a ring needs two shards of keys and values, and results in the arithmetic's type") {
  // Placed zigzag, lower chunks go up, higher ones down: a rank holds half a shard of each.
  for (const auto& [causal, placement] : {std::pair(HEED_CAUSAL_NONE, HEED_MPI_CONTIGUOUS),
                                          {HEED_CAUSAL_TOP_LEFT, HEED_MPI_ZIGZAG}}) {
    const MpiPlan plan = plan_of({2000, 2, 1, causal, placement, 1});
    const std::size_t bytes = describe(plan).workspace_bytes;
    const double shards = ranks() == 1 ? 0 : 2 * 2000 * kPerRow;
    const double results = 2 * 2000 * (64 * sizeof(float) + sizeof(double));
    const double slice = 2 * 1000 * (64 * sizeof(float) + sizeof(double));
    CHECK(static_cast<double>(bytes) <= shards + results + slice + kOfThreads);
    CHECK(largest_over_ranks(static_cast<double>(bytes)) >= shards + results);
  }
}

TEST_CASE("a message that is larger than MPI counts") {
  if (ranks() == 1) return;
  // 2^40 bytes of keys and values on every rank, of which none is read before a run.
  CHECK_THROWS_WITH(
      plan_of({1 << 20, 2048, 2048, HEED_CAUSAL_NONE, HEED_MPI_CONTIGUOUS, 1}),
      "rank 0: a message would have 1099511627776 bytes; it may have 137438953408 at most");
}

TEST_CASE("the latest run is timed") {
  const MpiPlan plan = plan_of({300, 1, 1});
  const auto times_of = [&] {
    heed_mpi_times times = HEED_MPI_TIMES_INIT;
    CHECK(heed_mpi_attention_plan_times(plan.get(), &times) == HEED_STATUS_OK);
    return times;
  };
  const heed_mpi_times before = times_of();
  CHECK((before.run == 0 && before.compute == 0 && before.wait == 0));
  const std::vector<float> rows(300 * 64, 0.5F);
  std::vector<float> out(rows.size());
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = args.key = args.value = rows.data();
  args.out = out.data();
  Workspace workspace(describe(plan).workspace_bytes);
  const double start = MPI_Wtime();
  CHECK(heed_mpi_attention_plan_run(plan.get(), &args, workspace.get(), workspace.bytes()) ==
        HEED_STATUS_OK);
  const double passed = MPI_Wtime() - start;
  const heed_mpi_times after = times_of();
  CHECK(after.compute > 0);
  CHECK(after.wait > 0);
  CHECK(after.run >= after.compute + after.wait);
  CHECK(after.run < passed + 1e-3);
}

TEST_CASE("what gradients send and compute") {
  const double n = ranks();
  const double row = 2 * kPerRow;  // of 2 key heads
  const GradientPlan plan = plan_of({100, 4, 2, HEED_CAUSAL_NONE, HEED_MPI_CONTIGUOUS, 1}, 0);
  const heed_mpi_attention_info all = describe(plan);
  CHECK(all.strategy == std::string("ring"));
  CHECK(all.rounds == ranks());
  CHECK(all.flops == 100 * 100 * n * 4 * 10 * 64);
  CHECK(all.bytes == (n - 1) * 100 * 2 * row);  // keys and values come, and their gradients go
  heed_mpi_choice choice = HEED_MPI_CHOICE_INIT;
  CHECK(heed_mpi_attention_backward_plan_choice(plan.get(), 0, &choice) == HEED_STATUS_OK);
  CHECK(choice.flops == all.flops);
  CHECK(choice.ring_bytes == all.bytes);
  const auto bytes = [](std::uint32_t gradients, std::uint32_t causal) {
    return describe(plan_of({100, 4, 2, causal, HEED_MPI_CONTIGUOUS, 1}, gradients)).bytes;
  };
  CHECK(bytes(HEED_MPI_GRAD_QUERY, HEED_CAUSAL_NONE) == (n - 1) * 100 * row);
  CHECK(bytes(HEED_MPI_GRAD_VALUE, HEED_CAUSAL_NONE) == (n - 1) * 100 * 1.5 * row);
  // Shards go on to ranks above, and a gradient comes back of each that was there.
  const double sent = rank() == ranks() - 1 ? 0 : (rank() + 1) * 100 * row;
  CHECK(bytes(0, HEED_CAUSAL_TOP_LEFT) == sent + rank() * 100 * row);
}

TEST_CASE("what is asked of plans") {
  const auto check = [](auto* plan, auto tell_times, auto describe, auto tell_choice,
                        auto tell_workspace) {
    heed_mpi_attention_info info = HEED_MPI_ATTENTION_INFO_INIT;
    heed_mpi_choice choice = HEED_MPI_CHOICE_INIT;
    heed_mpi_times times = HEED_MPI_TIMES_INIT;
    check_said(tell_times(nullptr, &times), "plan is NULL");
    check_said(tell_times(plan, nullptr), "times is NULL");
    check_said(describe(nullptr, &info), "plan is NULL");
    check_said(tell_choice(plan, 1, &choice), "index is 1; it must be below info.choices, 1");
    times.run = 1;
    CHECK(tell_times(plan, &times) == HEED_STATUS_OK);
    CHECK(times.run == 0);  // none has gone well
    std::size_t bytes = 0;
    CHECK(describe(plan, &info) == HEED_STATUS_OK);
    CHECK(tell_workspace(plan, &bytes) == HEED_STATUS_OK);
    CHECK(bytes == info.workspace_bytes);
  };
  const MpiPlan plan = plan_of({10, 1, 1, HEED_CAUSAL_NONE, HEED_MPI_CONTIGUOUS, 1});
  const GradientPlan gradients =
      plan_of({10, 1, 1, HEED_CAUSAL_NONE, HEED_MPI_CONTIGUOUS, 1}, HEED_MPI_GRAD_QUERY);
  const heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  CHECK(heed_mpi_attention_plan_run(plan.get(), &args, nullptr, 0) ==
        HEED_STATUS_INVALID_WORKSPACE);
  CHECK(std::string(heed_mpi_last_error()).find("rank 0: workspace_bytes is 0; this plan needs") ==
        0);
  check(plan.get(), heed_mpi_attention_plan_times, heed_mpi_attention_plan_describe,
        heed_mpi_attention_plan_choice, heed_mpi_attention_plan_workspace);
  check(gradients.get(), heed_mpi_attention_backward_plan_times,
        heed_mpi_attention_backward_plan_describe, heed_mpi_attention_backward_plan_choice,
        heed_mpi_attention_backward_plan_workspace);
  const heed_attention_backward_args none = HEED_ATTENTION_BACKWARD_ARGS_INIT;
  check_said(heed_mpi_attention_backward_plan_run(gradients.get(), &none, nullptr, 0),
             "rank 0: args.attention is NULL");
  heed_mpi_attention_backward_plan_destroy(nullptr);
}
