// Results that are known to the last bit, where bounds would not say so, and weights of more keys
// than random problems have.
#include "tests/support/checks.hpp"
#include "tests/support/isas.hpp"

using namespace heed_test;

TEST_CASE("one score far above all others takes all the weight", "[special]") {
  // Its own error is larger than all other scores: no bound says this.
  for (const double score : {1e20, 1e30, 2e38})
    for (const Index rows : {1, 30})
      for (const Index place : {0, 20, 31, 32, 100, 140, 299}) {
        Problem p = filled({rows, 300, 1, 8}, static_cast<std::uint64_t>(place));
        p.desc.scale = 1;
        p.query.fill([] { return 1; });
        p.key.fill([&](const Axes& at) { return at[2] == place ? score : 1; });
        on_every_isa(p, [&](const Outputs& got) {
          INFO("score " << score << " at key " << place);
          bool equal = true;
          for (std::size_t i = 0; i < got.out.size(); ++i)
            equal = equal && got.out[i] == p.value.get({0, 0, place, static_cast<Index>(i % 8)});
          CHECK(equal);
        });
      }
}

TEST_CASE("weights of more keys than a thread keeps", "[far]") {
  // 4 MiB hold the probabilities of 21845 keys on AVX-512, 43690 on AVX2, 87381 on SSE2. Scores
  // that grow move row_max in between.
  for (const Index keys : {21845, 21846, 90000}) {
    const auto are_more = [=](Index lanes) { return keys > (Index{1} << 20) / 3 / lanes; };
    if (brief() && !any_lanes(are_more)) continue;
    Problem p = filled({9, keys, 1, 1}, 63);
    p.key.fill([](const Axes& at) { return static_cast<double>(at[2] % 30000) / 1000; });
    p.want_weights(HEED_WEIGHTS_PROBABILITIES);
    check_problem(p);
    if (brief()) break;
  }
}
