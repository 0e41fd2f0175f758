#include "engine/check/project.hpp"

#include "engine/check/attention.hpp"
#include "engine/check/numbers.hpp"
#include "engine/check/overlap.hpp"

namespace heed {

void check_project(const heed_context& context, const ProjectProblem& p, const Project& project) {
  if (p.all_rows == 0) return;
  Operands all("");
  const Operand* const x =
      all.add(Role::kInput, "x", project.x, p.x, {p.batch, 1, p.rows, p.weights->in}, kTensorAxes);
  all.add(Role::kOutput, "y", project.y, p.y, {p.batch, 1, p.rows, p.weights->out}, kTensorAxes);
  tell_odd_strides(all);
  refuse_overlaps(all, nullptr, 0);
  tell_odd_numbers(context, x);
}

}  // namespace heed
