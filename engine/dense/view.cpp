#include "engine/dense/view.hpp"

#include <algorithm>
#include <limits>

#include "engine/dense/panel.hpp"
#include "engine/dense/scores.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {
namespace {

/// One query head of one sequence against a chunk of its keys.
template <class Real>
class View {
 public:
  View(const heed_attention_plan& plan, const heed_attention_args& args, std::int64_t task,
       std::byte* slab, const RowResult<Real>* results)
      : plan_(plan),
        problem_(plan.problem),
        args_(args),
        kernels_(kernels_of<Real>(*plan.context->kernels)),
        head_(task / plan.chunks % problem_.query_heads),
        sequence_(sequence_of(problem_, args, task / plan.chunks / problem_.query_heads)),
        slab_(slab),
        results_(results +
                 (sequence_.batch * problem_.query_heads + head_) * problem_.query_length),
        begin_(task % plan.chunks * plan.tile_kv),
        end_(std::min(begin_ + plan.tile_kv, problem_.key_length)) {}

  /// Rows of the matrix of weights, as many of them as are wanted.
  void write_weights() const {
    const std::int64_t* const listed = problem_.weight_rows > 0 ? args_.weight_rows : nullptr;
    std::int64_t rows = sequence_.query_length;
    if (listed != nullptr)
      rows = std::lower_bound(listed, listed + problem_.weight_rows, rows) - listed;
    const Stack stack = {head_, 1, listed};
    const Scores<Real> scores(plan_, args_, sequence_, problem_.weights_point, slab_);
    each_step([&](std::int64_t k, std::int64_t keys) {
      each_panel(stack, rows, [&](const Panel<Real>& panel) {
        Real* const tile = buffer(plan_.slab.scores);
        fill(scores, panel, problem_.weights_point, k, keys, tile);
        write_rows(panel, k, static_cast<std::size_t>(keys), tile);
      });
    });
  }

  /// Probabilities summed over rows: lane by lane over the panels, then over the lanes.
  void write_column_sums() const {
    const Stack stack = {head_, 1, nullptr};
    const Scores<Real> scores(plan_, args_, sequence_, HEED_WEIGHTS_PROBABILITIES, slab_);
    Real* const lanes = buffer(plan_.slab.columns);
    const auto width = static_cast<std::size_t>(plan_.panel_rows);
    each_step([&](std::int64_t k, std::int64_t keys) {
      const auto count = static_cast<std::size_t>(keys);
      std::fill_n(lanes, count * width, Real{0});
      each_panel(stack, sequence_.query_length, [&](const Panel<Real>& panel) {
        Real* const tile = buffer(plan_.slab.scores);
        fill(scores, panel, HEED_WEIGHTS_PROBABILITIES, k, keys, tile);
        add_rows(panel, count, tile, lanes);
      });
      write_sums(k, count, lanes);
    });
  }

 private:
  Real* buffer(std::size_t offset) const { return reinterpret_cast<Real*>(slab_ + offset); }

  /// Calls function(k, keys) for the steps of the chunk.
  template <class Function>
  void each_step(Function&& function) const {
    const std::int64_t step = kernels_.key_step;
    for (std::int64_t k = begin_; k < end_; k += step) function(k, std::min(step, end_ - k));
  }

  template <class Function>
  void each_panel(const Stack& stack, std::int64_t rows, Function&& function) const {
    for (std::int64_t r = 0; r < rows; r += plan_.panel_rows) {
      Panel<Real> panel = make_panel<Real>(stack, sequence_, r,
                                           std::min(plan_.panel_rows, rows - r), kernels_.lanes);
      panel.query = buffer(plan_.slab.query);
      panel.state.reference = buffer(plan_.slab.reference);
      panel.state.sum = buffer(plan_.slab.sum);
      function(panel);
    }
  }

  /// tile[j][i]: what key k + j and the panel's row i have at `point`. Keys past the end of the
  /// sequence are not read.
  void fill(const Scores<Real>& scores, const Panel<Real>& panel, heed_weights_point point,
            std::int64_t k, std::int64_t keys, Real* tile) const {
    const std::size_t pitch = panel.vectors * kernels_.lanes;
    const std::int64_t present = std::clamp(sequence_.key_length - k, std::int64_t{0}, keys);
    const auto count = static_cast<std::size_t>(present);
    const bool masked = point >= HEED_WEIGHTS_MASKED;
    const Real nothing = point == HEED_WEIGHTS_MASKED ? -std::numeric_limits<Real>::infinity() : 0;
    const Allowed allowed = present == 0 ? Allowed::kNone
                            : masked     ? scores.allowed(panel, k, count)
                                         : Allowed::kAll;
    if (point == HEED_WEIGHTS_PROBABILITIES) recall(panel);
    if (allowed == Allowed::kNone) {
      std::fill_n(tile, static_cast<std::size_t>(keys) * pitch, nothing);
      return;
    }
    if (problem_.hard && point == HEED_WEIGHTS_PROBABILITIES) {
      std::fill_n(tile, static_cast<std::size_t>(keys) * pitch, Real{0});
      mark_hardest(panel, k, present, tile);
      return;
    }
    scores.pack_query(panel);
    const std::int64_t group = problem_.group();
    const KeyRanges needed = masked ? scores.limited(panel, k, count) : all_keys(count);
    scores.compute(panel, scores.keys(head_ / group, k, k + present), k, count, needed, allowed,
                   tile);
    if (point == HEED_WEIGHTS_PROBABILITIES) {
      alignas(kAlignment) Real unused[kMaxPanel] = {};
      kernels_.exponentials(tile, count, panel.state.reference, unused, panel.vectors);
      kernels_.normalise(tile, panel.state.sum, count, tile, panel.vectors);
    }
    std::fill(tile + count * pitch, tile + static_cast<std::size_t>(keys) * pitch, nothing);
  }

  /// Fetches how the softmax of the panel's rows ended; lanes without a row stay harmless.
  void recall(const Panel<Real>& panel) const {
    std::fill_n(panel.state.reference, panel.vectors * kernels_.lanes, Real{0});
    std::fill_n(panel.state.sum, panel.vectors * kernels_.lanes, Real{1});
    if (problem_.hard) return;
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t) {
      panel.state.reference[i] = results_[row].soft.reference;
      panel.state.sum[i] = results_[row].soft.sum;
    });
  }

  void mark_hardest(const Panel<Real>& panel, std::int64_t k, std::int64_t keys, Real* tile) const {
    const std::size_t pitch = panel.vectors * kernels_.lanes;
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t) {
      const std::int64_t j = results_[row].hardest;
      if (j >= k && j < k + keys) tile[static_cast<std::size_t>(j - k) * pitch + i] = 1;
      if (j != kNotANumber) return;
      for (std::int64_t n = 0; n < keys; ++n)
        tile[static_cast<std::size_t>(n) * pitch + i] = std::numeric_limits<Real>::quiet_NaN();
    });
  }

  /// Writes the transpose of the tile.
  void write_rows(const Panel<Real>& panel, std::int64_t k, std::size_t keys,
                  const Real* tile) const {
    const Layout& layout = problem_.weights;
    alignas(kAlignment) Real ones[kMaxPanel];
    std::fill_n(ones, kMaxPanel, Real{1});
    store_rows(kernels_, panel, tile, ones, keys, layout, buffer(plan_.slab.rows),
               [&](std::size_t i, std::int64_t, std::int64_t) {
                 return row_at(args_.weights, layout, sequence_.batch, head_,
                               panel.first_row + static_cast<std::int64_t>(i)) +
                        k * layout.strides.feature * layout.bytes;
               });
  }

  void add_rows(const Panel<Real>& panel, std::size_t keys, const Real* tile, Real* lanes) const {
    const std::size_t pitch = panel.vectors * kernels_.lanes;
    const auto width = static_cast<std::size_t>(plan_.panel_rows);
    for (std::size_t j = 0; j < keys; ++j)
      for (std::size_t i = 0; i < panel.rows; ++i) lanes[j * width + i] += tile[j * pitch + i];
  }

  void write_sums(std::int64_t k, std::size_t keys, const Real* lanes) const {
    const Layout& layout = problem_.column_sums;
    const auto width = static_cast<std::size_t>(plan_.panel_rows);
    Real* const sums = buffer(plan_.slab.scores);
    for (std::size_t j = 0; j < keys; ++j) {
      sums[j] = 0;
      for (std::size_t i = 0; i < width; ++i) sums[j] += lanes[j * width + i];
    }
    kernels_.write(layout.type, sums, keys,
                   row_at(args_.column_sums, layout, sequence_.batch, head_, k),
                   layout.strides.row);
  }

  const heed_attention_plan& plan_;
  const Problem& problem_;
  const heed_attention_args& args_;
  const KernelTable<Real>& kernels_;
  const std::int64_t head_;
  const Sequence sequence_;
  std::byte* const slab_;
  const RowResult<Real>* const results_;  ///< of this head's rows
  const std::int64_t begin_, end_;        ///< keys of the chunk
};

template <class Real>
void view(const heed_attention_plan& plan, const heed_attention_args& args, std::int64_t begin,
          std::int64_t end, std::byte* slab, const std::byte* results) {
  for (std::int64_t task = begin; task < end; ++task) {
    const View<Real> view(plan, args, task, slab,
                          reinterpret_cast<const RowResult<Real>*>(results));
    if (plan.problem.weights_point != HEED_WEIGHTS_NONE) view.write_weights();
    if (plan.problem.sum_columns) view.write_column_sums();
  }
}

}  // namespace

void view_chunks(const heed_attention_plan& plan, const heed_attention_args& args,
                 std::int64_t begin, std::int64_t end, std::byte* slab,
                 std::byte* results) noexcept {
  with_real(plan.problem.float64,
            [&](auto real) { view<decltype(real)>(plan, args, begin, end, slab, results); });
}

}  // namespace heed
