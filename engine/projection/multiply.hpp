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

  /// Rows: the `task`-th plan.task_panels panels. Features out: [begin, end).
  void run(std::int64_t task, std::int64_t begin, std::int64_t end) const;

 private:
  /// Rows are numbered as in x and y.
  struct Panel : PanelRows {
    Real* x;             ///< the tile's features in, of the task's own, or given
    Real* accumulators;  ///< of the tile's features out
  };
  /// Panel p of the task, for a tile of the sweep that begins with a feature out.
  Panel panel(std::int64_t first_panel, std::int64_t p, const TileOf& tile,
              std::int64_t sweep) const;

  /// All panels times a tile of weights; `packs` their part of x first.
  void multiply_tile(std::int64_t first_panel, std::int64_t panels, const TileOf& tile,
                     std::int64_t sweep, bool packs) const;
  /// Features in [k, k + ins) by features out [x, x + outs) of the matrix.
  ValueView<Real> weights(const TileOf& tile) const;
  /// A block of features out as the matrix has it, to [ins][value_block].
  void read_whole(const TileOf& block, Real* to) const;
  /// A prepared matrix that is packed for other products.
  void pack_again(const heed_weights& prepared, const TileOf& tile, Real* to) const;
  /// Multiplies features out [x, x + outs) of a panel again as numbers where results are not
  /// finite, and takes those alone, so that an element depends on its own row.
  void finish(const Panel& panel, std::int64_t x, std::int64_t outs) const;
  void multiply_again(const Panel& panel, std::int64_t x, std::int64_t outs) const;
  /// The bias of features out [x, x + outs); nullptr: none.
  const Real* bias(std::int64_t x, std::int64_t outs) const;
  void store(const Panel& panel, std::int64_t x, std::int64_t outs) const;
  void store_lines(const Panel& panel, std::int64_t x, std::int64_t outs) const;
  void scale(const Panel& panel, std::int64_t outs) const;

  Real* buffer(std::size_t offset) const { return reinterpret_cast<Real*>(slab_ + offset); }

  const KernelTable<Real>& kernels_;
  const ProductKernels<Real>& products_;
  const Packing packing_;
  const Matmul& matmul_;
  const MatmulPlan& plan_;
  const ItemCut cut_;
  std::byte* const slab_;
};

extern template class Multiply<float>;
extern template class Multiply<double>;

}  // namespace heed
