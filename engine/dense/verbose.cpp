#include "engine/dense/verbose.hpp"

#include <cstdio>

namespace heed {

void print_run(const heed_attention_plan& plan, double seconds) noexcept {
  const Problem& p = plan.problem;
  const heed_context& c = *plan.context;
  char causal[48] = "";
  if (p.causal)
    std::snprintf(causal, sizeof causal, " causal%+lld", static_cast<long long>(p.causal_offset));
  std::fprintf(stderr,
               "heed: attention B%lld H%lld Hkv%lld Lq%lld Lkv%lld D%lld Dv%lld scale %.6g%s, "
               "%s %s x%u, tiles %lld x %lld, %lld tasks, %.3f ms, %.1f GFLOP/s\n",
               static_cast<long long>(p.batch), static_cast<long long>(p.query_heads),
               static_cast<long long>(p.key_heads), static_cast<long long>(p.query_length),
               static_cast<long long>(p.key_length), static_cast<long long>(p.features),
               static_cast<long long>(p.value_features), p.scale, causal, c.kernels->isa,
               c.executor_name, plan.workers, static_cast<long long>(plan.tile_q),
               static_cast<long long>(plan.tile_kv), static_cast<long long>(plan.tasks),
               seconds * 1e3, seconds > 0 ? plan.flops / seconds * 1e-9 : 0.0);
}

}  // namespace heed
