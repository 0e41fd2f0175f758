// y = x W + b for many rows of x: plans a product, and runs several at once.
//
// Everything is transposed, as in attention: rows of x are the lanes of panels, and features in
// and out are to it as keys and features are to weights times values (engine/README.md). An element
// of y is one chain of multiply-adds over the features in, in their order, from the bias on. So its
// bits depend on the instruction set alone, not on how the product is cut up.
//
// Rows and matrices of bfloat16 meet as pairs where the context has them, which is exact except for
// the order of sums and for subnormal values, which count as 0; rows of other types as sums of
// bfloat16 where it has these. Elements that are not finite then are multiplied again as floats
// (Multiply::multiply_again), because infinity times 0 is NaN.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "api/heed.h"
#include "engine/projection/weights.hpp"
#include "engine/runtime/workspace.hpp"
#include "engine/tensor/operands.hpp"

namespace heed {

/// The shape that a product is planned for.
struct MatmulSize {
  bool float64;
  std::int64_t rows;  ///< at most
  std::int64_t in, out;
  std::uint32_t most_parts = 0;  ///< that a run multiplies, see Parts; 0: floats alone

  bool may_pair() const { return most_parts > 0; }
};

/// Offsets, in bytes, into the slab of workspace that one thread works in. Values are of the
/// arithmetic's type.
struct MatmulSlab {
  std::size_t x;             ///< panels of the task's rows, [panel][x_lines][pitch]
  std::size_t accumulators;  ///< [panel][sweep_out][pitch]
  std::size_t weights;       ///< one packed tile
  std::size_t wide;          ///< one tile, widened; or rows of x or y
  std::size_t bias;          ///< [out_block]
  std::size_t again;         ///< [out_block][pitch]; this and the next for values multiplied again
  std::size_t again_x;       ///< a panel's share of x, [kMostTileIn][pitch]
  std::size_t again_w;       ///< one block of a tile, [kMostTileIn][value_block]
  std::size_t bytes;
};

/// A task is some panels of rows times some features out. It takes sweep_out features out at a
/// time, and for these Packing::tile_in() features in at a time, times out_block features out: this
/// tile of weights stays in the L2 cache while the panels pass, and so does the share of x if one
/// sweep does it all; else x is kept whole.
struct MatmulPlan {
  MatmulSize size;
  std::int64_t panel_rows;
  std::int64_t lanes;
  std::int64_t task_panels;  ///< most panels of a task
  std::int64_t task_out;     ///< most features out of a task
  std::int64_t sweep_out;    ///< the same of a sweep
  std::int64_t out_block;
  std::int64_t x_lines;     ///< of a panel of x that is there at a time, in values or pairs
  std::int64_t tile_lines;  ///< of a tile, the same

  bool keeps_x() const { return sweep_out < task_out; }
  MatmulSlab slab;
};

/// Cuts the product into at least `claims` tasks if it has enough work. Messages name `field`, as
/// in "desc.w_query".
MatmulPlan plan_matmul(const heed_context& context, const char* field, const MatmulSize& size,
                       std::int64_t claims);

/// Bytes of a thread's slab, checked.
std::size_t checked_slab(const Offsets& buffers, const MatmulSize& size);

/// 2 flops per element of the matrix and row.
double flops_of(const MatmulSize& size);

/// Tasks that even out threads that come late.
std::int64_t claims_for(const heed_context& context);
/// Threads that so much work is worth.
std::uint32_t workers_for(const heed_context& context, double flops);

/// Rows of a tensor [batch][row][feature], numbered through: row t is row t % per_batch of batch
/// item t / per_batch.
struct InputRows {
  const void* data;
  Layout layout;
  std::int64_t per_batch;

  const std::byte* at(std::int64_t t) const {
    return row_at(data, layout, t / per_batch, 0, t % per_batch);
  }
  /// How many rows from t on, of `count`, lie a stride apart.
  std::int64_t in_step(std::int64_t t, std::int64_t count) const {
    const bool whole = layout.strides.batch == per_batch * layout.strides.row;
    return whole ? count - t : std::min(count - t, per_batch - t % per_batch);
  }
};

/// The same with features split between heads: feature x is x % per_head of head x / per_head.
struct OutputRows {
  void* data;
  Layout layout;
  std::int64_t per_batch;
  std::int64_t per_head;

  std::byte* at(std::int64_t t, std::int64_t x) const {
    return row_at(data, layout, t / per_batch, x / per_head, t % per_batch) +
           x % per_head * layout.strides.feature * layout.bytes;
  }
};

/// One product of a run.
struct Matmul {
  const MatmulPlan* plan;
  std::int64_t rows;  ///< at most the plan's
  InputRows x;
  MatrixArgument w;
  OutputRows y;
  bool adds = false;  ///< y, of one head, grows by the product; without a bias

  /// The components that are multiplied; at most the plan's.
  Parts parts(const heed_context& context) const {
    return plan->size.may_pair() ? product_parts(context, x.layout.type, w.type()) : Parts{};
  }
};

/// The threads of a run, and a slab for each.
struct RunThreads {
  const heed_context& context;
  std::uint32_t workers;
  std::byte* slabs;
  std::size_t slab_bytes;

  std::byte* slab(std::uint32_t worker) const { return slabs + worker * slab_bytes; }
};

/// Computes all of them; the threads share the tasks. No plan's slab may exceed theirs.
void run_matmuls(const RunThreads& threads, const Matmul* matmuls, std::size_t count);

/// A task of a product: the `task`-th plan.task_panels panels of rows times features out [begin,
/// end), in the slab of its thread.
void multiply(const heed_context& context, const Matmul& matmul, std::byte* slab, std::int64_t task,
              std::int64_t begin, std::int64_t end);

// Products by a BLAS library, one call for many rows, on the caller's thread. The library decides
// how many threads it uses and in which order it sums.
#if defined(HEED_WITH_CBLAS)
/// Lays out the plan's slab, which one thread uses.
void plan_cblas(MatmulPlan& plan);
void run_cblas(const Kernels& kernels, const Matmul& matmul, std::byte* slab);
#else
inline void plan_cblas(MatmulPlan&) {}
inline void run_cblas(const Kernels&, const Matmul&, std::byte*) {}
#endif

// ---- heed_project: rows times a prepared matrix -------------------------------------------------

/// A descriptor whose fields are checked, and the weights that it is for.
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

using ProjectApi = Structs<heed_project_desc, Project, ProjectProblem>;
template <std::int64_t PreparedForm::*kFeatures>
Axes project_axes(const ProjectProblem& p) {
  return {{p.batch, 1, p.rows, p.weights->*kFeatures}, kRowNames};
}
inline constexpr Operand<ProjectProblem> kProjectOperands[] = {
    input(HEED_TENSOR(ProjectApi, x), project_axes<&PreparedForm::in>)
        .with(Types::kArithmetic)
        .without_heads()
        .passed(),
    output(HEED_TENSOR(ProjectApi, y), project_axes<&PreparedForm::out>)
        .with(Types::kArithmetic)
        .without_heads()
        .passed(),
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
