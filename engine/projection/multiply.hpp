// One task of a product: some panels of rows times some features out.
#pragma once

#include "engine/projection/matmul.hpp"
#include "engine/tensor/panels.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {

template <class Real>
class Multiply {
 public:
  /// The slab is the thread's.
  Multiply(const KernelTable<Real>& kernels, const Matmul& matmul, std::byte* slab);

  /// Rows: the `part`-th plan.task_panels panels. Features out: [begin, end).
  void run(std::int64_t part, std::int64_t begin, std::int64_t end) const;

 private:
  /// Rows are numbered as in x and y.
  struct Panel : PanelRows {
    const Real* x;
    Real* packed;        ///< x, if this task packs it
    Real* accumulators;  ///< of the block of features out
  };
  /// Panel p of the task, and features out from x on.
  Panel panel(std::int64_t first_panel, std::int64_t p, std::int64_t x) const;

  /// Features out [x, x + outs) of all panels.
  void multiply_block(std::int64_t first_panel, std::int64_t panels, std::int64_t x,
                      std::int64_t outs, bool packs) const;
  /// Features in [k, k + ins) by features out [x, x + outs) of the matrix.
  ValueView<Real> weights(const TileOf& tile) const;
  /// The bias of features out [x, x + outs); nullptr: none.
  const Real* bias(std::int64_t x, std::int64_t outs) const;
  void store(const Panel& panel, std::int64_t x, std::int64_t outs) const;
  void store_lines(const Panel& panel, std::int64_t x, std::int64_t outs) const;
  void scale(const Panel& panel, std::int64_t outs) const;

  Real* buffer(std::size_t offset) const { return reinterpret_cast<Real*>(slab_ + offset); }

  const KernelTable<Real>& kernels_;
  const Matmul& matmul_;
  const MatmulPlan& plan_;
  const ItemCut cut_;
  std::byte* const slab_;
};

extern template class Multiply<float>;
extern template class Multiply<double>;

}  // namespace heed
