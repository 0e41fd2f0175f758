// Hard attention: weight 1 at the largest score, of equal ones at the lowest key.
//
// heed may take any key for the largest whose score is within the errors of the largest:
//
//     t_j + E_j >= max_k (t_k - E_k)
//
// but not one that an earlier key equals, number by number: the same operations give it the same
// score. Scores of +inf are equal, and where all are -inf no key has any weight.
#pragma once

#include <algorithm>
#include <vector>

#include "tests/oracle/scores.hpp"

namespace heed_test {

/// The places in `scores` that heed may choose; `same(i, j)`: whether key j is the same as key i.
template <class Wide, class Same>
std::vector<std::size_t> hardest(const std::vector<Score<Wide>>& scores, Same&& same) {
  Wide lowest = -kInfinite<Wide>;
  for (const auto& s : scores) lowest = std::max(lowest, s.value - s.error);
  std::vector<std::size_t> choices;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (scores[j].value == -kInfinite<Wide> || scores[j].value + scores[j].error < lowest) continue;
    const bool repeated = std::any_of(choices.begin(), choices.end(),
                                      [&](std::size_t earlier) { return same(earlier, j); });
    const bool infinite = lowest == kInfinite<Wide> && !choices.empty();
    if (!repeated && !infinite) choices.push_back(j);
  }
  return choices;
}

}  // namespace heed_test
