// Some query rows of a pack against its keys: they write the gradients of their queries, and add to
// the gradients of keys and values.
#pragma once

#include <algorithm>

#include "engine/dense/backward/bias.hpp"
#include "engine/dense/backward/products.hpp"

namespace heed {

template <class Real>
class Split {
 public:
  /// `pack` of one sequence. With `pairs`, pairs of bfloat16 are multiplied, see backward.cpp.
  Split(const heed_attention_backward_plan& plan, const BackwardArgs& args,
        const Sequence& sequence, std::int64_t pack, std::byte* slab, RowTerms* terms, bool pairs)
      : rows_{plan,
              args,
              {plan.attention, args.attention, sequence, slab},
              {pack * plan.attention.pack_heads, plan.attention.pack_heads, nullptr},
              terms,
              pairs},
        panels_(plan.split_rows(sequence.query_length) / plan.attention.panel_rows) {}

  /// How many splits the sequence has.
  std::int64_t splits() const { return ceil_div(cut_.panels(), panels_); }

  /// Writes what the rows of a split have for themselves, and adds the rest to the sums: query
  /// block by query block, each summed apart, or where the sums are still 0, there.
  void add(std::int64_t split, const SplitSums<Real>& sums, bool fresh) const {
    const UnitInUse unit(rows_.products());
    const std::int64_t end = end_of_split(split * panels_);
    for (std::int64_t p = split * panels_, next = 0; p < end; p = next) {
      next = end_of_block(p);
      add_block(p, next, sums, fresh);
      fresh = false;
    }
  }

 private:
  std::int64_t end_of_split(std::int64_t panel) const {
    return std::min(round_down(panel, panels_) + panels_, cut_.panels());
  }

  std::int64_t end_of_block(std::int64_t first) const {
    return std::min(first + rows_.plan.block_panels, end_of_split(first));
  }

  GradPanel<Real> panel(std::int64_t p, std::int64_t first) const {
    const std::int64_t begin = cut_.begin(p);
    const std::int64_t of_block = cut_.begin(first);
    const std::int64_t run = rows_.plan.run_panels;
    const std::int64_t group = first + round_down(p - first, run);
    const std::int64_t of_group = cut_.begin(group);
    const std::int64_t group_end = cut_.begin(std::min(group + run, end_of_block(first)));
    return reader_.panel(begin, cut_.begin(p + 1) - begin,
                         {p - first, begin - of_block, of_group - of_block, group_end - of_group});
  }

  void add_block(std::int64_t first, std::int64_t end, const SplitSums<Real>& sums,
                 bool fresh) const {
    std::int64_t key_begin = on_.sequence.key_length;
    std::int64_t key_end = 0;
    for (std::int64_t p = first; p < end; ++p) {
      const GradPanel<Real> panel = this->panel(p, first);
      reader_.read_whole(panel);
      key_begin = std::min(key_begin, panel.key_begin);
      key_end = std::max(key_end, panel.key_end);
    }
    each_block(key_begin, key_end, on_.plan.tile_kv, [&](const KeyBlock& keys) {
      const KeyTile<Real> tile = reader_.tile(keys.begin, keys.end());
      products_.pack(tile);
      const SplitSums<Real> of_tile = fresh ? sums : begin_sums(keys, sums);
      const std::int64_t run = rows_.plan.run_panels;
      for (std::int64_t p = first; p < end; p += run)
        attend(first, p, std::min(p + run, end), tile, of_tile);
      if (!fresh) add_sums(of_tile, keys, sums);
    });
    for (std::int64_t p = first; p < end; ++p) finish(panel(p, first), sums);
  }

  /// Sums of a block and a tile, which stay in the caches until they are added to `all`.
  SplitSums<Real> begin_sums(const KeyBlock& tile, const SplitSums<Real>& all) const {
    const std::size_t lanes = rows_.plan.columns.lanes;
    Real* const buffer = rows_.buffer(&BackwardSlab::tile_sums);
    const SplitSums<Real> sums =
        SplitSums<Real>::in(buffer, on_.problem.features, lanes, tile.keys,
                            static_cast<std::size_t>(tile.begin), all.score_weights);
    const std::int64_t of_values =
        round_up(on_.problem.value_features, static_cast<std::int64_t>(lanes));
    std::fill(buffer, sums.values.sums + static_cast<std::size_t>(of_values) * tile.keys, Real{0});
    return sums;
  }

  void add_sums(const SplitSums<Real>& of, const KeyBlock& tile, const SplitSums<Real>& to) const {
    const auto add = [&](const KeySums<Real>& from, std::int64_t features,
                         const KeySums<Real>& sums) {
      const auto first = static_cast<std::size_t>(tile.begin);
      each_columns(rows_.plan.columns, static_cast<std::size_t>(features),
                   [&](const Columns& some) {
                     on_.kernels.numbers.add_onto(from.at(some, first), tile.keys * some.pitch,
                                                  sums.at(some, first));
                   });
    };
    add(of.keys, on_.problem.features, to.keys);
    add(of.values, on_.problem.value_features, to.values);
  }

  /// Panels [begin, end) of the block from `first` on against a tile, all of them at a block of
  /// keys before the next.
  void attend(std::int64_t first, std::int64_t begin, std::int64_t end, const KeyTile<Real>& tile,
              const SplitSums<Real>& sums) const {
    GradPanel<Real> panels[PanelRun<Real>::kMost];
    std::int64_t key_begin = tile.end;
    std::int64_t key_end = tile.begin;
    for (std::int64_t p = begin; p < end; ++p) {
      const GradPanel<Real>& panel = panels[p - begin] = this->panel(p, first);
      key_begin = std::min(key_begin, panel.key_begin);
      key_end = std::max(key_end, panel.key_end);
    }
    each_block(std::max(key_begin, tile.begin), std::min(key_end, tile.end),
               rows_.products().key_block, [&](const KeyBlock& block) {
                 PanelRun<Real> run;
                 for (std::int64_t p = 0; p < end - begin; ++p) {
                   if (rows_.pairs)
                     attend_in_pairs(panels[p], block, tile, run);
                   else
                     attend(panels[p], block, tile, sums, run);
                 }
                 products_.end(run, sums);
               });
  }

  /// The keys of a block that some row of the panel attends.
  KeyBlock attended(const GradPanel<Real>& panel, const KeyBlock& keys, Allowed& allowed) const {
    const std::int64_t begin = std::max(keys.begin, panel.key_begin);
    const std::int64_t end = std::min(keys.end(), panel.key_end);
    allowed = Allowed::kNone;
    if (begin >= end) return {keys.begin, 0};
    const KeyBlock block = {begin, static_cast<std::size_t>(end - begin)};
    panel.fold(begin);
    allowed = gradients_.scores().allowed(panel, block);
    return block;
  }

  void attend(const GradPanel<Real>& panel, const KeyBlock& keys, const KeyTile<Real>& tile,
              const SplitSums<Real>& sums, PanelRun<Real>& run) const {
    Allowed allowed{};
    const KeyBlock block = attended(panel, keys, allowed);
    if (allowed == Allowed::kNone) return;
    compute(panel, tile, block, allowed);
    products_.add(panel, tile, block, allowed != Allowed::kAll || on_.args.bias != nullptr, sums,
                  run);
  }

  /// The same in pairs. The products of a run have all keys of its block, so that they are deep
  /// where the limits of its panels differ, too.
  void attend_in_pairs(const GradPanel<Real>& panel, const KeyBlock& keys,
                       const KeyTile<Real>& tile, PanelRun<Real>& run) const {
    Allowed allowed{};
    const KeyBlock block = attended(panel, keys, allowed);
    if (allowed == Allowed::kNone) {
      if (run.count == 0) return;
      products_.clear(panel, keys.begin, keys.end(), keys);
      return run.add(panel, keys);
    }
    products_.clear(panel, keys.begin, block.begin, keys);
    products_.clear(panel, block.end(), keys.end(), keys);
    const bool fuses = fuses_ && allowed != Allowed::kSome && !panel.is_shifted();
    const FusedKeys groups =
        fuses ? whole_groups(panel, block, rows_.products().depth) : FusedKeys{block.keys, 0};
    const auto some = [&](std::size_t from, std::size_t to) -> KeyBlock {
      return {block.begin + static_cast<std::int64_t>(from), to - from};
    };
    const auto apart = [&](const KeyBlock& part) {
      if (part.keys == 0) return;
      compute(panel, tile, part, allowed);
      products_.add_rounded(panel, tile, part, keys);
    };
    apart(some(0, groups.begin));
    if (groups.count > 0) products_.attend(panel, tile, some(groups.begin, groups.end()), keys);
    apart(some(groups.end(), block.keys));
    run.add(panel, keys);
  }

  /// Leaves in the panel what the options make of scores and their gradients.
  void compute(const GradPanel<Real>& panel, const KeyTile<Real>& tile, const KeyBlock& block,
               Allowed allowed) const {
    gradients_.compute_biased(panel, tile, block, allowed);
    if (writes_bias_) write_bias(panel, block);
    gradients_.go_on(panel, tile, block);
  }

  /// The gradients of scores with their biases are the gradients of the biases.
  void write_bias(const GradPanel<Real>& panel, const KeyBlock& block) const {
    write_bias_columns(rows_.plan, panel.gradients, panel.vectors, panel.rows,
                       static_cast<std::int64_t>(block.keys),
                       rows_.buffer(&BackwardSlab::bias_rows), [&](std::size_t i) {
                         return bias_at(rows_.plan, rows_.args, on_.sequence.batch, panel.head(i),
                                        panel.query_row(i), block.begin);
                       });
  }

  /// Writes the gradients of the panel's queries.
  void finish(const GradPanel<Real>& panel, const SplitSums<Real>& sums) const {
    const std::size_t features = on_.features();
    panel.finish_sums();
    Real* const rows = rows_.buffer(&BackwardSlab::rows);
    if (!on_.problem.is_product()) add_score_weights(panel, rows, sums.score_weights);
    Real* const spare = rows + panel.rows * features;
    turn_into_rows(on_.kernels, panel.state.accumulators, panel.vectors, panel.rows, features,
                   rows);
    if (on_.problem.divides_by_norms()) leave_norms(panel, rows, spare, sums.score_weights);
    if (rows_.args.given.grad_scale != nullptr && on_.problem.is_dot())
      panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
        const Layout& layout = on_.problem.query;
        const Real* const query = readable(
            on_.kernels, layout, on_.query_row(on_.args.query, layout, row, head), features, spare);
        const Real* const gradient = rows + i * features;
        double product = 0;
        for (std::size_t x = 0; x < features; ++x)
          if (gradient[x] != 0)  // a row that attends nothing may hold NaN
            product += static_cast<double>(gradient[x]) * static_cast<double>(query[x]);
        rows_.terms(row, head).scale = product;
      });
    void* const grad_query = rows_.args.given.grad_query;
    if (grad_query == nullptr) return;
    multiply_values(rows, static_cast<Real>(on_.problem.scale / on_.problem.temperature),
                    panel.rows * features, rows);
    const BackwardProblem& p = rows_.plan.problem;
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
      write_gradient(on_.kernels, p.grad_query, p.accumulate, rows + i * features,
                     on_.problem.features, spare,
                     on_.query_row(grad_query, p.grad_query, row, head));
    });
  }

  /// Turns gradients of queries over their norms, times weights of heads, into gradients of
  /// queries; the gradients of these weights, times them, are the gradient of the scale.
  void leave_norms(const GradPanel<Real>& panel, Real* rows, Real* query, double* to) const {
    const std::size_t features = on_.features();
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
      gradients_.scores().read_query(row, head, query);
      const double weight = gradients_.scores().head_weight(head);
      const double along =
          go_through_norm(on_.kernels, query, features, weight, rows + i * features);
      to[head - rows_.pack.head] += along;
      if (rows_.args.given.grad_scale != nullptr) rows_.terms(row, head).scale = weight * along;
    });
  }

  /// Sums of gradients times act(), each of a row and feature: times weights, of all features, they
  /// are the gradient of the scale.
  void add_score_weights(const GradPanel<Real>& panel, Real* rows, double* to) const {
    const std::size_t features = on_.features();
    turn_into_rows(on_.kernels, panel.state.accumulators + features * panel.pitch, panel.vectors,
                   panel.rows, features, rows);
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
      double product = 0;
      for (std::size_t x = 0; x < features; ++x) {
        const auto sum = static_cast<double>(rows[i * features + x]);
        to[static_cast<std::size_t>(head - rows_.pack.head) * features + x] += sum;
        if (sum != 0)
          product += sum * static_cast<double>(panel.query_columns[x * panel.pitch + i]);
      }
      if (rows_.args.given.grad_scale != nullptr) rows_.terms(row, head).scale = product;
    });
  }

  const PackRows<Real> rows_;
  const AttentionThread<Real>& on_ = rows_.on;
  const std::int64_t panels_;  ///< of a split
  const ScoreGradients<Real> gradients_{rows_};
  const Products<Real> products_{rows_, gradients_.scores()};
  const Reader<Real> reader_{rows_, gradients_.scores()};
  const PanelCut cut_{on_.plan.pack_heads * on_.sequence.query_length, on_.plan.panel_rows,
                      on_.kernels.panels.lanes};
  const bool fuses_ = rows_.products().score_gradients != nullptr && gradients_.are_plain();
  const bool writes_bias_ =
      rows_.args.given.grad_bias != nullptr && BiasTiling(rows_.plan).is_own();
};

}  // namespace heed
