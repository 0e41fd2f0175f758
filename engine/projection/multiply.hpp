// One task of a product: some panels of rows times some features out.
#pragma once

#include "engine/dense/cut.hpp"
#include "engine/dense/tile.hpp"
#include "engine/projection/product.hpp"

namespace heed {

template <class Real>
class Multiply {
 public:
  /// The slab is the thread's.
  Multiply(const KernelTable<Real>& kernels, const Product& product, std::byte* slab);

  /// Rows: the `part`-th plan.task_panels panels. Features out: [begin, end).
  void run(std::int64_t part, std::int64_t begin, std::int64_t end) const;

 private:
  struct Panel {
    std::int64_t first;  ///< row of x and y
    std::size_t rows;
    std::size_t vectors;
    Real* x;
    Real* accumulators;
  };
  Panel panel(std::int64_t p, std::int64_t first_panel) const;

  /// Features out [x, x + outs) of all panels.
  void multiply_block(std::int64_t first_panel, std::int64_t panels, std::int64_t x,
                      std::int64_t outs, bool packs) const;
  /// Transposes features in [k, k + ins) of the panel's rows.
  void pack(const Panel& panel, std::int64_t k, std::int64_t ins) const;
  /// Features in [k, k + ins) by features out [x, x + outs) of the matrix.
  ValueView<Real> weights(const TileOf& tile) const;
  /// The bias of features out [x, x + outs); nullptr: none.
  const Real* bias(std::int64_t x, std::int64_t outs) const;
  void store(const Panel& panel, std::int64_t x, std::int64_t outs) const;

  Real* buffer(std::size_t offset) const { return reinterpret_cast<Real*>(slab_ + offset); }

  const KernelTable<Real>& kernels_;
  const Product& product_;
  const ProductPlan& plan_;
  const PanelCut cut_;
  std::byte* const slab_;
};

extern template class Multiply<float>;
extern template class Multiply<double>;

}  // namespace heed
