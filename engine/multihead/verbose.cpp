#include "engine/dense/plan.hpp"
#include "engine/multihead/backward/plan.hpp"
#include "engine/multihead/multihead.hpp"
#include "engine/runtime/text.hpp"
#include "engine/tensor/heads.hpp"

namespace heed {

namespace {

struct Told {
  const char* what;
  const MultiheadProblem& problem;
  const heed_multihead_args& args;
  const char* kept;
  const heed_context& context;
  Precision precision;
  std::uint32_t workers;
  double flops;
};

void tell_run(const Told& run, double seconds) {
  const MultiheadProblem& p = run.problem;
  const Problem& a = p.attention;
  const heed_context& c = run.context;
  Text precision;
  if (run.precision != Precision::kExact) precision.add(" %s", name_of(run.precision));
  tell(
      "%s B%lld H%lld Hkv%lld Lq%lld Lkv%lld D%lld Dv%lld widths "
      "%lld,%lld->%lld %s%s%s, "
      "%s product, %s%s %s x%u, %.3f ms, %.1f GFLOP/s",
      run.what, static_cast<long long>(a.batch), static_cast<long long>(a.query_heads),
      static_cast<long long>(a.key_heads), static_cast<long long>(a.query_length),
      static_cast<long long>(a.key_length), static_cast<long long>(a.features),
      static_cast<long long>(a.value_features), static_cast<long long>(p.width_query),
      static_cast<long long>(p.width_key), static_cast<long long>(p.width_out), name_of(p.combine),
      options_of(a, read_attention_args(run.args)).c_str(), run.kept, name_of(c.backend),
      c.kernels->f32.isa, precision.c_str(), c.threads.name, run.workers, seconds * 1e3,
      seconds > 0 ? run.flops / seconds * 1e-9 : 0.0);
}

}  // namespace

void print_run(const heed_multihead_plan& plan, const heed_multihead_args& args,
               double seconds) noexcept {
  tell_run({"multihead", plan.problem, args, plan.problem.keep ? " kept" : "", *plan.context,
            plan.precision(), workers_of(plan), plan.projection_flops + plan.attention.flops},
           seconds);
}

void print_run(const heed_multihead_backward_plan& plan, const heed_multihead_backward_args& given,
               double seconds) noexcept {
  const MultiheadBackwardArgs args(given);
  tell_run({"multihead backward", plan.problem.block, args.block, plan.problem.kept ? " kept" : "",
            *plan.context, plan.block.precision(), workers_of(plan), flops_of(plan)},
           seconds);
}

}  // namespace heed
