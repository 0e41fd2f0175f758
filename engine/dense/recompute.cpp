// Weights that prefill did not keep, and sums of weights over rows, for rows whose softmax is
// known. Scores are computed again, a chunk of keys at a time, and become probabilities with the
// row_max and row_sum that each row ended with. So asking for them changes nothing in out, and
// takes memory for two numbers per row.
#include <algorithm>
#include <limits>

#include "engine/dense/panel.hpp"
#include "engine/dense/scores.hpp"
#include "engine/dense/strategy.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/tensor/argmax.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {
namespace {

/// One query head of one sequence against a chunk of its keys.
template <class Real>
class Chunk {
 public:
  Chunk(const heed_attention_plan& plan, const heed_attention_args& args, std::int64_t task,
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

  /// Whether somebody asks for weights, which prefill has not written.
  bool shows_weights() const {
    return problem_.weights_point != HEED_WEIGHTS_NONE && !plan_.keeps_probs(sequence_);
  }

  /// Writes the wanted rows of the matrix of weights.
  void write_weights() const {
    const std::int64_t* const listed = problem_.weight_rows > 0 ? args_.weight_rows : nullptr;
    std::int64_t rows = sequence_.query_length;
    if (listed != nullptr)
      rows = std::lower_bound(listed, listed + problem_.weight_rows, rows) - listed;
    const HeadPack pack = {head_, 1, listed};
    const Scores<Real> scores(plan_, args_, sequence_, problem_.weights_point, slab_);
    Real* const weights = buffer(plan_.slab.scores);
    each_block([&](const KeyBlock& block) {
      each_panel(pack, rows, [&](const Panel<Real>& panel) {
        fill(scores, panel, problem_.weights_point, block, weights);
        write_rows(panel, block, weights);
      });
    });
  }

  /// Sums probabilities over rows: lane by lane over the panels, then over the lanes.
  void write_column_sums() const {
    const HeadPack pack = {head_, 1, nullptr};
    const Scores<Real> scores(plan_, args_, sequence_, HEED_WEIGHTS_PROBABILITIES, slab_);
    Real* const lanes = buffer(plan_.slab.columns);
    const auto width = static_cast<std::size_t>(plan_.panel_rows);
    Real* const probs = buffer(plan_.slab.scores);
    each_block([&](const KeyBlock& block) {
      std::fill_n(lanes, block.keys * width, Real{0});
      each_panel(pack, sequence_.query_length, [&](const Panel<Real>& panel) {
        fill(scores, panel, HEED_WEIGHTS_PROBABILITIES, block, probs);
        add_rows(panel, block.keys, probs, lanes);
      });
      write_sums(block, lanes);
    });
  }

 private:
  Real* buffer(std::size_t offset) const { return reinterpret_cast<Real*>(slab_ + offset); }

  /// Calls function(block) for the key blocks of the chunk.
  template <class Function>
  void each_block(Function&& function) const {
    const std::int64_t step = kernels_.panels.key_block;
    for (std::int64_t k = begin_; k < end_; k += step)
      function(KeyBlock{k, static_cast<std::size_t>(std::min(step, end_ - k))});
  }

  template <class Function>
  void each_panel(const HeadPack& pack, std::int64_t rows, Function&& function) const {
    for (std::int64_t r = 0; r < rows; r += plan_.panel_rows) {
      Panel<Real> panel = make_panel<Real>(pack, sequence_, r, std::min(plan_.panel_rows, rows - r),
                                           kernels_.panels.lanes);
      panel.query = buffer(plan_.slab.query);
      panel.state.row_max = buffer(plan_.slab.row_max);
      panel.state.row_sum = buffer(plan_.slab.row_sum);
      function(panel);
    }
  }

  /// to[j][i] = the weight of the block's key j and the panel's row i at `point`. Keys past the end
  /// of the sequence are not read.
  void fill(const Scores<Real>& scores, const Panel<Real>& panel, heed_weights_point point,
            const KeyBlock& block, Real* to) const {
    const std::int64_t left = std::max(sequence_.key_length - block.begin, std::int64_t{0});
    const KeyBlock present = {block.begin, std::min(static_cast<std::size_t>(left), block.keys)};
    const bool masked = point >= HEED_WEIGHTS_MASKED;
    const Real nothing = point == HEED_WEIGHTS_MASKED ? -std::numeric_limits<Real>::infinity() : 0;
    const Allowed allowed = present.keys == 0 ? Allowed::kNone
                            : masked          ? scores.allowed(panel, present)
                                              : Allowed::kAll;
    const bool weighs = point == HEED_WEIGHTS_PROBABILITIES;
    const std::int64_t key_head = head_ / problem_.group();
    if (weighs) recall(panel);
    if (allowed == Allowed::kNone) {
      std::fill_n(to, present.keys * panel.pitch, nothing);
    } else if (weighs && problem_.hard) {
      std::fill_n(to, present.keys * panel.pitch, Real{0});
      mark_argmax(panel, present, to);
    } else {
      scores.pack_query(panel);
      if (weighs) {
        scores.weigh_again(panel, key_head, present, allowed, to);
      } else {
        const KeyRanges needed = masked ? scores.needed(panel, present) : all_keys(present.keys);
        const std::int64_t end = present.begin + static_cast<std::int64_t>(present.keys);
        scores.compute(panel, scores.keys(key_head, present.begin, end), present, needed, allowed,
                       to);
      }
    }
    if (weighs)  // NaN rows are NaN at all keys
      kernels_.panels.normalise(panel.vectors, to, panel.state.row_sum, present.keys, to);
    std::fill(to + present.keys * panel.pitch, to + block.keys * panel.pitch, nothing);
  }

  /// Fetches how the softmax of the panel's rows ended; lanes without a row get harmless numbers.
  void recall(const Panel<Real>& panel) const {
    std::fill_n(panel.state.row_max, panel.pitch, Real{0});
    std::fill_n(panel.state.row_sum, panel.pitch, Real{1});
    if (problem_.hard) return;
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t) {
      panel.state.row_max[i] = results_[row].soft.row_max;
      panel.state.row_sum[i] = results_[row].soft.row_sum;
    });
  }

  void mark_argmax(const Panel<Real>& panel, const KeyBlock& block, Real* probs) const {
    panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t) {
      const std::int64_t key = results_[row].argmax;
      const std::int64_t j = key - block.begin;
      if (key >= block.begin && j < static_cast<std::int64_t>(block.keys))
        probs[static_cast<std::size_t>(j) * panel.pitch + i] = 1;
      for (std::size_t n = 0; key == kNotANumber && n < block.keys; ++n)
        probs[n * panel.pitch + i] = std::numeric_limits<Real>::quiet_NaN();
    });
  }

  /// Writes the weights of the panel's rows, transposed.
  void write_rows(const Panel<Real>& panel, const KeyBlock& block, const Real* weights) const {
    const Layout& layout = problem_.weights;
    alignas(kAlignment) Real ones[kMaxPanel];
    std::fill_n(ones, kMaxPanel, Real{1});
    store_rows(kernels_, panel, weights, ones, block.keys, layout, buffer(plan_.slab.rows),
               [&](std::size_t i, std::int64_t, std::int64_t) {
                 return row_at(args_.weights, layout, sequence_.batch, head_,
                               panel.first + static_cast<std::int64_t>(i)) +
                        block.begin * layout.strides.feature * layout.bytes;
               });
  }

  void add_rows(const Panel<Real>& panel, std::size_t keys, const Real* probs, Real* lanes) const {
    const auto width = static_cast<std::size_t>(plan_.panel_rows);
    for (std::size_t j = 0; j < keys; ++j)
      for (std::size_t i = 0; i < panel.rows; ++i)
        lanes[j * width + i] += probs[j * panel.pitch + i];
  }

  void write_sums(const KeyBlock& block, const Real* lanes) const {
    const Layout& layout = problem_.column_sums;
    const auto width = static_cast<std::size_t>(plan_.panel_rows);
    Real* const sums = buffer(plan_.slab.scores);
    for (std::size_t j = 0; j < block.keys; ++j) {
      sums[j] = 0;
      for (std::size_t i = 0; i < width; ++i) sums[j] += lanes[j * width + i];
    }
    kernels_.numbers.write(layout.type, sums, block.keys,
                           row_at(args_.column_sums, layout, sequence_.batch, head_, block.begin),
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

}  // namespace

void recompute(const heed_attention_plan& plan, const heed_attention_args& args,
               std::byte* workspace) {
  std::byte* const slabs = workspace + plan.results_bytes;
  with_real(plan.problem.float64, [&](auto real) {
    using Real = decltype(real);
    parallel_for(plan.context->threads, {plan.recomputed, 1, plan.workers},
                 [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                   for (std::int64_t task = begin; task < end; ++task) {
                     const Chunk<Real> chunk(plan, args, task, slabs + worker * plan.slab.bytes,
                                             reinterpret_cast<const RowResult<Real>*>(workspace));
                     if (chunk.shows_weights()) chunk.write_weights();
                     if (plan.problem.sum_columns) chunk.write_column_sums();
                   }
                 });
  });
}

}  // namespace heed
