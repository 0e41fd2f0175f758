#include "engine/multihead/verbose.hpp"

#include "engine/dense/verbose.hpp"
#include "engine/runtime/tell.hpp"
#include "engine/tensor/heads.hpp"

namespace heed {

void print_run(const heed_multihead_plan& plan, const heed_multihead_args& args,
               double seconds) noexcept {
  const MultiheadProblem& p = plan.problem;
  const Problem& a = p.attention;
  const heed_context& c = *plan.context;
  const double flops = plan.projection_flops + plan.attention.flops;
  tell(
      "multihead B%lld H%lld Hkv%lld Lq%lld Lkv%lld D%lld Dv%lld widths "
      "%lld,%lld->%lld %s%s, "
      "%s product, %s %s x%u, %.3f ms, %.1f GFLOP/s",
      static_cast<long long>(a.batch), static_cast<long long>(a.query_heads),
      static_cast<long long>(a.key_heads), static_cast<long long>(a.query_length),
      static_cast<long long>(a.key_length), static_cast<long long>(a.features),
      static_cast<long long>(a.value_features), static_cast<long long>(p.width_query),
      static_cast<long long>(p.width_key), static_cast<long long>(p.width_out), name_of(p.combine),
      options_of(a, read_attention_args(args)).c_str(), name_of(c.backend), c.kernels->f32.isa,
      c.threads.name, workers_of(plan), seconds * 1e3, seconds > 0 ? flops / seconds * 1e-9 : 0.0);
}

}  // namespace heed
