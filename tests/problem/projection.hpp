// Rows times a matrix that is prepared: described, drawn and run; and the one line that describes
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/oracle/project.hpp"
#include "tests/problem/weight_matrix.hpp"

namespace heed_test {

struct ProjectSizes {
  Index batch, rows, in, out;
};

/// The layouts of a descriptor of products with a matrix.
struct LaidOutProjection {
  LaidOutProjection(heed_project_desc& desc, const WeightMatrix& w);
  LaidOut x, y;

  std::vector<LaidOut> all() const { return {x, y}; }
};

struct Projection {
  /// Of one type, with a bias.
  Projection(const ProjectSizes& sizes, std::uint32_t dtype);
  /// Of a valid descriptor.
  Projection(const heed_project_desc& described, WeightMatrix matrix, std::size_t misalign = 0);

  std::vector<Element> expected(const Multiplied& as = {}) const;
  std::vector<Element> expected_on(const char* isa) const;

  Numbers run_all(const Context& context);

  heed_project_desc desc;
  WeightMatrix w;
  Tensor x, y;
};

/// A valid descriptor of one matrix, or of some one below the other.
heed_weights_desc draw_weights_desc(Draw& draw);
/// Of products with it.
heed_project_desc draw_project_desc(Draw& draw, const WeightMatrix& w);
Projection draw_projection(std::uint64_t seed);

std::string line_of(const Projection& p);

}  // namespace heed_test
