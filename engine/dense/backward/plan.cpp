#include "engine/dense/backward/plan.hpp"

#include <algorithm>

#include "engine/dense/backward/panel.hpp"
#include "engine/dense/panel.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed {
namespace {

/// Packs are worth a task each, unless threads would wait for the last ones.
constexpr std::int64_t kPacksPerThread = 2;

/// A query block is a split, or so many rows of it. Each block reads all keys and values and adds
/// to their sums, from memory where a head is long: blocks of 96 rows cost 10 % at 4,096 keys of
/// 128 features, although their panels fit the L2 cache and panels of 512 rows do not.
constexpr std::int64_t kBlockRows = kSplitRows;

/// Products over rows are as deep as a run of panels has rows. Pairs take half as long for a row,
/// so that twice as many are worth a pass over the sums; and tiles come in whole groups of 32 rows.
constexpr std::int64_t kRunRows = 96;
constexpr std::int64_t kPairedRunRows = 256;

/// Keys of a tile of a bias: panels are read anew for each, and sums of so many stay in the L2
/// cache.
constexpr std::int64_t kBiasKeys = 1024;

/// Shares of a bias's repeats have a few panels of rows each.
constexpr std::int64_t kPanelsPerPart = 4;
constexpr std::int64_t kMostParts = 16;

std::int64_t checked(const Problem& p, Size size, const char* what) {
  return size.checked(what, {{"desc.attention->batch", p.batch},
                             {"query_heads", p.query_heads},
                             {"query_length", p.query_length},
                             {"key_length", p.key_length},
                             {"features", p.features},
                             {"value_features", p.value_features}});
}

BackwardSlab lay_out(const heed_attention_backward_plan& plan, const Widths& widths) {
  const Problem& p = plan.problem.attention;
  Offsets offsets;
  const auto numbers = [&](Size rows, Size columns) {
    return offsets.take(rows, columns, widths.bytes);
  };
  const Size rows = Size(plan.block_panels) * widths.panel;
  const Size features = round_up(Size(p.features), widths.lanes);
  const Size value_features = round_up(Size(p.value_features), widths.lanes);
  BackwardSlab slab{};
  slab.query = numbers(rows, plan.attention.query_lines);
  slab.grad_out = numbers(rows, plan.grad_lines);
  slab.query_columns = numbers(rows, features);
  slab.grad_columns = numbers(rows, value_features);
  slab.grad_query = numbers(rows, accumulator_rows(summed_features(p), p.key_length));
  slab.softmax = numbers(rows, 4);
  slab.row_sum = numbers(widths.panel, 1);
  slab.summed = offsets.take(plan.block_panels, 1, sizeof(Summed));
  slab.finite = offsets.take(plan.block_panels, 1, sizeof(bool));
  slab.scores = numbers(plan.run_panels, plan.block_values);
  slab.gradients = numbers(plan.run_panels, plan.block_values);
  slab.before = numbers(1, plan.block_values);
  slab.rounded = numbers(plan.pairs ? plan.run_panels : 0, plan.block_values);
  slab.packed = numbers(p.is_product() ? plan.attention.tile_kv : 0,
                        round_up(Size(p.features), PanelGeometry::value_block));
  slab.wide = numbers(plan.pairs ? plan.attention.tile_kv : 0, p.features);
  slab.finite_keys = offsets.take(plan.attention.tile_kv, 1, 1);
  slab.bias = numbers(plan.bias_keys, widths.panel);
  slab.bias_part = numbers(plan.bias_parts > 1 ? plan.bias_keys : 0, widths.panel);
  slab.bias_lanes = numbers(BiasTiling(plan).shares() ? plan.bias_keys : 0, widths.panel);
  slab.bias_rows = numbers(plan.bias_keys, widths.panel + 1);
  slab.rows = numbers(widths.panel + 1, std::max(summed_features(p).value(), p.value_features));
  slab.tile_sums = numbers(plan.attention.tile_kv, features + value_features);
  offsets.take(plan.pairs ? PanelGeometry::row_padding : 0, widths.panel, widths.bytes);
  slab.sums = numbers(plan.apart ? 0 : plan.blocks_of_split() > 1 ? 2 : 1, plan.sum_values);
  slab.bytes = static_cast<std::size_t>(checked(p, offsets.end(), "a thread's workspace"));
  return slab;
}

}  // namespace

heed_attention_backward_plan make_plan(const heed_context& context,
                                       const BackwardProblem& problem) {
  const Problem& p = problem.attention;
  Widths widths = Widths::of(context, p.float64);
  heed_attention_backward_plan plan{};
  plan.context = &context;
  plan.problem = problem;
  plan.attention = make_plan(context, p, Placement::kPacked, Pass::kBackward);
  widths.panel = plan.attention.panel_rows;
  const std::int64_t rows = plan.attention.pack_heads * p.query_length;
  plan.packs = p.batch * plan.attention.packs();
  plan.pairs = plan.attention.parts.count > 0 && problem.grad_out.type == ElementType::kBf16;
  std::int64_t key_step = widths.step;  // keys whose scores are there at a time, pairs or not
  plan.grad_lines = p.value_features;
  if (plan.pairs) {
    const ProductKernels<float>& products = products_of(context.kernels->f32, pairs_if(true));
    key_step = std::max<std::int64_t>(key_step, products.key_block);
    plan.grad_lines = std::max(p.value_features, lines_of_panel(products, p.value_features));
  }
  plan.run_panels = std::clamp((plan.pairs ? kPairedRunRows : kRunRows) / widths.panel,
                               std::int64_t{1}, PanelRun<float>::kMost);
  plan.block_values =
      round_up(key_step, static_cast<std::int64_t>(PanelGeometry::row_padding)) * widths.panel;
  plan.columns = {static_cast<std::size_t>(widths.lanes),
                  static_cast<std::size_t>(widths.panel / widths.lanes)};
  plan.splits = std::clamp(ceil_div(rows, kSplitRows), std::int64_t{1}, kMostSplits);
  plan.apart = plan.splits > 1 && plan.packs < kPacksPerThread * context.threads.count;
  plan.block_panels = std::max(ceil_div(std::min(rows, kBlockRows), widths.panel), std::int64_t{1});
  plan.tasks = plan.packs * (plan.apart ? plan.splits : 1);
  plan.sum_values = checked(
      p,
      (round_up(Size(p.features), widths.lanes) + round_up(Size(p.value_features), widths.lanes)) *
              p.key_length +
          (plan.pairs ? static_cast<std::int64_t>(PanelGeometry::row_padding) * widths.panel : 0),
      "the gradients of a head's keys and values");
  const double products = 4.0 * static_cast<double>(p.features + p.value_features) +
                          2.0 * static_cast<double>(p.features);
  plan.flops =
      plan.attention.flops / (2.0 * static_cast<double>(p.features + p.value_features)) * products;
  plan.bias_keys = round_up(std::clamp(p.key_length, std::int64_t{1}, kBiasKeys), widths.step);
  const BiasTiling tiling(plan);
  plan.bias_parts = std::clamp(tiling.panels() / kPanelsPerPart, std::int64_t{1}, kMostParts);
  const std::int64_t bias = plan.bias_parts > 1 ? tiling.tiles() : 0;
  plan.bias_apart = bias > 0 && bias < kPacksPerThread * context.threads.count;
  const std::int64_t claims =
      std::max({plan.tasks, plan.packs, plan.bias_apart ? bias * plan.bias_parts : 0});
  plan.workers = static_cast<std::uint32_t>(std::clamp<std::int64_t>(
      std::min(claims, static_cast<std::int64_t>(std::min(plan.flops / kFlopsPerClaim, 1e9)) + 1),
      1, context.threads.count));
  plan.slab = lay_out(plan, widths);
  plan.slab_bytes = plan.slab.bytes + plan.attention.slab.bytes;

  // Without query heads or batches there may be keys, and a bias to repeat, whose gradients are 0.
  if (plan.packs == 0 && tiling.tiles() == 0 && (p.batch == 0 || p.key_heads == 0)) return plan;
  Offsets offsets;
  offsets.take(plan.workers, static_cast<std::int64_t>(plan.slab_bytes), 1);
  plan.sums = offsets.take(plan.apart ? Size(plan.packs) * plan.splits : Size(0), plan.sum_values,
                           widths.bytes);
  plan.bias_sums = offsets.take(plan.bias_apart ? Size(bias) * plan.bias_parts : Size(0),
                                tiling.tile_values, widths.bytes);
  plan.score_sums = offsets.take(
      Size(plan.packs) * plan.splits,
      Size(plan.attention.pack_heads) * weights_of_head(p.score, p.features), sizeof(double));
  plan.terms = offsets.take(Size(p.batch) * p.query_heads, p.query_length, sizeof(RowTerms));
  plan.bytes = static_cast<std::size_t>(checked(p, offsets.end(), "the workspace"));
  return plan;
}

}  // namespace heed
