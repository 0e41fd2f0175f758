#include "tests/problem/attention_backward.hpp"

#include <stdexcept>

namespace heed_test {
bool in_sequence(GradientOf gradient, const Problem& p, std::int64_t i) {
  const bool of_key = gradient == kGradKey || gradient == kGradValue;
  if (!of_key && gradient != kGradQuery) return true;
  const std::vector<std::int32_t>& offsets = of_key ? p.cu_seqlens_k : p.cu_seqlens_q;
  return offsets.empty() || (i >= offsets.front() && i < offsets.back());
}

const char* name_of(GradientOf gradient) {
  constexpr const char* kNames[] = {"query",  "key",   "value",       "bias",         "sinks",
                                    "slopes", "scale", "temperature", "score_weights"};
  return kNames[gradient];
}

bool has_input_of(GradientOf gradient, const Problem& p) {
  if (gradient == kGradBias) return p.bias.has_value();
  if (gradient == kGradSinks) return !p.sinks.numbers.empty();
  if (gradient == kGradSlopes) return !p.slopes.numbers.empty();
  if (gradient == kGradScoreWeights) return !p.score_weights.numbers.empty();
  return true;
}

std::optional<LaidOut> laid_out(GradientOf gradient, heed_score_layout& grad_bias,
                                const heed_attention_desc& a, std::uint32_t real) {
  if (gradient == kGradBias) return LaidOut(grad_bias, a.bias, pairs_of(a), real, Use::kWritten);
  const auto numbers = [&](std::int64_t n) { return LaidOut(n, nullptr, real, Use::kWritten); };
  if (gradient == kGradScale || gradient == kGradTemperature) return numbers(1);
  if (gradient != kGradScoreWeights || a.score == HEED_SCORE_COSINE) return numbers(a.query_heads);
  if (a.score != HEED_SCORE_ADDITIVE) return std::nullopt;
  return numbers(a.query_heads * a.features);
}

LaidOutGradients<kGradients> laid_out(heed_attention_backward_desc& d) {
  const heed_attention_desc& a = *d.attention;
  const AttentionShapes s(a);
  const std::uint32_t real = real_dtype(a);
  const bool packed_q = a.packed_queries > 0;
  const bool packed_k = a.packed_keys > 0;
  LaidOutGradients<kGradients> all = {
      {d.grad_out, s.out, real, Use::kRead, packed_q},
      {d.grad_lse, {s.query[0], s.query[1], s.query[2], 1}, real, Use::kRead},
      {LaidOut(d.grad_query, s.query, real, Use::kWritten, packed_q),
       LaidOut(d.grad_key, s.key, real, Use::kWritten, packed_k),
       LaidOut(d.grad_value, s.value, real, Use::kWritten, packed_k)}};
  for (std::size_t of = kGradBias; of < kGradients; ++of)
    all.of[of] = laid_out(static_cast<GradientOf>(of), d.grad_bias, a, real);
  return all;
}

BackwardProblem::BackwardProblem(Problem problem, std::uint64_t seed, const Form& of_out)
    : GradientProblem(HEED_ATTENTION_BACKWARD_DESC_INIT), forward(std::move(problem)) {
  if (!forward.lse) forward.want_lse();
  give_grad_out(seed, of_out);
}

BackwardProblem::BackwardProblem(Problem problem, const heed_attention_backward_desc& desc)
    : GradientProblem(desc), forward(std::move(problem)) {}

LaidOutGradients<kGradients> BackwardProblem::laid_out() {
  desc();
  return heed_test::laid_out(desc_);
}

void BackwardProblem::attend_as_expected() {
  const Expected expected = forward.expected();
  const auto take = [](Tensor& to, const std::vector<Element>& from) {
    std::size_t n = 0;
    to.clear();
    to.each([&](const Axes& at) {
      if (from[n].written) to.set(at, from[n].value);
      ++n;
    });
  };
  take(forward.out, expected.out);
  take(*forward.lse, expected.lse);
}

const heed_attention_backward_desc& BackwardProblem::desc() {
  desc_.attention = &forward.desc;
  return desc_;
}

heed_attention_backward_args BackwardProblem::args() {
  heed_attention_backward_args args = HEED_ATTENTION_BACKWARD_ARGS_INIT;
  forward_args_ = forward.args();
  args.attention = &forward_args_;
  using Args = heed_attention_backward_args;
  give(args, {&Args::grad_query, &Args::grad_key, &Args::grad_value, &Args::grad_bias,
              &Args::grad_sinks, &Args::grad_alibi_slopes, &Args::grad_scale,
              &Args::grad_temperature, &Args::grad_score_weights});
  args.score_gradient = forward.function.gradient;
  return args;
}

ExpectedGradients BackwardProblem::expected() {
  begin();
  const heed_attention_args arguments = forward.args();
  const ScoreFunction& function = forward.function;
  return expect_gradients({forward.desc, arguments, function.model, function.derivative, given()});
}

Gradients BackwardProblem::run(const Context& context) {
  return run([&](const heed_attention_backward_args& arguments) {
    run_plan(make_plan(context, desc()), arguments);
    return HEED_STATUS_OK;
  });
}

Gradients BackwardProblem::run(
    const std::function<heed_status(const heed_attention_backward_args&)>& call) {
  begin();
  require_ok(call(args()));
  if (forward.tiles && forward.tiles->wrong)
    throw std::runtime_error("a score tile makes no sense");
  return got();
}

std::string line_of(const BackwardProblem& p) { return line_of(p.forward) + line_of_gradients(p); }

}  // namespace heed_test
