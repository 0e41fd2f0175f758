// Thousands of random blocks, their gradients against the oracle.
#include "tests/multihead/gradients.hpp"
#include "tests/problem/random_forms.hpp"
#include "tests/support/sweep.hpp"

using namespace heed_test;

namespace {

void add_to(OptionReport& report, const BlockBackward& p, const BlockComparison& got) {
  report.add(std::string("gradients, ") + name_of_combine(p.block.choice.combine), got.worst());
  for (const char* const option : options_of(p.block.attention))
    report.add(std::string("gradients, ") + option, got.worst());
  for (const BlockGradientOf gradient : all_block_gradients())
    if (p.gradients[gradient])
      report.add(std::string("gradient of ") + name_of(gradient), got.ratios[gradient]);
}

bool check_seed(std::uint64_t seed, Sweep& sweep) {
  BlockBackward p = draw_block_backward(seed);
  Random random(seed ^ 0x5eed);
  const Choices choices = draw_choices(random);
  const std::string line = line_of(p);
  INFO("HEED_TEST_SEED=" << seed << ": " << line << "; " << choices.executor << ", tiles "
                         << choices.tile_q << " x " << choices.tile_kv);
  const ExpectedBlockGradients want = p.expected();
  for (const auto& elements : want) sweep.coverage.add(elements);
  bool good = true;
  const auto compare = [&](const std::string& what, const BlockGradients& got,
                           const ExpectedBlockGradients& wanted) {
    const BlockComparison compared = compare_gradients(what, p, got, wanted, Unspecified::kAllowed);
    if (!compared.wrong.empty()) FAIL_CHECK(compared.wrong);
    add_to(sweep.options, p, compared);
    good = good && compared.worst() <= 1;
  };
  for (const char* const isa : isa_names()) {
    const BlockGradients got = p.run(sweep.contexts.get(isa, choices));
    compare(isa + (": " + line), got, multiplies_pairs(isa) ? p.expected(isa) : want);
    good = check_same(isa + (", kept, other tiles: " + line),
                      p.run(sweep.contexts.get(isa, {}), Keeps::kAll), got) &&
           good;
  }
  for (std::size_t i = 1; i < heed_product_count(); ++i) {
    Choices other = choices;
    other.product = heed_product_name(i);
    compare(std::string(other.product) + ": " + line,
            p.run(sweep.contexts.get(isa_names().back(), other),
                  seed % 2 == 0 ? Keeps::kAll : Keeps::kNothing),
            want);
  }
  return good;
}

}  // namespace

TEST_CASE("gradients of random blocks of every form", "[sweep][backward][blocks]") {
  sweep_seeds(
      count_forms(5000), [](std::uint64_t seed) { return line_of(draw_block_backward(seed)); },
      check_seed);
}
