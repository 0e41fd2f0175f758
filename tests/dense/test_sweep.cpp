// Random problems: sizes, heads, masks, scales and layouts, each from a seed of its own.
#include "tests/support/attention.hpp"

using namespace heed_test;

namespace {

Sizes draw_sizes(Random& random) {
  const std::vector<std::int64_t> groups = {1, 1, 1, 2, 3, 8};
  Sizes sizes = {random.integer(0, 70), random.integer(0, 180), random.integer(1, 70),
                 random.integer(1, 70)};
  sizes.batch = random.integer(1, 2);
  sizes.key_heads = random.integer(1, 3);
  sizes.query_heads = sizes.key_heads * random.pick(groups);
  sizes.causal = static_cast<std::uint32_t>(random.integer(0, 3));
  if (sizes.causal == HEED_CAUSAL_OFFSET)
    sizes.causal_offset = random.integer(-sizes.query_length - 2, sizes.key_length + 2);
  if (random.integer(0, 2) == 0) sizes.scale = 2 * random.unit() - 1;
  return sizes;
}

Arrangement draw_arrangement(Random& random) {
  return static_cast<Arrangement>(random.integer(0, static_cast<int>(Arrangement::kCount) - 1));
}

}  // namespace

TEST_CASE("random problems", "[sweep]") {
  Report report("random problems");
  const std::size_t cases = count(500);
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const Sizes sizes = draw_sizes(random);
    const Layouts layouts = {draw_arrangement(random), draw_arrangement(random),
                             draw_arrangement(random), draw_arrangement(random),
                             static_cast<std::size_t>(random.integer(0, 3))};
    Problem problem(sizes, layouts);
    // Up to amplitude 3, where one key takes nearly all the weight.
    problem.fill(random.bits(), static_cast<float>(0.1 + 2.9 * random.unit()));
    check_problem(problem, &report);
  }
}
