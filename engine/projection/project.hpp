// heed_project: rows times a prepared matrix.
#pragma once

#include <cstdint>

#include "api/heed.h"
#include "engine/projection/weights.hpp"

namespace heed {

/// A descriptor whose fields are checked, and what it is for.
struct ProjectProblem {
  const heed_weights* weights;
  std::int64_t batch, rows;
  std::int64_t all_rows;  ///< of the batch together
  Layout x, y;
};

struct Project {
  const void* x;
  void* y;
};

/// Throws an Error that names the field, its value and the bound.
ProjectProblem validate(const heed_context& context, const heed_project_desc& desc,
                        const heed_weights& weights);

/// Throws unless tensors with elements are given.
void validate(const ProjectProblem& problem, const Project& project);

/// Runs a validated projection.
void run_project(const heed_context& context, const ProjectProblem& problem,
                 const Project& project);

}  // namespace heed
