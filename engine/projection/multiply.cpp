#include <algorithm>
#include <cmath>

#include "engine/parallel/parallel_for.hpp"
#include "engine/projection/matmul.hpp"
#include "engine/tensor/loops.hpp"
#include "engine/tensor/panels.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {
namespace {

// ---- Rows in panels -----------------------------------------------------------------------------

/// Lines that lie apart are fetched so many early.
constexpr std::int64_t kLinesAhead = 12;
constexpr std::int64_t kCacheLine = 64;

/// Transposes features [k, k + count) of a panel's rows to `to`, where feature k of the panel lies,
/// as these products want them; products of pairs use one line more. `wide`, [rows][count], is used
/// where rows need widening.
template <class Real>
void pack_rows(const KernelTable<Real>& kernels, const ProductKernels<Real>& products,
               const InputRows& from, const PanelRows& panel, std::int64_t k, std::int64_t count,
               Real* wide, Real* to) {
  const Layout& layout = from.layout;
  const std::int64_t feature_bytes = layout.strides.feature * layout.bytes;
  const auto rows = static_cast<std::int64_t>(panel.rows);
  if (products.depth == 1 && layout.strides.row == 1 &&
      from.in_step(panel.first, panel.first + rows) == rows) {
    // The rows lie side by side already, as a transposed matrix's do.
    const std::byte* const first = from.at(panel.first) + k * feature_bytes;
    const std::int64_t bytes = rows * layout.bytes;
    for (std::int64_t f = 0; f < count; ++f) {
      Real* const line = to + f * static_cast<std::int64_t>(panel.pitch);
      const std::byte* const from = first + f * feature_bytes;
      // Lines are too short for the processor to see the next ones coming.
      for (std::int64_t at = 0; f + kLinesAhead < count && at < bytes; at += kCacheLine)
        __builtin_prefetch(from + kLinesAhead * feature_bytes + at);
      kernels.numbers.read(layout.type, from, 1, panel.rows, line);
      std::fill(line + panel.rows, line + panel.pitch, Real{0});
    }
    return;
  }
  const bool in_place = layout.type == kTypeOf<Real>;
  const Real* at[kMaxPanel] = {};
  for (std::size_t i = 0; i < panel.rows; ++i) {
    const std::byte* const row =
        from.at(panel.first + static_cast<std::int64_t>(i)) + k * feature_bytes;
    Real* const widened = wide + static_cast<std::int64_t>(i) * count;
    if (!in_place)
      kernels.numbers.read(layout.type, row, layout.strides.feature,
                           static_cast<std::size_t>(count), widened);
    at[i] = in_place ? reinterpret_cast<const Real*>(row) : widened;
  }
  products.pack_query(panel.vectors, at, panel.rows, in_place ? layout.strides.feature : 1,
                      static_cast<std::size_t>(count), Real{1}, to);
}

// ---- Products -----------------------------------------------------------------------------------

/// One task of a product: some panels of rows times some features out.
template <class Real>
class Multiply {
 public:
  /// The slab is the thread's.
  Multiply(const heed_context& context, const Matmul& matmul, std::byte* slab)
      : kernels_(kernels_of<Real>(*context.kernels)),
        products_(products_of(kernels_, matmul.parts(context))),
        matmul_(matmul),
        slab_(slab) {}

  /// Rows: the `task`-th plan.task_panels panels. Features out: [begin, end).
  void run(std::int64_t task, std::int64_t begin, std::int64_t end) const {
    const std::int64_t first = task * plan_.task_panels;
    const std::int64_t panels = std::min(plan_.task_panels, cut_.panels() - first);
    const std::int64_t step = packing_.tile_in();
    for (std::int64_t sweep = begin; sweep < end; sweep += plan_.sweep_out) {
      const std::int64_t sweep_end = std::min(sweep + plan_.sweep_out, end);
      for (std::int64_t k = 0; k < plan_.size.in; k += step)
        for (std::int64_t x = sweep; x < sweep_end; x += plan_.out_block)
          multiply_tile(
              first, panels,
              {k, std::min(step, plan_.size.in - k), x, std::min(plan_.out_block, sweep_end - x)},
              sweep, x == begin);
    }
  }

 private:
  /// Rows are numbered as in x and y.
  struct Panel : PanelRows {
    Real* x;             ///< the tile's features in
    Real* accumulators;  ///< of the tile's features out
  };

  /// Panel p of the task, for a tile of the sweep that begins with a feature out.
  Panel panel(std::int64_t first_panel, std::int64_t p, const TileOf& tile,
              std::int64_t sweep) const {
    const std::int64_t first = cut_.begin(first_panel + p);
    const std::int64_t before = first - cut_.begin(first_panel);  // rows of the task
    Panel panel{};
    static_cast<PanelRows&>(panel) =
        PanelRows::of(first, cut_.begin(first_panel + p + 1) - first, kernels_.panels.lanes);
    const auto pitch = static_cast<std::int64_t>(panel.pitch);
    const std::int64_t lines = packing_.lines(tile.k) * pitch;
    panel.x =
        buffer(plan_.slab.x) + before * plan_.x_lines + (plan_.keeps_x() ? lines : std::int64_t{0});
    // Sums that one tile completes leave before the next panel's begin.
    panel.accumulators = buffer(plan_.slab.accumulators);
    if (plan_.size.in > packing_.tile_in())
      panel.accumulators += before * plan_.sweep_out + (tile.x - sweep) * pitch;
    return panel;
  }

  /// All panels times a tile of weights; `packs` their share of x first.
  void multiply_tile(std::int64_t first_panel, std::int64_t panels, const TileOf& tile,
                     std::int64_t sweep, bool packs) const {
    const auto [k, ins, x, outs] = tile;
    const bool begins = k == 0;
    const bool ends = k + ins == plan_.size.in;
    const Real* const start = begins ? bias(x, outs) : nullptr;
    const ValueView<Real> view = weights(tile);
    for (std::int64_t p = 0; p < panels; ++p) {
      const Panel panel = this->panel(first_panel, p, tile, sweep);
      const auto pitch = static_cast<std::int64_t>(panel.pitch);
      if (packs)
        pack_rows(kernels_, products_, matmul_.x, panel, k, ins, buffer(plan_.slab.wide), panel.x);
      for (std::int64_t i = 0; begins && start != nullptr && i < outs; ++i)
        fill_values(start[i], panel.pitch, panel.accumulators + i * pitch);
      if (begins && matmul_.adds)
        pack_rows<Real>(kernels_, kernels_.panels,
                        {matmul_.y.data, matmul_.y.layout, matmul_.y.per_batch}, panel, x, outs,
                        buffer(plan_.slab.wide), panel.accumulators);
      products_.multiply_panel(panel.vectors, view, static_cast<std::size_t>(ins), panel.x,
                               panel.accumulators, static_cast<std::size_t>(outs),
                               begins && start == nullptr && !matmul_.adds);
      if (ends) finish(panel, x, outs);  // while the sums are in the cache
    }
  }

  /// Multiplying again leaves the tile that is packed last as it was.
  void finish(const Panel& panel, std::int64_t x, std::int64_t outs) const {
    const auto values = static_cast<std::size_t>(outs) * panel.pitch;
    if (!packing_.is_plain() && !kernels_.numbers.all_finite(panel.accumulators, values))
      multiply_again(panel, x, outs);
    store(panel, x, outs);
  }

  /// Multiplies features out [x, x + outs) of a panel again as floats where results are not
  /// finite, and takes these alone, so that an element depends on its own row.
  void multiply_again(const Panel& panel, std::int64_t x, std::int64_t outs) const {
    const auto pitch = static_cast<std::int64_t>(panel.pitch);
    Real* const again = buffer(plan_.slab.again);
    Real* const rows = buffer(plan_.slab.again_x);
    Real* const wide = buffer(plan_.slab.again_w);
    const Real* const start = bias(x, outs);
    for (std::int64_t i = 0; start != nullptr && i < outs; ++i)
      std::fill_n(again + i * pitch, pitch, start[i]);
    const std::int64_t step = packing_.tile_in();
    for (std::int64_t k = 0; k < plan_.size.in; k += step) {
      const std::int64_t ins = std::min(step, plan_.size.in - k);
      pack_rows<Real>(kernels_, kernels_.panels, matmul_.x, panel, k, ins, buffer(plan_.slab.wide),
                      rows);
      // One component has lost digits, and products go on without them; several have not.
      const ValueView<Real> packed =
          packing_.parts == 1 ? weights({k, ins, x, outs}) : ValueView<Real>{};
      for (std::int64_t o = 0; o < outs; o += kOutBlock) {
        if (packing_.parts == 1)
          widen_block(packed.data + o / kOutBlock * packed.block_stride, packing_.depth, ins, wide);
        else
          read_whole({k, ins, x + o, std::min(kOutBlock, outs - o)}, wide);
        kernels_.panels.multiply_panel(panel.vectors, packed_view<Real>(kernels_.panels, wide, ins),
                                       static_cast<std::size_t>(ins), rows, again + o * pitch,
                                       static_cast<std::size_t>(std::min(kOutBlock, outs - o)),
                                       k == 0 && start == nullptr);
      }
    }
    for (std::int64_t i = 0; i < outs * pitch; ++i)
      if (!std::isfinite(panel.accumulators[i])) panel.accumulators[i] = again[i];
  }

  /// A block of features out as the matrix has it, to [ins][value_block].
  void read_whole(const TileOf& block, Real* to) const {
    const MatrixArgument& w = matmul_.w;
    if (w.prepared != nullptr)
      read_block(*w.prepared, block.k, block.ins, block.x, to);
    else
      pack_tile<Real>(kernels_, kernels_.panels, w.matrix, w.data, block, buffer(plan_.slab.wide),
                      to);
  }

  /// Features in [k, k + ins) by features out [x, x + outs) of the matrix.
  ValueView<Real> weights(const TileOf& tile) const {
    const heed_weights* const prepared = matmul_.w.prepared;
    if (prepared != nullptr && prepared->packing == packing_)
      return packed_view(products_, prepared->tile<Real>(tile.k, tile.x), tile.ins);
    Real* const packed = buffer(plan_.slab.weights);
    if (prepared != nullptr)
      pack_again(*prepared, tile, packed);
    else
      pack_tile(kernels_, products_, matmul_.w.matrix, matmul_.w.data, tile,
                buffer(plan_.slab.wide), packed);
    return packed_view<Real>(products_, packed, tile.ins);
  }

  /// A prepared matrix that is packed for other products.
  void pack_again(const heed_weights& prepared, const TileOf& tile, Real* to) const {
    for (std::int64_t o = 0; o < tile.outs; o += kOutBlock) {
      Real* const block = to + packing_.lines(tile.ins) * o;
      Real* const wide = packing_.is_plain() ? block : buffer(plan_.slab.wide);
      read_block(prepared, tile.k, tile.ins, tile.x + o, wide);
      if (!packing_.is_plain())
        products_.pack_values({wide, kOutBlock, 1}, static_cast<std::size_t>(tile.ins),
                              static_cast<std::size_t>(kOutBlock), block);
    }
  }

  /// The bias of features out [x, x + outs); nullptr: none.
  const Real* bias(std::int64_t x, std::int64_t outs) const {
    const MatrixArgument& w = matmul_.w;
    if (w.prepared != nullptr)
      return w.prepared->bias == nullptr ? nullptr : static_cast<const Real*>(w.prepared->bias) + x;
    if (w.bias == nullptr) return nullptr;
    kernels_.numbers.read(w.bias_layout.type,
                          static_cast<const std::byte*>(w.bias) + x * w.bias_layout.bytes, 1,
                          static_cast<std::size_t>(outs), buffer(plan_.slab.bias));
    return buffer(plan_.slab.bias);
  }

  void store(const Panel& panel, std::int64_t x, std::int64_t outs) const {
    const OutputRows& y = matmul_.y;
    if (y.layout.strides.row == 1 && y.per_batch >= matmul_.rows && y.per_head >= plan_.size.out)
      return store_lines(panel, x, outs);
    alignas(kAlignment) Real ones[kMaxPanel];
    std::fill_n(ones, kMaxPanel, Real{1});
    const auto pitch = static_cast<std::int64_t>(panel.pitch);
    for (std::int64_t at = x; at < x + outs;) {
      const std::int64_t count = std::min(y.per_head - at % y.per_head, x + outs - at);
      std::byte* to[kMaxPanel];
      for (std::size_t i = 0; i < panel.rows; ++i)
        to[i] = y.at(panel.first + static_cast<std::int64_t>(i), at);
      store_columns(kernels_, panel.accumulators + (at - x) * pitch, ones,
                    static_cast<std::size_t>(count), to, panel.rows, panel.vectors, y.layout,
                    buffer(plan_.slab.wide));
      at += count;
    }
  }

  /// Where rows lie side by side, as lanes do, nothing is transposed.
  void store_lines(const Panel& panel, std::int64_t x, std::int64_t outs) const {
    const Layout& layout = matmul_.y.layout;
    const std::int64_t step = layout.strides.feature * layout.bytes;
    const Real* from = panel.accumulators;
    std::byte* to = matmul_.y.at(panel.first, x);
    for (std::int64_t i = 0; i < outs; ++i, from += panel.pitch, to += step)
      kernels_.numbers.write(layout.type, from, panel.rows, to, 1);
  }

  Real* buffer(std::size_t offset) const { return reinterpret_cast<Real*>(slab_ + offset); }

  const KernelTable<Real>& kernels_;
  const ProductKernels<Real>& products_;
  const Packing packing_ = Packing::of(products_);
  const Matmul& matmul_;
  const MatmulPlan& plan_ = *matmul_.plan;
  const PanelCut cut_ = {matmul_.rows, plan_.panel_rows, plan_.lanes};
  std::byte* const slab_;
};

}  // namespace

void multiply(const heed_context& context, const Matmul& matmul, std::byte* slab, std::int64_t task,
              std::int64_t begin, std::int64_t end) {
  with_real(matmul.plan->size.float64, [&](auto real) {
    Multiply<decltype(real)>(context, matmul, slab).run(task, begin, end);
  });
}

}  // namespace heed
