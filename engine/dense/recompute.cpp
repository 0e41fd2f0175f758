// Weights that prefill did not keep, and sums of weights over rows, for rows whose softmax is
// known. Scores are computed again, a chunk of keys at a time, and become probabilities with the
// row_max and row_sum that each row ended with. So asking for them changes nothing in out, and
// takes memory for two values per row.
//
// Products in another order round otherwise, and where scores are large by more than their
// exponentials bear. So rows that other products computed, which were decoded or multiplied in
// pairs of bfloat16, first have their row_max and row_sum found again from the products here.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/dense/scores.hpp"
#include "engine/tensor/argmax.hpp"

namespace heed {
namespace {

/// One query head of a sequence against a chunk of its keys.
template <class Real>
class Chunk {
 public:
  /// `results`: of the head's rows.
  Chunk(const AttentionThread<Real>& on, std::int64_t head, std::int64_t chunk,
        RowResult<Real>* results)
      : on_(on),
        head_(head),
        begin_(chunk * on.plan.tile_kv),
        end_(std::min(begin_ + on.plan.tile_kv, on.problem.key_length)),
        results_(results) {}

  /// Whether somebody asks for weights, which prefill has not written.
  bool shows_weights() const {
    return on_.problem.weights_point != HEED_WEIGHTS_NONE && !on_.plan.keeps_probs(on_.sequence);
  }

  /// Finds again how the softmax of the head's rows, or of the wanted ones, ends over all keys.
  /// Where only last digits differ it stays.
  void sum_rows() const {
    constexpr double kMoved = 8 * std::numeric_limits<Real>::epsilon();
    const bool all = on_.problem.sum_columns;
    const HeadPack pack = {head_, 1, all ? nullptr : listed_};
    const Scores<Real> scores(on_, HEED_WEIGHTS_PROBABILITIES);
    const std::int64_t rows = all ? on_.sequence.query_length : wanted_rows();
    each_panel(pack, rows, [&](const Panel<Real>& panel) {
      scores.pack_query(panel);
      scores.sum_rows(panel, key_head_, on_.buffer(&Slab::scores));
      panel.each_row([&](std::size_t i, std::int64_t row, std::int64_t) {
        auto& soft = results_[row].soft;
        const Real row_max = panel.state.row_max[i];
        const Real row_sum = panel.state.row_sum[i];
        const double moved = double{row_max} - double{soft.row_max} +
                             std::log2(double{row_sum} / double{soft.row_sum});
        if (std::fabs(moved) > kMoved) soft = {row_max, row_sum};
      });
    });
  }

  /// Writes the wanted rows of the matrix of weights.
  void write_weights() const {
    const HeadPack pack = {head_, 1, listed_};
    const Scores<Real> scores(on_, on_.problem.weights_point);
    Real* const weights = on_.buffer(&Slab::scores);
    each_block(begin_, end_, step_, [&](const KeyBlock& block) {
      each_panel(pack, wanted_rows(), [&](const Panel<Real>& panel) {
        fill(scores, panel, on_.problem.weights_point, block, weights);
        write_rows(panel, block, weights);
      });
    });
  }

  /// Sums probabilities over rows: lane by lane over the panels, then over the lanes.
  void write_column_sums() const {
    const HeadPack pack = {head_, 1, nullptr};
    const Scores<Real> scores(on_, HEED_WEIGHTS_PROBABILITIES);
    Real* const lanes = on_.buffer(&Slab::columns);
    const auto width = static_cast<std::size_t>(on_.plan.panel_rows);
    Real* const probs = on_.buffer(&Slab::scores);
    each_block(begin_, end_, step_, [&](const KeyBlock& block) {
      std::fill_n(lanes, block.keys * width, Real{0});
      each_panel(pack, on_.sequence.query_length, [&](const Panel<Real>& panel) {
        fill(scores, panel, HEED_WEIGHTS_PROBABILITIES, block, probs);
        add_rows(panel, block.keys, probs, lanes);
      });
      write_sums(block, lanes);
    });
  }

 private:
  /// Rows of the matrix of weights.
  std::int64_t wanted_rows() const {
    const std::int64_t rows = on_.sequence.query_length;
    if (listed_ == nullptr) return rows;
    return std::lower_bound(listed_, listed_ + on_.problem.weight_rows, rows) - listed_;
  }

  template <class Function>
  void each_panel(const HeadPack& pack, std::int64_t rows, Function&& function) const {
    for (std::int64_t r = 0; r < rows; r += on_.plan.panel_rows) {
      Panel<Real> panel = make_panel<Real>(
          pack, on_.sequence, r, std::min(on_.plan.panel_rows, rows - r), on_.kernels.panels.lanes);
      panel.query = on_.buffer(&Slab::query);
      panel.state.row_max = on_.buffer(&Slab::row_max);
      panel.state.row_sum = on_.buffer(&Slab::row_sum);
      function(panel);
    }
  }

  /// to[j][i] = the weight of the block's key j and the panel's row i at `point`. Keys past the end
  /// of the sequence are not read.
  void fill(const Scores<Real>& scores, const Panel<Real>& panel, heed_weights_point point,
            const KeyBlock& block, Real* to) const {
    const std::int64_t left = std::max(on_.sequence.key_length - block.begin, std::int64_t{0});
    const KeyBlock present = {block.begin, std::min(static_cast<std::size_t>(left), block.keys)};
    const bool masked = point >= HEED_WEIGHTS_MASKED;
    const Real nothing = point == HEED_WEIGHTS_MASKED ? -std::numeric_limits<Real>::infinity() : 0;
    const Allowed allowed = present.keys == 0 ? Allowed::kNone
                            : masked          ? scores.allowed(panel, present)
                                              : Allowed::kAll;
    const bool weighs = point == HEED_WEIGHTS_PROBABILITIES;
    if (weighs) recall(panel);
    if (allowed == Allowed::kNone) {
      std::fill_n(to, present.keys * panel.pitch, nothing);
    } else if (weighs && on_.problem.hard) {
      std::fill_n(to, present.keys * panel.pitch, Real{0});
      mark_argmax(panel, present, to);
    } else {
      scores.pack_query(panel);
      if (weighs) {
        scores.weigh_again(panel, key_head_, present, allowed, to);
      } else {
        const KeyRanges needed = masked ? scores.needed(panel, present) : all_keys(present.keys);
        scores.compute(panel, scores.keys(key_head_, present.begin, present.end()), present, needed,
                       allowed, to);
      }
    }
    if (weighs)  // NaN rows are NaN at all keys
      on_.kernels.panels.normalise(panel.vectors, to, panel.state.row_sum, present.keys, to);
    std::fill(to + present.keys * panel.pitch, to + block.keys * panel.pitch, nothing);
  }

  /// Fetches how the softmax of the panel's rows ended; lanes without a row get harmless values.
  void recall(const Panel<Real>& panel) const {
    std::fill_n(panel.state.row_max, panel.pitch, Real{0});
    std::fill_n(panel.state.row_sum, panel.pitch, Real{1});
    if (on_.problem.hard) return;
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
    const Layout& layout = on_.problem.weights;
    alignas(kAlignment) Real ones[kMaxPanel];
    std::fill_n(ones, kMaxPanel, Real{1});
    store_rows(on_.kernels, panel, weights, ones, block.keys, layout, on_.buffer(&Slab::rows),
               [&](std::size_t i, std::int64_t, std::int64_t) {
                 return row_at(on_.args.weights, layout, on_.sequence.batch, head_,
                               panel.first + static_cast<std::int64_t>(i)) +
                        block.begin * layout.strides.feature * layout.bytes;
               });
  }

  void add_rows(const Panel<Real>& panel, std::size_t keys, const Real* probs, Real* lanes) const {
    const auto width = static_cast<std::size_t>(on_.plan.panel_rows);
    if (panel.rows == width) return on_.kernels.numbers.add_onto(probs, keys * width, lanes);
    for (std::size_t j = 0; j < keys; ++j)
      on_.kernels.numbers.add_onto(probs + j * panel.pitch, panel.rows, lanes + j * width);
  }

  void write_sums(const KeyBlock& block, const Real* lanes) const {
    const Layout& layout = on_.problem.column_sums;
    const auto width = static_cast<std::size_t>(on_.plan.panel_rows);
    Real* const sums = on_.buffer(&Slab::scores);
    for (std::size_t j = 0; j < block.keys; ++j) {
      sums[j] = 0;
      for (std::size_t i = 0; i < width; ++i) sums[j] += lanes[j * width + i];
    }
    on_.kernels.numbers.write(
        layout.type, sums, block.keys,
        row_at(on_.args.column_sums, layout, on_.sequence.batch, head_, block.begin),
        layout.strides.row);
  }

  const AttentionThread<Real> on_;
  const std::int64_t head_;
  const std::int64_t key_head_ = head_ / on_.problem.group();
  const std::int64_t begin_, end_;  ///< keys of the chunk
  RowResult<Real>* const results_;
  const std::int64_t* const listed_ = on_.problem.weight_rows > 0 ? on_.args.weight_rows : nullptr;
  const std::int64_t step_ = on_.kernels.panels.key_block;
};

}  // namespace

void recompute(const heed_attention_plan& plan, const heed_attention_args& args,
               std::byte* workspace) {
  const Problem& p = plan.problem;
  if (plan.recomputed == 0) return;
  with_real(p.float64, [&](auto real) {
    using Real = decltype(real);
    const std::uint32_t lanes = kernels_of<Real>(*plan.context->kernels).panels.lanes;
    const auto each_chunk = [&](std::int64_t chunks, auto&& function) {
      each_task(plan, plan.recomputed / plan.chunks * chunks, 1, workspace,
                [&](std::int64_t task, std::byte* slab) {
                  const std::int64_t head = task / chunks % p.query_heads;
                  const Sequence sequence = sequence_of(p, args, task / chunks / p.query_heads);
                  function(sequence, Chunk<Real>({plan, args, sequence, slab}, head, task % chunks,
                                                 plan.results_in<Real>(workspace) +
                                                     (sequence.batch * p.query_heads + head) *
                                                         p.query_length));
                });
    };
    const bool weighs = p.weights_point == HEED_WEIGHTS_PROBABILITIES || p.sum_columns;
    if (weighs && !p.hard && (plan.strategy != Strategy::kPrefill || plan.parts.count > 0))
      each_chunk(1, [&](const Sequence& sequence, const Chunk<Real>& chunk) {
        if (plan.decodes(sequence) || plan.parts_for(sequence, lanes).count > 0) chunk.sum_rows();
      });
    each_chunk(plan.chunks, [&](const Sequence&, const Chunk<Real>& chunk) {
      if (chunk.shows_weights()) chunk.write_weights();
      if (p.sum_columns) chunk.write_column_sums();
    });
  });
}

}  // namespace heed
