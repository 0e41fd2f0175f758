#include "engine/dense/plan.hpp"

#include <algorithm>

#include "engine/runtime/error.hpp"

namespace heed {
namespace {

/// A claim of tasks worth less than this is dearer to hand out than to keep (about 20 us).
constexpr double kFlopsPerClaim = 2e6;

/// Claims per thread are at most this many: a thread that works on neighbouring tasks can fetch
/// the next one's data while it computes.
constexpr std::int64_t kClaimsPerThread = 16;

/// Tasks per thread that even out their different lengths and late threads.
constexpr std::int64_t kTasksPerThread = 4;

/// Larger L2 caches are used up to here: tiles gain nothing beyond, and workspace stays small.
constexpr std::size_t kLargestCache = std::size_t{1} << 20;

/// Past this many rows a block gains nothing: packing values is then below 1 % of its work.
constexpr std::int64_t kLargestBlock = 384;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }
std::int64_t round_down(std::int64_t a, std::int64_t b) {
  return std::max(a / b, std::int64_t{1}) * b;
}

/// Pairs of a query row and a key it attends, in one head.
double attended_pairs(const Problem& problem) {
  const auto rows = static_cast<double>(problem.query_length);
  const auto keys = static_cast<double>(problem.key_length);
  if (!problem.causal) return rows * keys;
  // Limits grow by one a row from 0 (at row `first`) to all keys (at row `last`).
  const std::int64_t first =
      std::clamp(-problem.causal_offset, std::int64_t{0}, problem.query_length);
  const std::int64_t last =
      std::clamp(problem.key_length - problem.causal_offset, std::int64_t{0}, problem.query_length);
  const auto ramp = static_cast<double>(last - first);
  const auto low = static_cast<double>(problem.key_limit(first));
  return ramp * low + ramp * (ramp - 1) / 2 + (rows - static_cast<double>(last)) * keys;
}

std::size_t usable_cache(const heed_context& context) {
  return std::min(context.caches.l2_bytes, kLargestCache);
}

/// Half of the L2 cache holds a block's queries and accumulators; blocks are of even size, and
/// small enough that every thread gets several.
std::int64_t choose_tile_q(const heed_context& context, const Problem& problem, std::int64_t rows,
                           std::int64_t panel) {
  if (context.tile_q != 0) return round_up(context.tile_q, panel);
  const std::int64_t row_bytes =
      (problem.features + round_up(problem.value_features, kRowPadding)) * 4;
  const auto half = static_cast<std::int64_t>(usable_cache(context) / 2);
  std::int64_t largest =
      std::min(round_down(half / row_bytes, panel), round_down(kLargestBlock, panel));
  const std::int64_t stacks = std::max(problem.batch * problem.key_heads, std::int64_t{1});
  const std::int64_t wanted = ceil_div(kTasksPerThread * context.threads, stacks);
  const std::int64_t fair = round_up(ceil_div(rows, wanted), panel);
  largest = std::min(largest, std::max(fair, 4 * panel));
  const std::int64_t blocks = std::max(ceil_div(rows, largest), std::int64_t{1});
  return std::max(round_up(ceil_div(rows, blocks), panel), panel);
}

/// A quarter of the L2 cache holds a tile of keys and values.
std::int64_t choose_tile_kv(const heed_context& context, const Problem& problem) {
  const std::int64_t step = context.kernels->key_step;
  if (context.tile_kv != 0) return round_up(context.tile_kv, step);
  const std::int64_t key_bytes =
      (problem.features + round_up(problem.value_features, kValueBlock)) * 4;
  const auto quarter = static_cast<std::int64_t>(usable_cache(context) / 4);
  const std::int64_t largest = round_down(quarter / key_bytes, step);
  return std::min(largest, round_up(std::max(problem.key_length, std::int64_t{1}), step));
}

Slab lay_out(const Problem& problem, std::int64_t tile_q, std::int64_t tile_kv, std::int64_t panel,
             std::int64_t step) {
  std::size_t end = 0;
  const auto take = [&](std::int64_t rows, std::int64_t columns) {
    const std::size_t begin = end;
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(rows, columns * 4, &bytes) || bytes > (INT64_MAX >> 16))
      fail(HEED_STATUS_INVALID_ARGUMENT,
           "desc.features is %lld and desc.value_features %lld; a tile of %lld rows overflows",
           static_cast<long long>(problem.features), static_cast<long long>(problem.value_features),
           static_cast<long long>(rows));
    end += static_cast<std::size_t>(round_up(bytes, kAlignment));
    return begin;
  };
  Slab slab{};
  slab.query = take(tile_q, problem.features);
  slab.accumulators = take(tile_q, round_up(problem.value_features, kRowPadding));
  slab.scores = take(step, panel);
  slab.values = take(tile_kv, round_up(problem.value_features, kValueBlock));
  slab.reference = take(tile_q, 1);
  slab.sum = take(tile_q, 1);
  slab.bytes = end;
  return slab;
}

}  // namespace

heed_attention_plan make_plan(const heed_context& context, const Problem& problem) {
  const KernelTable& kernels = *context.kernels;
  const std::int64_t panel = std::int64_t{kernels.lanes} * kernels.max_vectors;
  heed_attention_plan plan{};
  plan.context = &context;
  plan.problem = problem;
  if (__builtin_mul_overflow(problem.group(), problem.query_length, &plan.rows) ||
      plan.rows > (INT64_MAX >> 4))
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.query_length is %lld for %lld query heads per key head; that overflows",
         static_cast<long long>(problem.query_length), static_cast<long long>(problem.group()));
  std::int64_t stacks = 0;
  if (__builtin_mul_overflow(problem.batch, problem.key_heads, &stacks))
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.batch is %lld for %lld key heads; that overflows",
         static_cast<long long>(problem.batch), static_cast<long long>(problem.key_heads));

  plan.tile_q = choose_tile_q(context, problem, plan.rows, panel);
  plan.tile_kv = choose_tile_kv(context, problem);
  plan.blocks = ceil_div(plan.rows, plan.tile_q);
  if (__builtin_mul_overflow(stacks, plan.blocks, &plan.tasks))
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.query_length is %lld; that many tasks overflow",
         static_cast<long long>(problem.query_length));
  plan.flops = 2.0 * static_cast<double>(problem.features + problem.value_features) *
               attended_pairs(problem) * static_cast<double>(problem.batch) *
               static_cast<double>(problem.query_heads);

  const std::int64_t worth =
      std::min(static_cast<std::int64_t>(std::min(plan.flops / kFlopsPerClaim, 1e15)) + 1,
               kClaimsPerThread * context.threads);
  const std::int64_t claims =
      std::clamp(worth, std::int64_t{1}, std::max(plan.tasks, std::int64_t{1}));
  plan.tasks_per_claim = std::max(ceil_div(plan.tasks, claims), std::int64_t{1});
  plan.workers = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(ceil_div(plan.tasks, plan.tasks_per_claim), 1, context.threads));
  plan.slab = lay_out(problem, plan.tile_q, plan.tile_kv, panel, kernels.key_step);
  return plan;
}

}  // namespace heed
