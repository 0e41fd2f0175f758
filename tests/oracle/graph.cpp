#include "tests/oracle/graph.hpp"

#include "tests/oracle/graph_steps.hpp"

namespace heed_test {

GraphExpected expect(const GraphGiven& given, Index parts) {
  return is_float64(given.desc) ? GraphOracle<double>(given, parts).run()
                                : GraphOracle<float>(given, parts).run();
}

}  // namespace heed_test
