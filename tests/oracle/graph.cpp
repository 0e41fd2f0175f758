#include "tests/oracle/graph.hpp"

#include "tests/oracle/graph_steps.hpp"

namespace heed_test {

Expected expect(const GraphGiven& given) {
  return is_float64(given.desc) ? GraphOracle<double>(given).run()
                                : GraphOracle<float>(given).run();
}

}  // namespace heed_test
