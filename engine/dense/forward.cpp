#include "engine/dense/forward.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace heed {
namespace {

constexpr double kLog2E = 1.4426950408889634;

/// Packing a value tile pays once this many panels read it; fewer read the values in place.
constexpr std::int64_t kPanelsThatPayForPacking = 3;

/// A panel's references start from the maximum over this many keys.
constexpr std::size_t kProbeKeys = 32;

/// Narrow panels (decoding) read values in place, one step of keys at a time, once per group of
/// features: this many floats of a step's values stay in the L1 cache meanwhile.
constexpr std::int64_t kNarrowStepFloats = 4096;
constexpr std::int64_t kNarrowestStep = 16;

/// The rows that one kernel call handles, side by side in the lanes.
struct Panel {
  std::int64_t first_row;  ///< of the stack
  std::size_t rows;
  std::size_t vectors;
  std::int64_t key_end;    ///< the first key that no row attends
  std::int64_t key_whole;  ///< the first key that not every row attends
  float* query;
  RowState state;
};

/// Which block of which stack a task is, and where its data lies.
class Block {
 public:
  Block(const heed_attention_plan& plan, const Tensors& tensors, std::int64_t task, std::byte* slab)
      : plan_(plan), problem_(plan.problem), kernels_(*plan.context->kernels), slab_(slab) {
    // Causal: the longest blocks, which are the last, are handed out first. Otherwise the
    // blocks of a stack follow each other, so that its keys stay in the shared cache.
    const std::int64_t stacks = problem_.batch * problem_.key_heads;
    const std::int64_t stack = problem_.causal ? task % stacks : task / plan.blocks;
    const std::int64_t block =
        problem_.causal ? plan.blocks - 1 - task / stacks : task % plan.blocks;
    const std::int64_t panels_per_block = plan.tile_q / panel_rows();
    first_panel_ = block * panels_per_block;
    const std::int64_t all = (plan.rows + panel_rows() - 1) / panel_rows();
    panels_ = std::min(panels_per_block, all - first_panel_);
    const std::int64_t b = stack / problem_.key_heads;
    const std::int64_t g = stack % problem_.key_heads;
    const std::int64_t h = g * problem_.group();
    query_ = tensors.query + b * problem_.query.batch + h * problem_.query.head;
    out_ = tensors.out + b * problem_.out.batch + h * problem_.out.head;
    key_ = {tensors.key + b * problem_.key.batch + g * problem_.key.head, problem_.key.row,
            problem_.key.feature};
    value_ = {tensors.value + b * problem_.value.batch + g * problem_.value.head,
              problem_.value.row, problem_.value.feature};
  }

  void attend() {
    std::int64_t key_end = 0;
    for (std::int64_t p = 0; p < panels_; ++p) {
      const Panel panel = this->panel(p);
      begin(panel);
      key_end = std::max(key_end, panel.key_end);
    }
    const bool pack = panels_ >= kPanelsThatPayForPacking;
    for (std::int64_t k = 0; k < key_end; k += plan_.tile_kv) {
      const std::int64_t tile_end = std::min(k + plan_.tile_kv, key_end);
      const ValueView values = pack ? packed_values(k, tile_end) : values_in_place(k);
      for (std::int64_t p = 0; p < panels_; ++p) {
        const Panel panel = this->panel(p);
        attend_tile(panel, k, std::min(tile_end, panel.key_end), values, false);
      }
    }
    for (std::int64_t p = 0; p < panels_; ++p) finish(this->panel(p));
  }

 private:
  std::int64_t panel_rows() const { return std::int64_t{kernels_.lanes} * kernels_.max_vectors; }

  /// Where panel p of the stack begins. Panels are full but the last; if that would hold one
  /// vector only, which computes slowly, the last two hold two vectors each.
  std::int64_t panel_begin(std::int64_t p) const {
    const std::int64_t full = plan_.rows / panel_rows();
    const std::int64_t rest = plan_.rows % panel_rows();
    const bool split = full > 0 && rest > 0 && rest <= kernels_.lanes;
    if (split && p == full) return (full - 1) * panel_rows() + std::int64_t{2} * kernels_.lanes;
    return std::min(p * panel_rows(), plan_.rows);
  }

  float* buffer(std::size_t offset) const { return reinterpret_cast<float*>(slab_ + offset); }

  /// The query row of row r of the stack; its head is r % group.
  std::int64_t query_row(std::int64_t r) const { return r / problem_.group(); }

  Panel panel(std::int64_t p) const {
    Panel panel{};
    panel.first_row = panel_begin(first_panel_ + p);
    panel.rows = static_cast<std::size_t>(panel_begin(first_panel_ + p + 1) - panel.first_row);
    const std::int64_t begin = panel.first_row - panel_begin(first_panel_);
    panel.vectors = (panel.rows + kernels_.lanes - 1) / kernels_.lanes;
    const auto last_row = panel.first_row + static_cast<std::int64_t>(panel.rows) - 1;
    panel.key_end = problem_.key_limit(query_row(last_row));
    panel.key_whole = problem_.key_limit(query_row(panel.first_row));
    panel.query = buffer(plan_.slab.query) + begin * problem_.features;
    const auto accumulator_rows = static_cast<std::int64_t>(
        (static_cast<std::size_t>(problem_.value_features) + kRowPadding - 1) / kRowPadding *
        kRowPadding);
    panel.state = {buffer(plan_.slab.reference) + begin, buffer(plan_.slab.sum) + begin,
                   buffer(plan_.slab.accumulators) + begin * accumulator_rows, false};
    return panel;
  }

  /// Points rows[i] at the panel's row i of a tensor.
  template <class T>
  void point_at_rows(const Panel& panel, T* tensor, const Strides& strides, T** rows) const {
    for (std::size_t i = 0; i < panel.rows; ++i) {
      const std::int64_t r = panel.first_row + static_cast<std::int64_t>(i);
      rows[i] = tensor + (r % problem_.group()) * strides.head + query_row(r) * strides.row;
    }
  }

  /// Transposes the panel's queries, scaled into log2 units, and forgets what it had seen.
  void begin(const Panel& panel) const {
    const float* rows[kMaxPanel];
    point_at_rows(panel, query_, problem_.query, rows);
    kernels_.pack_query(rows, panel.rows, problem_.query.feature,
                        static_cast<std::size_t>(problem_.features),
                        static_cast<float>(problem_.scale * kLog2E), panel.query, panel.vectors);
    reset(panel);
  }

  void reset(const Panel& panel) const {
    const std::size_t pitch = panel.vectors * kernels_.lanes;
    std::fill_n(panel.state.reference, pitch, kNoReference);
    std::fill_n(panel.state.sum, pitch, 0.0F);
  }

  /// The matrix without its rows before k.
  static MatrixView from_row(const MatrixView& matrix, std::int64_t k) {
    return {matrix.data + k * matrix.row_stride, matrix.row_stride, matrix.column_stride};
  }

  ValueView values_in_place(std::int64_t k) const {
    return {value_.data + k * value_.row_stride, value_.row_stride, value_.column_stride,
            static_cast<std::ptrdiff_t>(kValueBlock) * value_.column_stride};
  }

  ValueView packed_values(std::int64_t k, std::int64_t end) const {
    float* const packed = buffer(plan_.slab.values);
    kernels_.pack_values(from_row(value_, k), static_cast<std::size_t>(end - k),
                         static_cast<std::size_t>(problem_.value_features), packed);
    return {packed, kValueBlock, 1, (end - k) * static_cast<std::ptrdiff_t>(kValueBlock)};
  }

  /// Keys between two rescaling decisions. It depends on the panel and the problem alone, so that
  /// bits do not depend on tiles, threads or the rest of the batch.
  std::int64_t key_step(const Panel& panel) const {
    std::int64_t step = kernels_.key_step;
    if (panel.vectors > 1) return step;
    // Halved, so that steps end where tiles end, whatever the tile.
    while (step > kNarrowestStep && step * problem_.value_features > kNarrowStepFloats) step /= 2;
    return step;
  }

  /// One panel against the keys [begin, end) of a tile, `values` beginning at key `begin`.
  /// `isolate` keeps what is not finite in the values away from the rows that may not attend
  /// it: slow, and needed only where finish() finds that something leaked.
  void attend_tile(const Panel& panel, std::int64_t begin, std::int64_t end, ValueView values,
                   bool isolate) const {
    const auto features = static_cast<std::size_t>(problem_.value_features);
    float* const scores = buffer(plan_.slab.scores);
    const std::int64_t step = key_step(panel);
    for (std::int64_t k = begin; k < end; k += step) {
      const auto keys = static_cast<std::size_t>(std::min(step, end - k));
      const MatrixView key = from_row(key_, k);
      RowState state = panel.state;
      state.fresh = k == 0;
      const bool masked = k + static_cast<std::int64_t>(keys) > panel.key_whole;
      alignas(kAlignment) float limit[kMaxPanel];
      if (masked) find_limits(panel, k, keys, limit);
      weigh(panel, state, key, keys, scores, masked ? limit : nullptr);
      if (masked && isolate) {
        accumulate_isolated(panel, state, k, keys, limit, scores);
      } else {
        kernels_.accumulate(values, keys, scores, state.accumulators, features, state.fresh,
                            panel.vectors);
      }
      values.data += static_cast<std::ptrdiff_t>(keys) * values.key_stride;
    }
  }

  /// Turns `keys` keys into weights, of which row i attends the first limit[i], or all if limit
  /// is nullptr.
  ///
  /// Most scores become weights while they are in registers. The first keys of a panel do not:
  /// their maximum is taken first, so that references rarely move later. Nor do masked ones, or
  /// the few that are no whole group.
  void weigh(const Panel& panel, const RowState& state, const MatrixView& key, std::size_t keys,
             float* weights, const float* limit) const {
    const auto features = static_cast<std::size_t>(problem_.features);
    const auto value_features = static_cast<std::size_t>(problem_.value_features);
    const std::size_t odd = keys % kRowPadding;
    const std::size_t first =
        limit != nullptr ? keys : std::min(state.fresh ? odd + kProbeKeys : odd, keys);
    if (first > 0) {
      kernels_.scores(key, first, panel.query, features, weights, panel.vectors);
      if (limit != nullptr) kernels_.mask(weights, first, limit, panel.vectors);
      kernels_.softmax(weights, first, state, value_features, panel.vectors);
    }
    if (first == keys) return;
    const MatrixView rest = from_row(key, static_cast<std::int64_t>(first));
    kernels_.weights(rest, keys - first, panel.query, features,
                     weights + first * panel.vectors * kernels_.lanes, first, state, value_features,
                     panel.vectors);
  }

  /// limit[i]: how many of the `keys` keys from k on row i attends.
  void find_limits(const Panel& panel, std::int64_t k, std::size_t keys, float* limit) const {
    const auto most = static_cast<std::int64_t>(keys);
    for (std::size_t i = 0; i < kMaxPanel; ++i) {
      const std::int64_t r =
          panel.first_row + static_cast<std::int64_t>(std::min(i, panel.rows - 1));
      limit[i] = static_cast<float>(
          std::clamp(problem_.key_limit(query_row(r)) - k, std::int64_t{0}, most));
    }
  }

  /// As the accumulate kernel, for a masked step whose values hold infinities or NaN: those
  /// are taken out, and added by hand for the rows that attend them. A weight of 0 does not
  /// protect a row, since 0 * NaN is NaN.
  void accumulate_isolated(const Panel& panel, const RowState& state, std::int64_t k,
                           std::size_t keys, const float* limit, const float* weights) const {
    const auto features = static_cast<std::size_t>(problem_.value_features);
    const std::size_t pitch = panel.vectors * kernels_.lanes;
    float* const packed = buffer(plan_.slab.values);
    const ValueView view = packed_values(k, k + static_cast<std::int64_t>(keys));
    const auto packed_at = [&](std::size_t j, std::size_t x) -> float& {
      return packed[static_cast<std::ptrdiff_t>(x / kValueBlock) * view.block_stride +
                    static_cast<std::ptrdiff_t>(x % kValueBlock + j * kValueBlock)];
    };
    for (std::size_t j = 0; j < keys; ++j)
      for (std::size_t x = 0; x < features; ++x)
        if (!std::isfinite(packed_at(j, x))) packed_at(j, x) = 0.0F;
    kernels_.accumulate(view, keys, weights, state.accumulators, features, state.fresh,
                        panel.vectors);
    for (std::size_t j = 0; j < keys; ++j) {
      const float* const row = value_.data + (k + static_cast<std::int64_t>(j)) * value_.row_stride;
      for (std::size_t x = 0; x < features; ++x) {
        const float v = row[static_cast<std::ptrdiff_t>(x) * value_.column_stride];
        if (std::isfinite(v)) continue;
        for (std::size_t i = 0; i < panel.rows; ++i)
          if (static_cast<float>(j) < limit[i])
            state.accumulators[x * pitch + i] += weights[j * pitch + i] * v;
      }
    }
  }

  bool all_finite(const Panel& panel) const {
    const std::size_t count =
        static_cast<std::size_t>(problem_.value_features) * panel.vectors * kernels_.lanes;
    std::uint32_t special = 0;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t bits;
      std::memcpy(&bits, panel.state.accumulators + i, sizeof bits);
      special |= (bits & 0x7f800000U) == 0x7f800000U ? 1U : 0U;
    }
    return special == 0;
  }

  void finish(const Panel& panel) const {
    const auto features = static_cast<std::size_t>(problem_.value_features);
    if (panel.key_end == 0) {
      std::fill_n(panel.state.accumulators, features * panel.vectors * kernels_.lanes, 0.0F);
    } else if (panel.key_whole < panel.key_end && !all_finite(panel)) {
      reset(panel);
      attend_tile(panel, 0, panel.key_end, values_in_place(0), true);
    }
    float* rows[kMaxPanel];
    point_at_rows(panel, out_, problem_.out, rows);
    kernels_.finish(panel.state.accumulators, panel.state.sum, features, rows, panel.rows,
                    problem_.out.feature, panel.vectors);
  }

  const heed_attention_plan& plan_;
  const Problem& problem_;
  const KernelTable& kernels_;
  std::byte* slab_;
  std::int64_t first_panel_;  ///< of the stack
  std::int64_t panels_;
  const float* query_;
  float* out_;
  MatrixView key_;
  MatrixView value_;
};

}  // namespace

void attend_blocks(const heed_attention_plan& plan, const Tensors& tensors, std::int64_t begin,
                   std::int64_t end, std::byte* slab) noexcept {
  for (std::int64_t task = begin; task < end; ++task) Block(plan, tensors, task, slab).attend();
}

}  // namespace heed
