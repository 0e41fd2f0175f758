#include "engine/backward/numbers.hpp"

namespace heed {

template <class Real>
void write_numbers(const heed_attention_backward_plan& plan, const BackwardArgs& args,
                   const RowTerms* terms) {
  const Problem& p = plan.problem.attention;
  const heed_attention_backward_args& given = args.given;
  if (given.grad_sinks == nullptr && given.grad_alibi_slopes == nullptr &&
      given.grad_scale == nullptr && given.grad_temperature == nullptr)
    return;
  const auto write = [&](void* to, std::int64_t at, double gradient) {
    if (to == nullptr) return;
    Real& number = static_cast<Real*>(to)[at];
    number = static_cast<Real>(gradient + (plan.problem.accumulate ? double{number} : 0));
  };
  RowTerms all{};
  for (std::int64_t h = 0; h < p.query_heads; ++h) {
    RowTerms head{};
    for (std::int64_t b = 0; b < p.batch; ++b) {
      const RowTerms* const of = terms + (b * p.query_heads + h) * p.query_length;
      const std::int64_t rows = sequence_of(p, args.attention, b).query_length;
      for (std::int64_t i = 0; i < rows; ++i) {
        head.slope += of[i].slope;
        head.scale += of[i].scale;
        head.temperature += of[i].temperature;
        head.sink += of[i].sink;
      }
    }
    write(given.grad_sinks, h, head.sink);
    write(given.grad_alibi_slopes, h, head.slope / p.temperature);
    all.scale += head.scale;
    all.temperature += head.temperature;
  }
  write(given.grad_scale, 0, all.scale / p.temperature);
  write(given.grad_temperature, 0, -all.temperature / p.temperature);
}

template void write_numbers<float>(const heed_attention_backward_plan&, const BackwardArgs&,
                                   const RowTerms*);
template void write_numbers<double>(const heed_attention_backward_plan&, const BackwardArgs&,
                                    const RowTerms*);

}  // namespace heed
