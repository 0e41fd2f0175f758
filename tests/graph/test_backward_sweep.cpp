// Thousands of random graphs and ways to attend over them, their gradients against the oracle.
#include "tests/problem/random_graph_backward.hpp"
#include "tests/support/sweep.hpp"

using namespace heed_test;

namespace {

void add_to(OptionReport& report, const GraphBackwardProblem& p,
            const GraphGradientComparison& got) {
  const heed_graph_attention_desc& d = p.forward.desc;
  const auto option = [&](const char* what, bool used) {
    if (used) report.add(std::string("gradients, ") + what, got.worst());
  };
  option("float64", is_float64(d));
  option("projected", d.inputs == HEED_GRAPH_PROJECTED);
  option("shared", d.inputs == HEED_GRAPH_SHARED);
  option("per node", d.inputs == HEED_GRAPH_PER_NODE);
  option("edge keys", p.forward.w_edge_key.has_value());
  option("edge values", p.forward.w_edge_value.has_value());
  option("softcap", d.softcap > 0);
  option("temperature", d.temperature != 0);
  option("weighted", d.combine == HEED_COMBINE_WEIGHTED);
  option("mean", d.combine == HEED_COMBINE_MEAN);
  option("max", d.combine == HEED_COMBINE_MAX);
  option("residual", d.residual != 0);
  option("steps", d.steps > 1);
  option("from lse", p.grad_lse.has_value());
  for (const GraphGradientOf of : all_graph_gradients())
    if (p.gradients[of]) report.add(std::string("gradient of ") + name_of(of), got.ratios[of]);
}

bool check_seed(std::uint64_t seed, Sweep& sweep) {
  GraphBackwardProblem p = RandomGraphBackward(seed).draw();
  Random random(seed ^ 0x5eed);
  const Choices choices = draw_choices(random);
  const std::string line = line_of(p);
  INFO("HEED_TEST_SEED=" << seed << ": " << line << "; " << choices.executor);
  const ExpectedGraphGradients want = p.expected();
  return check_gradients_everywhere(p, line, want, choices, sweep, add_to);
}

}  // namespace

TEST_CASE("gradients over random graphs", "[sweep][backward]") {
  sweep_seeds(
      count_forms(5000),
      [](std::uint64_t seed) { return line_of(RandomGraphBackward(seed).draw()); }, check_seed);
}
