#include "tests/dense/edges.hpp"

#include <algorithm>

namespace heed_test {

Sizes sizes_of(Index queries, Index keys, const Types& types) {
  Sizes sizes = {queries, keys, 9, 11};
  sizes.types = types;
  return sizes;
}

void check_all(Problem& p, Report* report, Unspecified unspecified) {
  want_all(p);
  check_problem(p, report, unspecified);
}

bool all_are(const Numbers& numbers, double x) {
  const std::uint64_t bits = encode(numbers.dtype, x);
  return std::count(numbers.bits.begin(), numbers.bits.end(), bits) ==
         static_cast<std::ptrdiff_t>(numbers.size());
}

void set_scores(Problem& p, const std::vector<double>& scores) {
  p.desc.scale = 1;
  p.query.fill([] { return 1; });
  p.key.fill([&](const Axes& at) { return scores[static_cast<std::size_t>(at[2])]; });
}

Problem scored(const std::vector<double>& scores, Index queries, const Types& types) {
  Sizes sizes = {queries, static_cast<Index>(scores.size()), 1, 5};
  sizes.types = types;
  Problem p = filled(sizes, 41);
  set_scores(p, scores);
  return p;
}

std::vector<double> mild(std::size_t n) {
  std::vector<double> scores(n);
  for (std::size_t j = 0; j < n; ++j) scores[j] = 0.25 * static_cast<double>(j * 7 % 11) - 1;
  return scores;
}

}  // namespace heed_test
