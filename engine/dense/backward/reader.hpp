// Reads panels of query rows with their gradients, and tiles of keys.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "engine/dense/backward/panel.hpp"
#include "engine/dense/scores.hpp"
#include "engine/tensor/merge.hpp"

namespace heed {

/// The bits of two floats that are bfloat16, side by side.
inline float pair_of(float even, float odd) {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  std::memcpy(&low, &even, sizeof low);
  std::memcpy(&high, &odd, sizeof high);
  const std::uint32_t bits = (high & 0xffff0000U) | low >> 16U;
  float pair = 0;
  std::memcpy(&pair, &bits, sizeof pair);
  return pair;
}

/// Rows of a panel among the lines of its group, which the last panel fills up with 0 to `lines`.
inline void lay_in_pairs(const ColumnWidth& most, const PanelPlace& place, std::size_t lines,
                         const float* const* rows, std::size_t count, std::size_t features,
                         float* to) {
  const auto first = static_cast<std::size_t>(place.row_in_group());
  const bool last = first + count == static_cast<std::size_t>(place.group_rows);
  const std::size_t own = last ? lines - first / 2 : count / 2;
  each_columns(most, features, [&](const Columns& columns) {
    float* line_to = to + columns.first * lines + first / 2 * columns.pitch;
    const std::size_t used = std::min(columns.pitch, features - columns.first);
    for (std::size_t line = 0; line < own; ++line, line_to += columns.pitch) {
      std::fill_n(line_to, columns.pitch, 0.0F);
      if (2 * line >= count) continue;
      const float* const even = rows[2 * line] + columns.first;
      if (2 * line + 1 < count) {
        const float* const odd = rows[2 * line + 1] + columns.first;
        for (std::size_t x = 0; x < used; ++x) line_to[x] = pair_of(even[x], odd[x]);
      } else {
        for (std::size_t x = 0; x < used; ++x) line_to[x] = pair_of(even[x], 0);
      }
    }
  });
}

template <class Real>
class Reader {
 public:
  Reader(const PackRows<Real>& rows, const Scores<Real>& scores) : rows_(rows), scores_(scores) {}

  /// `count` rows of the pack from `first` on.
  GradPanel<Real> panel(std::int64_t first, std::int64_t count, const PanelPlace& place) const {
    const std::int64_t before = place.row;
    GradPanel<Real> panel{};
    static_cast<Panel<Real>&>(panel) = make_panel<Real>(rows_.pack, on_.sequence, first, count,
                                                        on_.kernels.panels.lanes, products_.depth);
    const std::int64_t accumulated =
        accumulator_rows(summed_features(on_.problem), on_.problem.key_length).value();
    panel.query = rows_.buffer(&BackwardSlab::query) + before * on_.plan.query_lines;
    panel.state = {nullptr, rows_.buffer(&BackwardSlab::row_sum),
                   rows_.buffer(&BackwardSlab::grad_query) + before * accumulated, false};
    panel.sum_features = static_cast<std::size_t>(summed_features(on_.problem).value());
    panel.summed = reinterpret_cast<Summed*>(rows_.buffer(&BackwardSlab::summed)) + place.index;
    panel.grad_out = rows_.buffer(&BackwardSlab::grad_out) + before * rows_.plan.grad_lines;
    panel.place = place;
    const auto columns = [&](std::int64_t features) {
      return (rows_.pairs ? place.group_row : before) *
             round_up(features, static_cast<std::int64_t>(on_.kernels.panels.lanes));
    };
    panel.query_columns =
        rows_.buffer(&BackwardSlab::query_columns) + columns(on_.problem.features);
    panel.grad_columns =
        rows_.buffer(&BackwardSlab::grad_columns) + columns(on_.problem.value_features);
    const std::int64_t slot =
        rows_.pairs ? 0 : place.index % rows_.plan.run_panels * rows_.plan.block_values;
    panel.probs = rows_.buffer(&BackwardSlab::scores) + slot;
    panel.gradients = rows_.buffer(&BackwardSlab::gradients) + slot;
    panel.lse_whole = rows_.buffer(&BackwardSlab::softmax) + 4 * before;
    panel.lse_rest = panel.lse_whole + panel.pitch;
    panel.shift = panel.lse_rest + panel.pitch;
    panel.delta = panel.shift + panel.pitch;
    panel.finite = reinterpret_cast<bool*>(rows_.buffer(&BackwardSlab::finite)) + place.index;
    return panel;
  }

  /// Fills the panel's buffers except the columns; begins the terms of its rows. Leaves where the
  /// rows of grad_out can be read.
  void read(const GradPanel<Real>& panel, const Real** grad_out) const {
    const std::size_t value_features = on_.value_features();
    const std::size_t features = on_.features();
    scores_.pack_query(panel);
    *panel.summed = Summed::kNothing;
    std::fill_n(panel.state.row_sum, panel.pitch, Real{0});

    Real* const rows = rows_.buffer(&BackwardSlab::rows);
    Real* const spare = rows + panel.rows * std::max(features, value_features);
    std::fill_n(panel.lse_whole, 4 * panel.pitch, Real{0});
    bool far[kMaxPanel] = {};
    double apart[kMaxPanel] = {};
    const Layout& layout = rows_.plan.problem.grad_out;
    const std::uint16_t* stored[kMaxPanel];
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
      const std::byte* const from = on_.query_row(rows_.args.given.grad_out, layout, row, head);
      stored[i] = reinterpret_cast<const std::uint16_t*>(from);
      grad_out[i] = readable(on_.kernels, layout, from, value_features, rows + i * value_features);
      far[i] = read_row(panel, i, grad_out[i], spare);
    });
    if (on_.problem.is_dot() &&
        rows_.pack.group * on_.sequence.query_length <= on_.kernels.panels.lanes)
      find_apart(panel, far, apart, spare);
    if (std::find(far, far + panel.rows, true) != far + panel.rows)
      weigh_far_rows(panel, far, apart);
    if (products_.pack_bf16_query != nullptr && has_rows_of(ElementType::kBf16, layout))
      products_.pack_bf16_query(panel.vectors, stored, panel.rows, value_features, Real{1},
                                panel.grad_out);
    else
      products_.pack_query(panel.vectors, grad_out, panel.rows, 1, value_features, Real{1},
                           panel.grad_out);
    if (rows_.pairs) {
      *panel.finite = true;
      return;
    }
    // A row that attends nothing has an lse of +inf, and nothing but probabilities of 0.
    *panel.finite = on_.kernels.numbers.all_finite(panel.query, features * panel.pitch) &&
                    on_.kernels.numbers.all_finite(panel.grad_out, value_features * panel.pitch) &&
                    std::none_of(panel.lse_rest, panel.lse_rest + panel.rows,
                                 [](Real rest) { return std::isnan(rest); });
  }

  /// Fills the columns too.
  void read_whole(const GradPanel<Real>& panel) const {
    const std::size_t value_features = on_.value_features();
    const std::size_t features = on_.features();
    Real* const spare = rows_.buffer(&BackwardSlab::rows);
    const Real* rows[kMaxPanel];
    read(panel, rows);
    lay_in_columns(panel, rows, value_features, panel.grad_columns);
    if (!on_.problem.is_product()) return scores_.lay_weights(panel, Real{1}, panel.query_columns);
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
      Real* const buffer = spare + i * features;
      rows[i] = on_.problem.divides_by_norms()
                    ? scores_.read_unit_query(row, head, buffer)
                    : readable(on_.kernels, on_.problem.query,
                               on_.query_row(on_.args.query, on_.problem.query, row, head),
                               features, buffer);
    });
    lay_in_columns(panel, rows, features, panel.query_columns);
  }

  KeyTile<Real> tile(std::int64_t begin, std::int64_t end) const {
    return {begin, end, scores_.keys(rows_.key_head(), begin, end),
            on_.stored_rows(products_, values_of(on_.problem, on_.args), rows_.key_head(), begin,
                            end, on_.problem.value_features, on_.buffer(&Slab::values))};
  }

 private:
  /// The log-sum-exp of row i, base + rest in log2 units.
  static void set_log_sum(const GradPanel<Real>& panel, std::size_t i, double base, double rest) {
    const double sum = base + rest;
    if (std::isfinite(sum) && std::fabs(sum) > kMostWhole) {
      panel.shift[i] = finite_score<Real>(sum);
      rest += base - static_cast<double>(panel.shift[i]);
    } else {
      rest = sum;
    }
    const double whole = std::fabs(rest) <= kMostWhole ? std::nearbyint(rest) : 0;
    panel.lse_whole[i] = static_cast<Real>(whole);
    panel.lse_rest[i] = static_cast<Real>(rest - whole);
  }

  /// Reads the log-sum-exp and delta of row i. True if its log-sum-exp has lost digits.
  bool read_row(const GradPanel<Real>& panel, std::size_t i, const Real* grad_out,
                Real* spare) const {
    const std::int64_t r = panel.first + static_cast<std::int64_t>(i);
    const std::int64_t row = rows_.pack.query_row(r);
    const std::int64_t head = rows_.pack.head_of(r);
    const auto number = [&](const void* data, const Layout& layout) {
      return number_at(*on_.plan.context->kernels, layout.type,
                       on_.query_row(data, layout, row, head));
    };
    const std::size_t features = on_.value_features();
    const Real* const out =
        readable(on_.kernels, on_.problem.out,
                 on_.query_row(on_.args.out, on_.problem.out, row, head), features, spare);
    double delta = on_.kernels.numbers.inner_product(grad_out, out, features);
    if (rows_.args.given.grad_lse != nullptr)
      delta -= number(rows_.args.given.grad_lse, rows_.plan.problem.grad_lse);
    double lse = number(on_.args.lse, on_.problem.lse);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const bool empty = lse == -kInfinity;
    if (lse == kInfinity) lse = std::numeric_limits<double>::quiet_NaN();
    if (empty) delta = 0;
    set_log_sum(panel, i, empty ? kInfinity : lse * kLog2E, 0);  // no probability but 0
    panel.delta[i] = static_cast<Real>(delta);
    const bool far = has_lost_digits(lse, on_.problem.lse.type == ElementType::kF64);
    if (rows_.all_terms == nullptr) return far;
    RowTerms& terms = rows_.terms(row, head);
    terms = {};
    if (on_.sinks() != nullptr && !empty)
      terms.sink = -std::exp(static_cast<double>(on_.sinks()[head]) - lse) * delta;
    return far;
  }

  /// Few rows were decoded: products in another order, each off by (features + 4) units of
  /// |query| |key| at most. Where that is so much that probabilities show it, as they do a
  /// log-sum-exp that has lost digits, the row is far, too. `apart`: how far apart its
  /// log-sum-exp and the products' here may be.
  void find_apart(const GradPanel<Real>& panel, bool* far, double* apart, Real* spare) const {
    const std::size_t features = on_.features();
    const auto size = [&] {
      return std::sqrt(on_.kernels.numbers.inner_product(spare, spare, features));
    };
    double largest[kMaxPanel] = {};
    each_block(panel.key_begin, panel.key_end, products_.key_block, [&](const KeyBlock& block) {
      const Allowed allowed = scores_.allowed(panel, block);
      if (allowed == Allowed::kNone) return;
      const Real* const attended = allowed == Allowed::kAll && on_.args.bias == nullptr
                                       ? nullptr
                                       : scores_.attended(panel, block);
      for (std::size_t j = 0; j < block.keys; ++j) {
        on_.sequence.read_key(on_.kernels, keys_of(on_.problem, on_.args), rows_.key_head(),
                              block.begin + static_cast<std::int64_t>(j), on_.problem.features,
                              spare);
        const double key = size();
        for (std::size_t i = 0; i < panel.rows; ++i)
          if (attended == nullptr || attended[j * panel.pitch + i] != kExcluded<Real>)
            largest[i] = std::max(largest[i], key);
      }
    });
    constexpr double kUnit = std::numeric_limits<Real>::epsilon() / 2;
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
      scores_.read_query(row, head, spare);
      const double most =
          std::fabs(on_.problem.scale * on_.problem.log2_unit) * size() * largest[i];
      // Digits do not matter where sizes are not finite.
      if (!(most > kFarLogSum<Real>) || !std::isfinite(most)) return;
      if (!std::isfinite(panel.lse_rest[i])) return;
      far[i] = true;
      apart[i] = 2 * kLn2 * (static_cast<double>(features) + 4) * kUnit * most;
    });
  }

  /// Sums the probabilities of rows again whose log-sum-exp has lost digits, or is `apart` from
  /// what scores here give. Where it belongs to these keys, as far as this tells, the sum replaces
  /// it; else it is the log-sum-exp of more keys, and stays.
  void weigh_far_rows(const GradPanel<Real>& panel, const bool* far, const double* apart) const {
    alignas(kAlignment) Real row_max[kMaxPanel];
    alignas(kAlignment) Real row_sum[kMaxPanel];
    const Real* const sinks = on_.sinks();
    Panel<Real> all = panel;
    all.state = {row_max, row_sum, nullptr, true};
    scores_.sum_rows(all, rows_.key_head(), panel.probs);
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
      const double most = static_cast<double>(row_max[i]);
      const double rest = std::log2(static_cast<double>(row_sum[i]));
      const double lse = number_at(*on_.plan.context->kernels, on_.problem.lse.type,
                                   on_.query_row(on_.args.lse, on_.problem.lse, row, head));
      const bool float64 = on_.problem.lse.type == ElementType::kF64;
      const double found = log_sum_exp(row_max[i], row_sum[i]);
      const double away = std::fabs((float64 ? found : double{finite_score<float>(found)}) - lse);
      if (!far[i] || !(away <= (float64 ? 0x1p-51 : 0x1p-22) * std::fabs(lse) + apart[i])) return;
      panel.shift[i] = 0;
      set_log_sum(panel, i, most, rest);
      if (sinks == nullptr || rows_.all_terms == nullptr || std::isinf(sinks[head])) return;
      const double sink = static_cast<double>(finite_score<Real>(sinks[head] * kLog2E));
      rows_.terms(row, head).sink =
          -std::exp2(sink - most - rest) * static_cast<double>(panel.delta[i]);
    });
  }

  /// [columns][row][pitch], or of pairs [columns][pair of rows][pitch]. Values that become pairs
  /// were bfloat16.
  void lay_in_columns(const GradPanel<Real>& panel, const Real* const* rows, std::size_t features,
                      Real* to) const {
    const std::size_t count = panel.rows;
    if constexpr (std::is_same_v<Real, float>) {
      if (rows_.pairs)
        return lay_in_pairs(
            rows_.plan.columns, panel.place,
            pair_lines(static_cast<std::size_t>(panel.place.group_rows), products_.depth), rows,
            count, features, to);
    }
    each_columns(rows_.plan.columns, features, [&](const Columns& columns) {
      Real* row_to = to + columns.first * count;
      const std::size_t used = std::min(columns.pitch, features - columns.first);
      for (std::size_t r = 0; r < count; ++r, row_to += columns.pitch) {
        std::copy_n(rows[r] + columns.first, used, row_to);
        std::fill(row_to + used, row_to + columns.pitch, Real{0});
      }
    });
  }

  const PackRows<Real>& rows_;
  const AttentionThread<Real>& on_ = rows_.on;
  const ProductKernels<Real>& products_ = rows_.products();
  const Scores<Real>& scores_;
};

}  // namespace heed
