// Thousands of random problems of every form, their gradients against the oracle.
#include "tests/dense/gradients.hpp"
#include "tests/problem/random_forms.hpp"
#include "tests/support/sweep.hpp"

using namespace heed_test;

namespace {

void add_to(OptionReport& report, const BackwardProblem& p, const GradientComparison& got) {
  for (const char* const option : options_of(p.forward))
    report.add(std::string("gradients, ") + option, got.worst());
  if (p.grad_lse) report.add("gradients, from lse", got.worst());
  for (const GradientOf gradient : all_gradients())
    if (p.gradients[gradient])
      report.add(std::string("gradient of ") + name_of(gradient), got.ratios[gradient]);
}

bool check_seed(std::uint64_t seed, Sweep& sweep) {
  BackwardProblem p = draw_backward(seed);
  Random random(seed ^ 0x5eed);
  const Choices choices = draw_choices(random);
  const std::string line = line_of(p);
  INFO("HEED_TEST_SEED=" << seed << ": " << line << "; " << choices.executor << ", tiles "
                         << choices.tile_q << " x " << choices.tile_kv);
  p.attend(sweep.contexts.get(isa_names()[0], {}));
  const ExpectedGradients want = p.expected();
  sweep.pairs.add(options_of(p.forward));
  return check_gradients_everywhere(p, line, want, choices, sweep, add_to);
}

}  // namespace

TEST_CASE("gradients of random problems of every form", "[sweep][backward]") {
  sweep_seeds(
      count_forms(20000), [](std::uint64_t seed) { return line_of(draw_backward(seed)); },
      check_seed);
}
