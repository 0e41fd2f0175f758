// Thousands of random blocks, against the oracle.
#include "tests/multihead/checks.hpp"
#include "tests/problem/random_blocks.hpp"
#include "tests/support/sweep.hpp"

using namespace heed_test;

namespace {

/// Adds how close a run came to its bounds, under each option that it had.
void add_to(OptionReport& report, const Block& b, const Ratios& ratios) {
  const auto choice = [&](const char* what, bool used) {
    if (used) report.add(std::string("out, ") + what, ratios.out);
  };
  choice(name_of_combine(b.choice.combine), true);
  choice("float64", b.out.dtype() == HEED_DTYPE_F64);
  choice("16 bits", format_of(b.out.dtype()).bytes == 2);
  choice("self", b.choice.self);
  choice("prepared", b.w_query.prepared || b.w_key.prepared || b.w_value.prepared);
  choice("packed W_qkv", b.choice.w_key.before > 0 && b.choice.w_key.after > 0);
  choice("transposed W", b.choice.w_query.arrangement == Arrangement::kTransposed);
  choice("grouped heads", b.key_heads() != b.attention.desc.query_heads);
  choice("packed rows", b.attention.desc.packed_queries > 0);
  choice("hard", b.attention.desc.hard != 0);
  if (b.attention.lse) report.add("lse", ratios.lse);
  if (b.attention.weights) report.add("weights", ratios.weights);
  if (b.attention.column_sums) report.add("column sums", ratios.column_sums);
}

/// Products that are not heed's own are as right, to other bits.
bool check_products(Block& block, const Expected& want, Choices choices, Contexts& contexts) {
  bool good = true;
  const char* const isa = isa_names().back();
  for (std::size_t i = 1; i < heed_product_count(); ++i) {
    choices.product = heed_product_name(i);
    const std::optional<Outputs> got = try_run(block, contexts.get(isa, choices));
    if (!got) return false;
    const std::string line = std::string(isa) + ", " + choices.product;
    good = check_outputs(block, line, *got, want, Unspecified::kAllowed).worst() <= 1 && good;
  }
  return good;
}

/// Draws a block, runs it everywhere, and says whether all was right.
bool check_seed(std::uint64_t seed, Sweep& sweep) {
  Block block = RandomBlocks(seed).draw();
  Random random(seed ^ 0x5eed);
  const Choices choices = draw_choices(random);
  INFO("HEED_TEST_SEED=" << seed << ": " << line_of(block) << "; " << choices.executor << ", tiles "
                         << choices.tile_q << " x " << choices.tile_kv);
  const Expected want = block.expected();
  const bool good = check_products(block, want, choices, sweep.contexts);
  return check_everywhere(block, block.attention, want, seed, choices, sweep, add_to) && good;
}

}  // namespace

TEST_CASE("random blocks of every form", "[sweep][blocks]") {
  sweep_seeds(
      count(3000), [](std::uint64_t seed) { return line_of(RandomBlocks(seed).draw()); },
      check_seed);
}
