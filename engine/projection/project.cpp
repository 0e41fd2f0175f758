#include "engine/projection/project.hpp"

#include "engine/projection/matmul.hpp"
#include "engine/projection/weights.hpp"
#include "engine/runtime/allocator.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {

ProjectProblem validate(const heed_context& context, const heed_project_desc& d,
                        const heed_weights& weights) {
  check_reserved("desc.reserved", d.reserved);
  check_size("batch", d.batch, 0);
  check_size("rows", d.rows, 0);
  check_no_heads("desc.x", d.x);
  check_no_heads("desc.y", d.y);
  check_prepared("weights", weights, "context", prepared_for(context));
  const Shape x = {d.batch, 1, d.rows, weights.in};
  const Shape y = {d.batch, 1, d.rows, weights.out};
  const ElementType real = real_type(weights.float64);
  ProjectProblem p{};
  p.weights = &weights;
  p.batch = d.batch;
  p.rows = d.rows;
  p.x = input_layout("desc.x", d.x, x, real);
  p.y = output_layout("desc.y", d.y, y, real);
  check_arithmetic("desc.x", p.x.type, weights.float64);
  check_arithmetic("desc.y", p.y.type, weights.float64);
  p.all_rows = (Size(d.batch) * d.rows)
                   .checked("the number of rows", {{"desc.batch", d.batch}, {"desc.rows", d.rows}});
  return p;
}

void validate(const ProjectProblem& p, const Project& project) {
  const SizeField sizes[] = {{"batch", p.batch}, {"rows", p.rows}};
  check_tensor("x", project.x, p.x, sizes);
  check_tensor("y", project.y, p.y, sizes);
}

void run_project(const heed_context& context, const ProjectProblem& p, const Project& project) {
  if (p.all_rows == 0) return;
  const heed_weights& weights = *p.weights;
  const Parts parts = product_parts(context, p.x.type, weights.type);
  const MatmulSize size = {weights.float64, p.all_rows, weights.in, weights.out, 1,
                           false,           false,      parts.count};
  const MatmulPlan plan = plan_matmul(context, "weights", size, claims_for(context));
  const std::uint32_t workers = workers_for(context, flops_of(size));
  const std::int64_t bytes = (Size(workers) * static_cast<std::int64_t>(plan.slab.bytes))
                                 .checked("the workspace", {{"the number of threads", workers}});
  Array<std::byte> slabs(context.allocator, bytes);
  Matmul matmul = {&plan, p.all_rows, InputRows{project.x, p.x, p.rows},
                   MatrixArgument{&weights, nullptr, nullptr, nullptr, Layout{}},
                   OutputRows{project.y, p.y, p.rows, weights.out}};
  matmul.parts = parts;
  run_matmuls(context, &matmul, 1, workers, slabs.data(), plan.slab.bytes);
}

}  // namespace heed
