#include "engine/multihead/plan.hpp"

#include <algorithm>

#include "engine/parallel/tasks.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed {
namespace {

/// Tasks per thread that even out late threads.
constexpr std::int64_t kTasksPerThread = 4;

/// Rows that a task of combining takes: enough to be worth its claim.
constexpr std::int64_t kCombineRows = 64;

/// Rows of a tensor of the workspace, and whether sequences are packed in them.
struct RowsOf {
  std::int64_t rows;  ///< of a batch item
  bool packed;
};

/// [batch][head][row][feature], or [head][row][feature] of packed rows: the rows of a head lie side
/// by side, so that they do not share cache sets.
void place_by_head(const RowsOf& of, std::int64_t heads, std::int64_t features, Layout& layout) {
  const std::int64_t head = product(of.rows, features, "desc.attention: rows and features");
  const std::int64_t batch = product(head, heads, "desc.attention: rows and heads");
  layout.strides = {of.packed ? 0 : batch, head, features, 1};
}

/// [batch][row][head][feature], or [row][head][feature] of packed rows: what W_out multiplies, and
/// what a CBLAS library can write.
void place_by_row(const RowsOf& of, std::int64_t heads, std::int64_t features, Layout& layout) {
  const std::int64_t row = product(heads, features, "desc.attention: heads and features");
  const std::int64_t batch = product(row, of.rows, "desc.attention: rows and heads");
  layout.strides = {of.packed ? 0 : batch, features, row, 1};
}

void place_projections(const heed_context& context, Problem& p) {
  const auto rows_of = [](std::int64_t packed, std::int64_t length) {
    return RowsOf{packed > 0 ? packed : length, packed > 0};
  };
  const RowsOf queries = rows_of(p.packed_queries, p.query_length);
  const RowsOf keys = rows_of(p.packed_keys, p.key_length);
  const auto place = context.product == ProductKind::kHeed ? place_by_head : place_by_row;
  place(queries, p.query_heads, p.features, p.query);
  place(keys, p.key_heads, p.features, p.key);
  place(keys, p.key_heads, p.value_features, p.value);
  place_by_row(queries, p.query_heads, p.value_features, p.out);
}

/// Panels save rows from being transposed back and forth between the steps: queries, and what the
/// heads make of them, then lie as attention and products work on them. They are cut sequence by
/// sequence, so not where short sequences would leave more than an eighth of them empty, nor where
/// a CBLAS library or a combiner reads rows. The second walk reads rows too, but asking for it must
/// not change out: the same rows share panels then.
Placement choose_placement(const heed_context& context, const MultiheadProblem& p) {
  const Problem& a = p.attention;
  const std::int64_t lanes = a.float64 ? context.kernels->f64.lanes : context.kernels->f32.lanes;
  const std::int64_t padding = round_up(a.query_length, lanes) - a.query_length;
  if (context.product != ProductKind::kHeed || !p.has_w_out() || a.packed_queries > 0 ||
      a.batch == 0 || padding * 8 > a.query_length)
    return Placement::kStacked;
  const bool walks_twice = a.weights_point != HEED_WEIGHTS_NONE || a.sum_columns;
  return walks_twice ? Placement::kByHead : Placement::kPanels;
}

std::uint32_t workers_for(const heed_context& context, double flops) {
  return static_cast<std::uint32_t>(std::clamp<double>(flops / kFlopsPerClaim, 1, context.threads));
}

void plan_products(const heed_context& context, heed_multihead_plan& plan) {
  const MultiheadProblem& p = plan.problem;
  const bool panels = plan.attention.placement == Placement::kPanels;
  const std::int64_t items =
      plan.attention.placement == Placement::kStacked ? 1 : p.attention.batch;
  const ProductSize query = {p.float64(), p.query_rows, p.width_query, p.queries_width(),
                             items,       panels,       panels};
  const ProductSize key = {p.float64(), p.key_rows, p.width_key, p.keys_width()};
  const ProductSize value = {p.float64(), p.key_rows, p.width_key, p.values_width()};
  const ProductSize out = {p.float64(), p.query_rows, p.heads_width(), p.width_out, items, panels};
  const double before = flops_of(query) + flops_of(key) + flops_of(value);
  const double after = p.has_w_out() ? flops_of(out) : 0;
  const double combining = 2.0 * static_cast<double>(p.query_rows) *
                           static_cast<double>(p.heads_width());  // without a W_out
  // As many tasks for every thread: of products of one size they all take the same time.
  const std::int64_t claims = context.threads == 1 ? 1 : kTasksPerThread * context.threads;
  const auto share = [&](const ProductSize& part) {
    const double claimed = flops_of(part) / std::max(before, 1.0) * static_cast<double>(claims);
    return round_up(static_cast<std::int64_t>(claimed) + 1, context.threads);
  };
  plan.query = plan_product(context, query, share(query));
  plan.key = plan_product(context, key, share(key));
  plan.value = plan_product(context, value, share(value));
  plan.product_workers = workers_for(context, before);
  plan.combine_workers = workers_for(context, after > 0 ? after : combining);
  if (p.has_w_out()) plan.out = plan_product(context, out, claims);
  plan.combine_rows = kCombineRows;
  plan.projection_flops = before + after;
}

/// What runs after each other shares its memory.
void lay_out(heed_multihead_plan& plan) {
  const MultiheadProblem& p = plan.problem;
  const bool panels = plan.attention.placement == Placement::kPanels;
  const std::int64_t number = p.float64() ? 8 : 4;
  Offsets offsets;
  const auto take = [&](std::int64_t rows, std::int64_t columns, const char* what) {
    return offsets.take(rows, panels ? round_up(columns, kRowPadding) : columns, number, what);
  };
  std::int64_t query_rows = p.query_rows;
  if (panels)
    query_rows = product(p.attention.batch, round_up(p.attention.query_length, plan.query.lanes),
                         "desc.attention: batch and query_length");
  MultiheadSpace& s = plan.space;
  s.input = take(query_rows, panels ? std::max(p.width_query, p.heads_width()) : p.heads_width(),
                 "query rows and features");
  s.heads = s.input;
  s.query = take(query_rows, p.queries_width(), "query rows and heads");
  s.key = take(p.key_rows, p.keys_width(), "key rows and heads");
  s.value = take(p.key_rows, p.values_width(), "key rows and heads");
  s.shared = offsets.end();
  const std::size_t row = take(1, p.attention.value_features, "a row");
  s.slab_bytes = std::max({plan.query.slab.bytes, plan.key.slab.bytes, plan.value.slab.bytes,
                           plan.out.slab.bytes, pack_slab_bytes(*plan.context, p.float64()),
                           offsets.end() - row});
  const std::uint32_t workers = std::max(plan.product_workers, plan.combine_workers);
  const std::int64_t slabs = product(workers, static_cast<std::int64_t>(s.slab_bytes),
                                     "desc.attention: the threads' workspace");
  s.bytes = s.shared + std::max(static_cast<std::size_t>(slabs), workspace_bytes(plan.attention));
}

}  // namespace

heed_multihead_plan make_plan(const heed_context& context, const MultiheadProblem& problem) {
  heed_multihead_plan plan{};
  plan.context = &context;
  plan.problem = problem;
  place_projections(context, plan.problem.attention);
  plan.attention =
      make_plan(context, plan.problem.attention, choose_placement(context, plan.problem));
  plan_products(context, plan);
  lay_out(plan);
  return plan;
}

std::uint32_t workers_of(const heed_multihead_plan& plan) {
  return std::max({plan.product_workers, plan.attention.workers, plan.combine_workers});
}

}  // namespace heed
