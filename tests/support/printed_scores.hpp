// A run of attention over a graph as it was printed: 10 nodes, 36 edges, scores from -288 to 211.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/support/rounding.hpp"

namespace heed_test {

/// A node with the sources of its incoming edges, their scores and the weights printed for them.
struct PrintedNode {
  std::vector<std::int64_t> sources;
  std::vector<double> scores;
  std::vector<double> weights;
};

inline const std::vector<PrintedNode>& printed_nodes() {
  static const std::vector<PrintedNode> all = {
      {{4, 3, 7, 6},
       {66.28713441407328, -42.356895194685464, -72.42356412336589, 37.33998459065121},
       {1, 6.55386436e-48, 5.73731961e-61, 2.68171465e-13}},
      {{9, 1}, {211.47668629424436, 77.85702511746038}, {1, 9.32649533e-59}},
      {{4, 1, 7},
       {35.58941250531445, -53.70434487821338, -80.78903024029921},
       {1, 1.66040449e-39, 2.86737506e-51}},
      {{4, 3, 7},
       {31.240260256884994, 5.379888043038299, 59.36660338598627},
       {6.09374649e-13, 3.57987144e-24, 1}},
      {{0, 8, 1},
       {-23.23660787608064, 34.19954420654749, -74.67617928930356},
       {1.13709327e-25, 1, 5.19845241e-48}},
      {{2, 8, 1, 5},
       {-79.00370928667077, 19.908000741887548, -75.48698208523935, -44.17319414548691},
       {1.10456210e-43, 1, 3.71950680e-42, 1.47873607e-28}},
      {{4, 8, 1, 5, 0, 2},
       {-23.987304007919384, 8.42476207930093, -84.15587488072015, 69.30330615398142,
        -287.98108781017044, -11.46404257694845},
       {3.05072312e-41, 3.63734288e-27, 2.25696321e-67, 1, 6.81332697e-156, 8.37888304e-36}},
      {{3, 5, 8},
       {-23.8989411122908, -6.459026663244714, 13.084969606201714},
       {8.67144860e-17, 3.25199796e-09, 9.99999997e-01}},
      {{0, 2, 6, 4, 1, 7},
       {-44.044223084610195, 18.67462267889491, 71.68866337449023, -32.61671246043159,
        -52.38386938730109, -27.39714905660486},
       {5.46822072e-51, 9.46879387e-24, 1, 5.02054475e-46, 1.30612176e-54, 9.28065068e-44}},
      {{4, 6}, {126.73498602992018, -36.7403289419144}, {1, 1.00826056e-71}}};
  return all;
}

/// The printed weights have nine digits, and belong to scores in float64: rounding a score to Real
/// moves its weight by a factor exp(unit |score|), and the largest score's moves all. Below the
/// smallest normal number (2^-126 in float32) of the largest, heed's weight is 0 or subnormal.
template <class Real>
double printed_bound(const PrintedNode& node, std::size_t j) {
  double largest = 0;
  for (const double s : node.scores) largest = std::max(largest, std::fabs(s));
  const auto unit = static_cast<double>(kUnitOf<Real>);
  const double moved = std::expm1(unit * (std::fabs(node.scores[j]) + largest));
  return node.weights[j] * (moved + 1e-8) + static_cast<double>(kSmallestOf<Real>);
}

}  // namespace heed_test
