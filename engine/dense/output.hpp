// The results of a query block: its rows of out and of the log-sum-exp, and how the softmax of each
// row ended.
#pragma once

#include "engine/dense/panel.hpp"
#include "engine/tensor/merge.hpp"

namespace heed {

/// to[x] += from[x] * factor.
template <class Real>
void add_scaled(const Real* __restrict from, Real factor, std::size_t count, Real* __restrict to) {
#pragma GCC unroll 8
  for (std::size_t x = 0; x < count; ++x) to[x] += from[x] * factor;
}

template <class Real>
class Output {
 public:
  /// `results` is nullptr if nobody asks for weights.
  Output(const AttentionThread<Real>& on, RowResult<Real>* results) : on_(on), results_(results) {}

  /// Normalises and writes the panel's accumulators: all rows, or the `wanted` ones alone.
  void write(const Panel<Real>& panel, const bool* wanted = nullptr) const {
    const Real* const sums = panel.state.accumulators;
    alignas(kAlignment) Real kept[kMaxPanel];
    const Real* row_sum = panel.state.row_sum;
    if (on_.problem.dropout > 0) {
      multiply_values(row_sum, static_cast<Real>(on_.problem.kept()), panel.pitch, kept);
      row_sum = kept;
    }
    store_rows(
        on_.kernels, panel, sums, row_sum, features_, out_, on_.buffer(&Slab::rows),
        [&](std::size_t, std::int64_t row, std::int64_t head) {
          return on_.query_row(on_.args.out, out_, row, head);
        },
        wanted);
    if (on_.args.lse == nullptr && results_ == nullptr) return;
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t head) {
      if (wanted == nullptr || wanted[i]) write_softmax(panel.state, i, row, head);
    });
  }

  /// Merges partial results of the panel's rows over chunks of keys, in their order, and writes the
  /// rows. each_chunk(function) calls function(partial result) for every chunk.
  template <class EachChunk>
  void write_merged(Panel<Real> panel, const EachChunk& each_chunk) const {
    Real* const merged = on_.buffer(&Slab::accumulators);
    panel.state.row_max = on_.buffer(&Slab::row_max);
    panel.state.row_sum = on_.buffer(&Slab::row_sum);
    panel.begin_sums(on_.sinks());
    const auto share = [&](Real row_max, Real most) {
      if (row_max == most) return Real{1};
      Real power = row_max - most;
      on_.kernels.numbers.exp2(&power, &power, 1);
      return power;
    };
    const auto kept = static_cast<Real>(on_.problem.kept());
    panel.each_row([&](std::size_t r, std::int64_t row, std::int64_t head) {
      Real most = panel.state.row_max[r];
      each_chunk([&](const PartialResults<Real>& of) { most = std::max(most, of.row_max[r]); });
      Real sum = panel.state.row_sum[r] * share(panel.state.row_max[r], most);
      std::fill_n(merged, features_, Real{0});
      each_chunk([&](const PartialResults<Real>& of) {
        const Real factor = share(of.row_max[r], most);
        sum += of.row_sum[r] * factor;
        add_scaled(of.sums + r * features_, factor, features_, merged);
      });
      panel.state.row_max[r] = most;
      panel.state.row_sum[r] = sum;
      multiply_values(merged, sum == 0 ? Real{0} : 1 / (sum * kept), features_, merged);
      write_values(row, head, merged);
      write_softmax(panel.state, r, row, head);
    });
  }

  /// Hard attention: writes row i of the panel, `values`, which is the value of `key`.
  void write_hard(const Panel<Real>& panel, std::size_t i, std::int64_t key,
                  const Real* values) const {
    const std::int64_t row = panel.query_row(i);
    const std::int64_t head = panel.head(i);
    if (results_ != nullptr) result(row, head).argmax = key;
    write_values(row, head, values);
  }

 private:
  void write_values(std::int64_t row, std::int64_t head, const Real* values) const {
    on_.kernels.numbers.write(out_.type, values, features_,
                              on_.query_row(on_.args.out, out_, row, head), out_.strides.feature);
  }

  /// Writes how the softmax of row i ended, where somebody asks.
  void write_softmax(const RowState<Real>& state, std::size_t i, std::int64_t row,
                     std::int64_t head) const {
    if (on_.args.lse != nullptr)
      write_log_sum_exp(on_.plan.context->kernels->f64, on_.problem.lse.type,
                        log_sum_exp(state.row_max[i], state.row_sum[i]),
                        on_.query_row(on_.args.lse, on_.problem.lse, row, head));
    if (results_ != nullptr) result(row, head).soft = {state.row_max[i], state.row_sum[i]};
  }

  RowResult<Real>& result(std::int64_t row, std::int64_t head) const {
    const Problem& p = on_.problem;
    return results_[(on_.sequence.batch * p.query_heads + head) * p.query_length + row];
  }

  const AttentionThread<Real> on_;
  const Layout& out_ = on_.problem.out;
  const std::size_t features_ = on_.value_features();
  RowResult<Real>* const results_;
};

}  // namespace heed
