#include "engine/projection/matmul.hpp"

#include <algorithm>

#include "engine/parallel/parallel_for.hpp"
#include "engine/projection/weights.hpp"
#include "engine/runtime/allocator.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/runtime/workspace.hpp"
#include "engine/tensor/panels.hpp"

namespace heed {
namespace {

/// The most features out of a task. Every task transposes its rows of x anew, which costs as much
/// as some 8 features out; rows of pairs, which are widened and rounded on the way, as some 80.
constexpr std::int64_t kWidestTask = 1024;
constexpr std::int64_t kWidestTaskOfPairs = 4096;

/// The length of a task's share when `whole` is cut into at least so many even shares, multiples of
/// `step` and at most `most` long.
std::int64_t even_part(std::int64_t whole, std::int64_t parts, std::int64_t most,
                       std::int64_t step) {
  const std::int64_t count = std::max(parts, ceil_div(whole, most));
  return std::min(round_up(ceil_div(whole, count), step), most);
}

/// The most rows of a task. They should be many, because a tile of weights serves all of them
/// before the next is fetched, from memory if the matrix is large. Their accumulators may well
/// outgrow the L2 cache, since a tile touches each of them once. Of x, the rows of a tile
/// should fit half the L2 cache; x that is kept whole, because it is dear to pack, a share of the
/// L3 cache.
std::int64_t most_rows(const MatmulSize& size, std::int64_t cache, std::int64_t widest,
                       std::int64_t bytes) {
  constexpr std::int64_t kKept = std::int64_t{4} << 20;
  if (!size.may_pair()) return cache / 2 / (kTileIn * bytes);
  return std::min(2 * cache / ((widest + kTileIn) * bytes),
                  kKept / (Size(size.in) * size.most_parts * (bytes / 2)).value());
}

/// Whether a product that one task's rows could hold is better cut by its rows, too. Every task
/// packs its rows of x and its features out of the matrix.
bool is_cheaper_by_rows(const MatmulSize& size, std::int64_t tasks, std::int64_t threads) {
  const auto packed = [&](std::int64_t row_tasks) {
    const std::int64_t out_tasks = ceil_div(tasks, row_tasks);
    return Size(out_tasks) * size.rows + Size(row_tasks) * size.out;
  };
  return tasks > 1 && packed(threads).value() < packed(1).value();
}

template <class Real>
void choose_blocks(const heed_context& context, const KernelTable<Real>& kernels,
                   std::int64_t claims, MatmulPlan& plan) {
  const MatmulSize& size = plan.size;
  const auto cache = static_cast<std::int64_t>(tile_cache(context.caches));
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(Real));
  const std::int64_t threads = context.threads.count;
  plan.lanes = kernels.panels.lanes;
  plan.panel_rows = plan.lanes * kernels.panels.max_vectors;
  // A quarter of the L2 cache holds a tile of weights.
  const std::int64_t widest =
      std::max(cache / 4 / (kTileIn * kBytes) / kOutBlock * kOutBlock, kOutBlock);
  const std::int64_t most_panels =
      std::max<std::int64_t>(most_rows(size, cache, widest, kBytes) / plan.panel_rows, 1);
  const PanelCut cut(size.rows, plan.panel_rows, plan.lanes);
  const std::int64_t panels = std::max<std::int64_t>(cut.panels(), 1);
  const auto worth = static_cast<std::int64_t>(std::min(flops_of(size) / kFlopsPerClaim, 1e9)) + 1;
  const std::int64_t tasks = std::min(claims, worth);
  // Every thread gets the same number of tasks.
  std::int64_t row_tasks = ceil_div(panels, most_panels);
  if (row_tasks > 1 || is_cheaper_by_rows(size, tasks, threads))
    row_tasks = round_up(row_tasks, threads);
  plan.task_panels = even_part(panels, row_tasks, most_panels, 1);
  row_tasks = ceil_div(panels, plan.task_panels);
  plan.task_out =
      even_part(size.out, ceil_div(tasks, row_tasks),
                std::max(size.may_pair() ? kWidestTaskOfPairs : kWidestTask, widest), kOutBlock);
  plan.out_block = even_part(plan.task_out, 1, widest, kOutBlock);
  plan.sweep_out = size.may_pair() ? plan.out_block : plan.task_out;
  plan.tile_lines = kTileIn;
  plan.x_lines = plan.keeps_x() ? size.in : std::min(size.in, kTileIn);
  // Packing some of the features uses a line more.
  for (std::uint32_t parts = 1; parts <= size.most_parts; ++parts) {
    const Packing packing = {kernels.pairs->depth, parts};
    const std::int64_t ins = plan.keeps_x() ? size.in : std::min(size.in, packing.tile_in());
    plan.x_lines = std::max(plan.x_lines, packing.lines(ins) + 1);
    plan.tile_lines = std::max(plan.tile_lines, packing.lines(packing.tile_in()));
  }
}

template <class Real>
void lay_out(MatmulPlan& plan) {
  Offsets offsets;
  const auto take = [&](Size rows, Size columns) {
    return offsets.take(rows, columns, sizeof(Real));
  };
  const std::int64_t rows = plan.task_panels * plan.panel_rows;
  MatmulSlab slab{};
  slab.x = take(rows, plan.x_lines);
  slab.accumulators = take(rows, plan.sweep_out);
  slab.weights = take(plan.tile_lines, plan.out_block);
  const std::int64_t ins = plan.size.may_pair() ? kMostTileIn : kTileIn;
  slab.wide = take(std::max(ins, plan.panel_rows), std::max(plan.out_block, ins));
  slab.bias = take(1, plan.out_block);
  const std::int64_t again = plan.size.may_pair() ? plan.panel_rows : 0;
  slab.again = take(again, round_up(plan.out_block, kOutBlock));
  slab.again_x = take(again, ins);
  slab.again_w = take(plan.size.may_pair() ? ins : 0, kOutBlock);
  slab.bytes = checked_slab(offsets, plan.size);
  plan.slab = slab;
}

/// Tasks of the same features out follow each other, so that the weights that one fetches from
/// memory are in the shared cache for the others.
struct TaskGrid {
  std::int64_t row_tasks;
  std::int64_t count;

  explicit TaskGrid(const Matmul& p) {
    const std::int64_t panels = PanelCut(p.rows, p.plan->panel_rows, p.plan->lanes).panels();
    row_tasks = ceil_div(panels, p.plan->task_panels);
    count = row_tasks * ceil_div(p.plan->size.out, p.plan->task_out);
  }
};

}  // namespace

double flops_of(const MatmulSize& size) {
  return 2.0 * static_cast<double>(size.rows) * static_cast<double>(size.in) *
         static_cast<double>(size.out);
}

std::int64_t claims_for(const heed_context& context) {
  constexpr std::int64_t kPerThread = 4;
  return context.threads.count == 1 ? 1 : kPerThread * context.threads.count;
}

std::uint32_t workers_for(const heed_context& context, double flops) {
  return static_cast<std::uint32_t>(
      std::clamp<double>(flops / kFlopsPerClaim, 1, context.threads.count));
}

std::size_t checked_slab(const Offsets& buffers, const MatmulSize& size) {
  return buffers.end("a thread's workspace",
                     {{"the number of features in", size.in}, {"of features out", size.out}});
}

MatmulPlan plan_matmul(const heed_context& context, const char* field, const MatmulSize& size,
                       std::int64_t claims) {
  MatmulPlan plan{};
  plan.size = size;
  within(field, [&] {
    if (context.backend == Backend::kCblas) return plan_cblas(plan);
    with_real(size.float64, [&](auto real) {
      choose_blocks(context, kernels_of<decltype(real)>(*context.kernels), claims, plan);
      lay_out<decltype(real)>(plan);
    });
  });
  return plan;
}

void run_matmuls(const RunThreads& threads, const Matmul* matmuls, std::size_t count) {
  const heed_context& context = threads.context;
  if (context.backend == Backend::kCblas) {
    for (std::size_t i = 0; i < count; ++i) run_cblas(*context.kernels, matmuls[i], threads.slabs);
    return;
  }
  std::int64_t tasks = 0;
  for (std::size_t i = 0; i < count; ++i) tasks += TaskGrid(matmuls[i]).count;
  const auto work = [&](std::int64_t task, std::byte* slab) {
    const Matmul* matmul = matmuls;
    TaskGrid grid(*matmul);
    while (task >= grid.count) {
      task -= grid.count;
      grid = TaskGrid(*++matmul);
    }
    const MatmulPlan& plan = *matmul->plan;
    const std::int64_t out = task / grid.row_tasks * plan.task_out;
    multiply(context, *matmul, slab, task % grid.row_tasks, out,
             std::min(out + plan.task_out, plan.size.out));
  };
  // Products of components begin alike, however many there are.
  Parts parts;
  for (std::size_t i = 0; i < count && parts.count == 0; ++i) parts = matmuls[i].parts(context);
  parallel_for(context.threads, {tasks, 1, threads.workers},
               [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                 const UnitInUse unit(products_of(context.kernels->f32, parts));
                 for (std::int64_t task = begin; task < end; ++task)
                   work(task, threads.slab(worker));
               });
}

// ---- heed_project: rows times a prepared matrix -------------------------------------------------

ProjectProblem validate(const heed_context& context, const heed_project_desc& d,
                        const heed_weights& weights) {
  check_reserved("desc.reserved", d.reserved);
  check_size("batch", d.batch, 0);
  check_size("rows", d.rows, 0);
  check_prepared("weights", weights, "context", prepared_for(context));
  ProjectProblem p{};
  p.weights = &weights;
  p.batch = d.batch;
  p.rows = d.rows;
  resolve_layouts<kProjectOperands>(&d, weights.float64, p);
  p.all_rows = (Size(d.batch) * d.rows)
                   .checked("the number of rows", {{"desc.batch", d.batch}, {"desc.rows", d.rows}});
  return p;
}

void validate(const ProjectProblem& p, const Project& project) {
  check_pointers<kProjectOperands>(p, &project, p.weights->float64);
}

void run_project(const heed_context& context, const ProjectProblem& p, const Project& project) {
  if (p.all_rows == 0) return;
  const heed_weights& weights = *p.weights;
  const MatmulSize size = {weights.float64, p.all_rows, weights.in, weights.out,
                           product_parts(context, p.x.type, weights.type).count};
  const MatmulPlan plan = plan_matmul(context, "weights", size, claims_for(context));
  const std::uint32_t workers = workers_for(context, flops_of(size));
  const std::int64_t bytes = (Size(workers) * static_cast<std::int64_t>(plan.slab.bytes))
                                 .checked("the workspace", {{"the number of threads", workers}});
  Array<std::byte> slabs(context.allocator, bytes);
  const Matmul matmul = {&plan,
                         p.all_rows,
                         {project.x, p.x, p.rows},
                         {&weights, {}, nullptr},
                         {project.y, p.y, p.rows, weights.out}};
  run_matmuls({context, workers, slabs.data(), plan.slab.bytes}, &matmul, 1);
}

}  // namespace heed
