#include "tests/mpi/backward_ranks.hpp"

namespace heed_test {
namespace {

/// Whether all ranks have these bits.
bool same_on_all_ranks(const Numbers& numbers) {
  std::string bits;
  for (const std::uint64_t b : numbers.bits) bits += std::to_string(b) + " ";
  return same_everywhere(bits);
}

}  // namespace

BackwardShard::BackwardShard(BackwardProblem& whole, const Split& split)
    : attention(whole.forward, split),
      problem(attention.problem, 1, {whole.grad_out.dtype(), own_arrangement(5), 1}) {
  const std::vector<std::int64_t>& rows = attention.query_positions();
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

/// Sums over ranks are sums in some order, whose terms are those of one process; each has been
/// multiplied with its factor before it is added instead of after, one rounding, of the three that
/// the oracle allows to its terms and a run here does not make (oracle/gradient.hpp). What is 0
/// outside a rank's keys adds nothing. So the bounds of one process hold.
void check_backward_ranks(BackwardProblem& whole, const ExpectedGradients& want,
                          BackwardShard& shard, std::int64_t head_ranks, bool same_bits,
                          Unspecified unspecified) {
  INFO(shard.attention.line(head_ranks) << line_of(whole));
  const Gradients got = shard.run(plain_context(), head_ranks);
  if (again_with_threads())
    CHECK(heed_test::same_bits(got, shard.run(threaded_context(), head_ranks)));
  ExpectedGradients part;
  for (const GradientOf of : all_gradients())
    part[of] = shard.part_of(of, want.on(isa_names().back())[of]);
  const GradientComparison comparison =
      compare_gradients("gradients", shard.problem, got, part, unspecified);
  if (!comparison.wrong.empty()) FAIL_CHECK(comparison.wrong);
  for (const GradientOf of : {kGradSinks, kGradSlopes, kGradScale, kGradTemperature})
    CHECK(same_on_all_ranks(got[of]));
  if (shard.attention.split().everywhere) CHECK(same_on_all_ranks(got[kGradQuery]));
  if (shard.attention.split().everywhere ||
      (whole.forward.bias && whole.forward.bias->shape()[2] == 1))
    CHECK(same_on_all_ranks(got[kGradBias]));
  if (!same_bits) return;
  const Gradients alone = whole.run(plain_context());
  for (const GradientOf of : {kGradQuery, kGradKey, kGradValue})
    CHECK(same_numbers(got[of], {alone[of].dtype, shard.part_of(of, alone[of].bits)}));
}

}  // namespace heed_test
