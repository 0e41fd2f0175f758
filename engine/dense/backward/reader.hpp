// Reads panels of query rows with their gradients, and tiles of keys.
#pragma once

#include "engine/dense/backward/panel.hpp"
#include "engine/dense/scores.hpp"
#include "engine/dense/values.hpp"

namespace heed {

template <class Real>
class Reader {
 public:
  Reader(const PackRows<Real>& rows, const Scores<Real>& scores);

  /// `count` rows of the pack from `first` on.
  GradPanel<Real> panel(std::int64_t first, std::int64_t count, const PanelPlace& place) const;

  /// Fills the panel's buffers but the columns; begins the terms of its rows. Leaves where these
  /// can be read: the rows of grad_out.
  void read(const GradPanel<Real>& panel, const Real** grad_out) const;
  /// Fills the columns too.
  void read_whole(const GradPanel<Real>& panel) const;

  KeyTile<Real> tile(std::int64_t begin, std::int64_t end) const;

 private:
  Real* buffer(std::size_t offset) const { return rows_.buffer(offset); }
  static void set_log_sum(const GradPanel<Real>& panel, std::size_t i, double base, double rest);
  bool read_row(const GradPanel<Real>& panel, std::size_t i, const Real* grad_out,
                Real* spare) const;
  void weigh_far_rows(const GradPanel<Real>& panel, const bool* far) const;
  void lay_in_columns(const GradPanel<Real>& panel, const Real* const* rows, std::size_t features,
                      Real* to) const;
  RowsView<Real> paired_values(std::int64_t begin, std::int64_t end) const;

  const PackRows<Real>& rows_;
  const Problem& problem_;
  const KernelTable<Real>& kernels_;
  const ProductKernels<Real>& products_;
  const Scores<Real>& scores_;
  const Values<Real> values_;
};

extern template class Reader<float>;
extern template class Reader<double>;

}  // namespace heed
