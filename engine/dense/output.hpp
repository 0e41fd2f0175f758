// The results of a query block: its rows of out and of the log-sum-exp, and how the softmax of each
// row ended.
#pragma once

#include "engine/dense/panel.hpp"
#include "engine/dense/plan.hpp"

namespace heed {

template <class Real>
class Output {
 public:
  /// The slab is the thread's; `results` is nullptr if nobody asks for weights.
  Output(const heed_attention_plan& plan, const heed_attention_args& args, const Sequence& sequence,
         std::byte* slab, RowResult<Real>* results);

  /// Normalises and writes the panel's accumulators.
  void write(const Panel<Real>& panel) const;

  /// Writes row i of the panel, whose normalised features are `values`.
  void write_row(const Panel<Real>& panel, std::size_t i, const Real* values) const;

  /// Hard attention: writes row i of the panel, `values`, which is the value of `key`.
  void write_hard(const Panel<Real>& panel, std::size_t i, std::int64_t key, Real* values) const;

 private:
  void write_panel(const Panel<Real>& panel) const;
  void write_softmax(const Panel<Real>& panel, std::size_t i) const;
  void write_lse(std::int64_t row, std::int64_t head, Real row_max, Real sum) const;
  std::byte* out_row(std::int64_t row, std::int64_t head) const;
  RowResult<Real>& result(std::int64_t row, std::int64_t head) const;

  const heed_attention_plan& plan_;
  const Problem& problem_;
  const heed_attention_args& args_;
  const Sequence& sequence_;
  const KernelTable<Real>& kernels_;
  std::byte* slab_;
  RowResult<Real>* results_;
};

extern template class Output<float>;
extern template class Output<double>;

}  // namespace heed
