// The gradient of a bias, summed over the axes that it repeats.
#pragma once

#include <algorithm>

#include "engine/dense/backward/reader.hpp"
#include "engine/dense/backward/scores.hpp"

namespace heed {

/// Where the gradient of a row of the bias begins, from a key on.
inline std::byte* bias_at(const heed_attention_backward_plan& plan, const BackwardArgs& args,
                          std::int64_t batch, std::int64_t head, std::int64_t row,
                          std::int64_t key) {
  const Layout& layout = plan.problem.grad_bias;
  return row_at(args.given.grad_bias, layout, batch, head, row) +
         key * layout.strides.feature * layout.bytes;
}

/// Writes gradients [keys][vectors], times temperature, as rows of the bias, of which row i begins
/// at to_row(i). `buffer`: [rows + 1][keys].
template <class Real, class ToRow>
void write_bias_columns(const heed_attention_backward_plan& plan, const Real* columns,
                        std::size_t vectors, std::size_t rows, std::int64_t keys, Real* buffer,
                        ToRow&& to_row) {
  const KernelTable<Real>& kernels = kernels_of<Real>(*plan.context->kernels);
  const auto count = static_cast<std::size_t>(keys);
  turn_into_rows(kernels, columns, vectors, rows, count, buffer);
  multiply_values(buffer, static_cast<Real>(1 / plan.problem.attention.temperature), rows * count,
                  buffer);
  for (std::size_t i = 0; i < rows; ++i)
    write_gradient(kernels, plan.problem.grad_bias, plan.problem.accumulate, buffer + i * count,
                   keys, buffer + rows * count, to_row(i));
}

/// A tile of the bias: some keys, or the one that repeats, for a panel of rows, or the one, and so
/// on. It computes the gradients of scores again.
template <class Real>
class BiasTile {
 public:
  BiasTile(const heed_attention_backward_plan& plan, const BackwardArgs& args, std::int64_t tile,
           std::byte* slab)
      : plan_(plan), args_(args), slab_(slab) {
    const auto take = [&](BiasTiling::Axis axis) {
      const std::int64_t index = tile % tiling_.along(axis);
      tile /= tiling_.along(axis);
      return index;
    };
    const std::int64_t keys = take(BiasTiling::kKeys);
    panel_ = take(BiasTiling::kRows);
    head_ = take(BiasTiling::kHeads);
    batch_ = take(BiasTiling::kBatch);
    first_key_ = keys * plan.bias_keys;
    keys_ =
        repeats(BiasTiling::kKeys) ? 1 : std::min(plan.bias_keys, problem_.key_length - first_key_);
  }

  /// Writes 0, unless gradients are added to what is there.
  void clear() const {
    if (plan_.problem.accumulate) return;
    Real* const sums = buffer(&BackwardSlab::bias);
    std::fill_n(sums, values(), Real{0});
    write(sums);
  }

  /// Sums and writes the tile.
  void add() {
    Real* const sums = buffer(&BackwardSlab::bias);
    Real* const latest = buffer(&BackwardSlab::bias_part);
    lay_bias();
    sum(0, sums);
    for (std::int64_t part = 1; part < plan_.bias_parts; ++part) {
      sum(part, latest);
      kernels_.numbers.add_onto(latest, values(), sums);
    }
    write(sums);
  }

  /// The same where shares are tasks: sums one of them ...
  void add_part(std::int64_t part, Real* sums) {
    lay_bias();
    sum(part, sums);
  }
  /// ... and writes the sums of all of them, so many values apart.
  void write_parts(Real* sums, std::int64_t apart) const {
    for (std::int64_t part = 1; part < plan_.bias_parts; ++part)
      kernels_.numbers.add_onto(sums + part * apart, values(), sums);
    write(sums);
  }

 private:
  Real* buffer(std::size_t BackwardSlab::*offset) const {
    return plan_.buffer<Real>(slab_, offset);
  }
  bool repeats(BiasTiling::Axis axis) const { return tiling_.repeats(axis); }
  std::size_t values() const { return static_cast<std::size_t>(keys_ * pitch_); }

  /// Transposes the tile of the bias once for the heads and batch items whose sums follow.
  void lay_bias() {
    const heed_attention_args& args = args_.attention;
    if (!tiling_.shares() || args.bias == nullptr || args.score_function != nullptr) return;
    const Sequence sequence = sequence_of(problem_, args, batch_);
    const HeadPack pack = {head_, 1, nullptr};
    const Scores<Real> scores({plan_.attention, args, sequence, slab_}, HEED_WEIGHTS_PROBABILITIES);
    const std::int64_t first = panel_ * pitch_;
    Panel<Real> panel{};
    static_cast<PanelRows&>(panel) =
        PanelRows::of(first, std::min(pitch_, problem_.query_length - first), panels_.lanes);
    panel.pack = &pack;
    Real* const lanes = buffer(&BackwardSlab::bias_lanes);
    bool fits = true;
    each_block(first_key_, first_key_ + keys_, panels_.key_block, [&](const KeyBlock& block) {
      const auto before = static_cast<std::size_t>(block.begin - first_key_);
      fits = fits && scores.lay_bias(panel, block, lanes + before * panel.pitch);
    });
    if (fits) laid_ = {lanes, first_key_, panel.pitch};
  }

  /// Sums [keys][pitch] of a share of the repeats.
  void sum(std::int64_t part, Real* sums) const {
    std::fill_n(sums, values(), Real{0});
    const std::int64_t all = tiling_.panels();
    const std::int64_t end = (part + 1) * all / plan_.bias_parts;
    const std::int64_t of_head = tiling_.in_one(BiasTiling::kRows);
    const std::int64_t of_item = tiling_.in_one(BiasTiling::kHeads) * of_head;
    for (std::int64_t n = part * all / plan_.bias_parts, next = 0; n < end; n = next) {
      // The panels of one head.
      next = std::min(n / of_head * of_head + of_head, end);
      const Sequence sequence = sequence_of(problem_, args_.attention, batch_ + n / of_item);
      const std::int64_t head = head_ + n % of_item / of_head;
      const std::int64_t first = panel_ + n % of_head;
      add_head({plan_,
                args_,
                {plan_.attention, args_.attention, sequence, slab_},
                {head, 1, nullptr},
                nullptr},
               first, first + next - n, sums);
    }
  }

  /// The panels [begin, end) of a head.
  void add_head(const PackRows<Real>& rows, std::int64_t begin, std::int64_t end,
                Real* sums) const {
    const ScoreGradients<Real> gradients(rows, laid_);
    const Reader<Real> reader(rows, gradients.scores());
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t first = p * pitch_;
      const std::int64_t count = std::min(pitch_, rows.on.sequence.query_length - first);
      if (count <= 0) return;
      const GradPanel<Real> panel = reader.panel(first, count, {0, 0, 0, count});
      const Real* grad_out[kMaxPanel];
      reader.read(panel, grad_out);
      const bool one = repeats(BiasTiling::kKeys);
      const std::int64_t last = one ? panel.key_end : first_key_ + keys_;
      each_block(std::max(first_key_, panel.key_begin), std::min(last, panel.key_end),
                 plan_.attention.tile_kv, [&](const KeyBlock& keys) {
                   const KeyTile<Real> tile = reader.tile(keys.begin, keys.end());
                   each_block(keys.begin, keys.end(), panels_.key_block,
                              [&](const KeyBlock& block) {
                                add_keys(gradients, panel, tile, block,
                                         sums + (one ? 0 : block.begin - first_key_) * pitch_);
                              });
                 });
    }
  }

  void add_keys(const ScoreGradients<Real>& gradients, const GradPanel<Real>& panel,
                const KeyTile<Real>& tile, const KeyBlock& block, Real* to) const {
    const Allowed allowed = gradients.scores().allowed(panel, block);
    if (allowed == Allowed::kNone) return;
    gradients.compute_biased(panel, tile, block, allowed);
    for (std::size_t j = 0; j < block.keys; ++j) {
      kernels_.numbers.add_onto(panel.gradients + j * panel.pitch, panel.rows, to);
      if (!repeats(BiasTiling::kKeys)) to += pitch_;
    }
  }

  void write(Real* sums) const {
    const std::int64_t first = panel_ * pitch_;
    const bool one = repeats(BiasTiling::kRows);  // row, to which all lanes add up
    for (std::int64_t j = 0; j < keys_ && one; ++j)
      for (std::int64_t l = 1; l < pitch_; ++l) sums[j * pitch_] += sums[j * pitch_ + l];
    const std::int64_t rows = one ? 1 : std::min(pitch_, problem_.query_length - first);
    const auto vectors = static_cast<std::size_t>(pitch_ / panels_.lanes);
    write_bias_columns(plan_, sums, vectors, static_cast<std::size_t>(rows), keys_,
                       buffer(&BackwardSlab::bias_rows), [&](std::size_t i) {
                         const std::int64_t row = first + static_cast<std::int64_t>(i);
                         return bias_at(plan_, args_, batch_, head_, row, first_key_);
                       });
  }

  const heed_attention_backward_plan& plan_;
  const BackwardArgs& args_;
  std::byte* const slab_;
  const Problem& problem_ = plan_.problem.attention;
  const KernelTable<Real>& kernels_ = kernels_of<Real>(*plan_.context->kernels);
  const PanelKernels<Real>& panels_ = kernels_.panels;
  const std::int64_t pitch_ = plan_.attention.panel_rows;
  const BiasTiling tiling_{plan_};
  std::int64_t panel_, head_, batch_;  ///< the first that it repeats over
  std::int64_t first_key_, keys_;      ///< of the bias
  LaidBias<Real> laid_;
};

}  // namespace heed
