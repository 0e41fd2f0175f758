// Thousands of random problems of every form, against the oracle.
#include "tests/problem/random_forms.hpp"
#include "tests/support/sweep.hpp"

using namespace heed_test;

namespace {

/// Adds how close a run came to its bounds, under each option that it had.
void add_to(OptionReport& report, const Problem& p, const Ratios& ratios) {
  for (const char* const option : options_of(p))
    report.add(std::string("out, ") + option, ratios.out);
  if (p.lse) report.add("lse", ratios.lse);
  if (p.weights)
    report.add(std::string("weights, ") + name_of_point(p.desc.weights_point), ratios.weights);
  if (p.column_sums) report.add("column sums", ratios.column_sums);
}

/// Draws a problem, runs it everywhere, and says whether all was right.
template <class Draws>
bool check_seed(std::uint64_t seed, Sweep& sweep) {
  Problem problem = Draws(seed).draw();
  Random random(seed ^ 0x5eed);
  const Choices choices = draw_choices(random);
  INFO("HEED_TEST_SEED=" << seed << ": " << line_of(problem) << "; " << choices.executor
                         << ", tiles " << choices.tile_q << " x " << choices.tile_kv);
  const Expected want = problem.expected_all();
  if (std::is_same_v<Draws, RandomForms>) sweep.pairs.add(options_of(problem));
  return check_everywhere(problem, problem, want, seed, choices, sweep, add_to);
}

}  // namespace

TEST_CASE("random problems of every form", "[sweep][forms]") {
  sweep_seeds(
      count_forms(20000), [](std::uint64_t seed) { return line_of(RandomForms(seed).draw()); },
      check_seed<RandomForms>);
}

TEST_CASE("random problems of few rows", "[sweep][forms]") {
  sweep_seeds(
      count_forms(2000), [](std::uint64_t seed) { return line_of(FewForms(seed).draw()); },
      check_seed<FewForms>);
}

TEST_CASE("random problems of few rows and thousands of keys", "[sweep][forms]") {
  sweep_seeds(
      count_forms(brief() ? 150 : 1000),
      [](std::uint64_t seed) { return line_of(LongForms(seed).draw()); }, check_seed<LongForms>);
}
