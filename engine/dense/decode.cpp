// Attention where few query rows share many keys: every key and value is read once, in the type
// that it is stored in, with the features in the lanes.
//
//   for each chunk of keys (a task)
//     for each block of the chunk's keys
//       scores        = keys x queries              [key][row]
//       probabilities = exp2(scores - row_max)      row_max moves when outgrown, and with it
//       sums         += probabilities x values      what was summed before; [row][feature]
//   for each pack of rows (a task)
//     out = the chunks' sums, merged in order
//
// Chunks begin at fixed keys, so that bits depend neither on threads nor on the rest of the batch.
// Source: T. Dao et al. 2023, "Flash-Decoding for long-context inference".
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/dense/output.hpp"
#include "engine/dense/panel.hpp"
#include "engine/dense/scores.hpp"
#include "engine/dense/stored.hpp"
#include "engine/dense/strategy.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {
namespace {

/// Keys between two decisions to rescale; values are summed apart over so many.
constexpr std::int64_t kBlockKeys = static_cast<std::int64_t>(PanelGeometry::run);

/// What a row's softmax over a chunk ended with: sums are relative to row_max.
template <class Real>
struct Part {
  Real* row_max;  ///< [rows]
  Real* row_sum;  ///< [rows]
  Real* sums;     ///< [rows][value features]

  static Part at(Real* numbers, std::int64_t rows) {
    return {numbers, numbers + rows, numbers + 2 * rows};
  }
};

/// The rows of one pack of heads of one sequence.
template <class Real>
class Rows {
 public:
  Rows(const heed_attention_plan& plan, const heed_attention_args& args, std::int64_t pack,
       std::byte* slab)
      : plan_(plan),
        problem_(plan.problem),
        args_(args),
        kernels_(kernels_of<Real>(*plan.context->kernels)),
        sequence_(sequence_of(problem_, args, pack / plan.packs())),
        pack_{pack % plan.packs() * plan.pack_heads, plan.pack_heads, nullptr},
        key_head_(pack_.head / problem_.group()),
        rows_(plan.decodes(sequence_.query_length) ? plan.pack_heads * sequence_.query_length : 0),
        scores_(plan, args, sequence_, HEED_WEIGHTS_PROBABILITIES, slab),
        slab_(slab) {
    if (rows_ > 0) panel_ = make_panel<Real>(pack_, sequence_, 0, rows_, kernels_.panels.lanes);
  }

  /// Attends the keys of a chunk, if the rows attend any.
  void attend(std::int64_t chunk, Real* part) const {
    const KeyBlock keys = this->keys(chunk);
    if (rows_ == 0 || keys.keys == 0) return;
    const Part<Real> to = Part<Real>::at(part, rows_);
    if (!attend(keys, false, to)) attend(keys, true, to);
  }

  /// Merges the parts of all chunks and writes the rows.
  void finish(const Real* parts, const Output<Real>& output) const;

  const Sequence& sequence() const { return sequence_; }

 private:
  /// The keys of the chunk that some row attends, masks aside.
  KeyBlock keys(std::int64_t chunk) const {
    const std::int64_t begin = std::max(chunk * kDecodeChunk, panel_.key_begin);
    const std::int64_t end = std::min((chunk + 1) * kDecodeChunk, panel_.key_end);
    return {begin, static_cast<std::size_t>(std::max(end - begin, std::int64_t{0}))};
  }

  /// False if a value that is not finite may have reached rows that may not attend it. `isolate`
  /// keeps such values from them, slowly.
  bool attend(const KeyBlock& keys, bool isolate, const Part<Real>& part) const;

  void add_special(const KeyBlock& block, const Real* probs, const RowOrder& order,
                   Real* sums) const;

  Stored<Real> stored_keys(const KeyBlock& keys) const {
    return {kernels_,
            {sequence_, keys_of(problem_, args_), key_head_, keys.begin},
            keys.keys,
            problem_.features,
            false,
            {reinterpret_cast<const void**>(slab_ + plan_.slab.key_rows), slab_ + plan_.slab.keys,
             reinterpret_cast<float*>(slab_ + plan_.slab.key_scales)}};
  }
  Stored<Real> stored_values(const KeyBlock& keys, bool copies) const {
    return {kernels_,
            {sequence_, values_of(problem_, args_), key_head_, keys.begin},
            keys.keys,
            problem_.value_features,
            copies,
            {reinterpret_cast<const void**>(slab_ + plan_.slab.value_rows),
             slab_ + plan_.slab.values, reinterpret_cast<float*>(slab_ + plan_.slab.value_scales)}};
  }

  /// The rows' queries in the order of the keys' features; features that do not count are 0.
  void pack_queries(const RowOrder& order, Real* to) const {
    const auto features = static_cast<std::size_t>(problem_.features);
    for (std::size_t r = 0; r < panel_.rows; ++r, to += order.padded()) {
      scores_.read_query(panel_, r, to);
      std::fill(to + features, to + order.features, Real{0});
      std::copy_backward(to + order.whole(), to + order.features, to + order.padded());
      std::fill(to + order.whole(), to + order.rest(), Real{0});
    }
  }

  Real* buffer(std::size_t offset) const { return reinterpret_cast<Real*>(slab_ + offset); }

  const heed_attention_plan& plan_;
  const Problem& problem_;
  const heed_attention_args& args_;
  const KernelTable<Real>& kernels_;
  const Sequence sequence_;
  const HeadPack pack_;
  const std::int64_t key_head_;
  const std::int64_t rows_;  ///< 0: the sequence is empty, or has too many rows to be decoded
  const Scores<Real> scores_;
  std::byte* const slab_;
  Panel<Real> panel_{};
};

/// The row maxima of a chunk, with one number per lane. A vector holds the scores of several keys
/// if `pitch`, the numbers of a key, is less than its lanes.
template <class Real>
class LaneSoftmax {
 public:
  LaneSoftmax(const KernelTable<Real>& kernels, std::size_t rows, std::size_t pitch)
      : kernels_(kernels),
        rows_(rows),
        pitch_(pitch),
        width_(std::max<std::size_t>(pitch, kernels.panels.lanes)) {
    // Lanes without a row get probabilities of 0 whatever their scores.
    for (std::size_t l = 0; l < width_; ++l)
      row_max_[l] =
          l % pitch_ < rows ? kNoRowMax<Real> : Real{1} / std::numeric_limits<Real>::min();
  }

  /// Scores become probabilities. Calls rescale(r, factor) where row_max moves.
  template <class Rescale>
  void step(Real* scores, std::size_t keys, Rescale&& rescale) {
    const std::size_t count = (keys * pitch_ + width_ - 1) / width_ * width_;  // whole vectors
    const std::size_t vectors = width_ / kernels_.panels.lanes;
    std::fill(scores + keys * pitch_, scores + count, -std::numeric_limits<Real>::infinity());
    alignas(kAlignment) Real largest[kMaxPanel];
    kernels_.panels.maxima(vectors, scores, count / width_, largest);
    for (std::size_t r = 0; r < rows_; ++r) {
      Real top = kNoRowMax<Real>;
      for (std::size_t l = r; l < width_; l += pitch_) top = std::max(top, largest[l]);
      if (top > row_max_[r] + kRescaleThreshold<Real>)
        move(r, std::min(top, -kNoRowMax<Real>), rescale);
    }
    alignas(kAlignment) Real unused[kMaxPanel] = {};
    kernels_.panels.exponentials(vectors, scores, count / width_, row_max_, unused);
  }

  Real row_max(std::size_t r) const { return row_max_[r]; }

 private:
  template <class Rescale>
  void move(std::size_t r, Real top, Rescale&& rescale) {
    Real factor = row_max_[r] - top;
    kernels_.numbers.exp2(&factor, &factor, 1);
    for (std::size_t l = r; l < width_; l += pitch_) row_max_[l] = top;
    rescale(r, factor);
  }

  const KernelTable<Real>& kernels_;
  const std::size_t rows_, pitch_;
  const std::size_t width_;  ///< numbers that kernels take at a time
  alignas(kAlignment) Real row_max_[kMaxPanel];
};

template <class Real>
bool Rows<Real>::attend(const KeyBlock& keys, bool isolate, const Part<Real>& part) const {
  const Stored<Real> key = stored_keys(keys);
  const Stored<Real> value = stored_values(keys, isolate);
  Real* const query = buffer(plan_.slab.query);
  Real* const scores = buffer(plan_.slab.scores);
  Real* const sums = buffer(plan_.slab.accumulators);
  const RowOrder order = value.order();
  const std::size_t padded = order.padded();
  pack_queries(key.order(), query);
  std::fill_n(sums, panel_.rows * padded, Real{0});
  std::fill_n(part.row_sum, panel_.rows, Real{0});

  // Options see panels of rows. Without any, keys lie as close as the rows allow.
  const bool plain = scores_.plain() && args_.mask == nullptr && panel_.attended_by_all(keys);
  std::size_t pitch = panel_.pitch;
  while (plain && pitch % 2 == 0 && pitch / 2 >= panel_.rows) pitch /= 2;
  if (pitch > panel_.rows)
    std::fill_n(scores, static_cast<std::size_t>(kBlockKeys) * pitch, Real{0});
  LaneSoftmax<Real> softmax(kernels_, panel_.rows, pitch);

  const std::int64_t end = keys.begin + static_cast<std::int64_t>(keys.keys);
  std::int64_t next = 0;
  for (std::int64_t k = keys.begin; k < end; k = next) {
    next = std::min(round_down(k, kBlockKeys) + kBlockKeys, end);
    const KeyBlock block = {k, static_cast<std::size_t>(next - k)};
    const auto at = static_cast<std::size_t>(k - keys.begin);
    const Allowed allowed = plain ? Allowed::kAll : scores_.allowed(panel_, block);
    if (allowed == Allowed::kNone) continue;
    kernels_.rows.row_scores(key.block(at, block.keys), query, panel_.rows, scores, pitch);
    if (!plain) scores_.apply_options(panel_, block, allowed, scores);
    softmax.step(scores, block.keys, [&](std::size_t r, Real factor) {
      part.row_sum[r] *= factor;
      for (std::size_t i = 0; i < padded; ++i) sums[r * padded + i] *= factor;
    });
    const StoredRows rows = value.block(at, block.keys);
    if (isolate) add_special(block, scores, order, sums);
    kernels_.rows.row_values(rows, scores, pitch, panel_.rows, sums, part.row_sum);
  }

  for (std::size_t r = 0; r < panel_.rows; ++r) {
    part.row_max[r] = softmax.row_max(r);
    const auto features = static_cast<std::size_t>(problem_.value_features);
    const std::size_t whole = std::min(order.whole(), features);
    Real* const to = std::copy_n(sums + r * padded, whole, part.sums + r * features);
    std::copy_n(sums + r * padded + order.rest(), features - whole, to);
  }
  const bool may_leak =
      !panel_.attended_by_all(keys) || args_.mask != nullptr || args_.bias != nullptr;
  return isolate || !may_leak || kernels_.numbers.all_finite(sums, panel_.rows * padded);
}

/// Takes infinite and NaN values out of the copy of a block, and adds them to the rows that attend
/// them. A probability of 0 does not protect a row, since 0 * NaN is NaN.
template <class Real>
void Rows<Real>::add_special(const KeyBlock& block, const Real* probs, const RowOrder& order,
                             Real* sums) const {
  const Real* const attended = scores_.attended(panel_, block);
  const auto features = static_cast<std::size_t>(problem_.value_features);
  const auto bytes = static_cast<std::size_t>(problem_.value.bytes);
  Real* const values = buffer(plan_.slab.rows);
  float* const scales = reinterpret_cast<float*>(slab_ + plan_.slab.value_scales);
  for (std::size_t j = 0; j < block.keys; ++j) {
    sequence_.read_key(kernels_, values_of(problem_, args_), key_head_,
                       block.begin + static_cast<std::int64_t>(j), problem_.value_features, values);
    for (std::size_t x = 0; x < features; ++x) {
      if (std::isfinite(values[x])) continue;
      for (std::size_t r = 0; r < panel_.rows; ++r)
        if (attended[j * panel_.pitch + r] != -std::numeric_limits<Real>::infinity())
          sums[r * order.padded() + order.place(x)] += probs[j * panel_.pitch + r] * values[x];
      std::fill_n(slab_ + plan_.slab.values + (j * order.features + x) * bytes, bytes,
                  std::byte{0});
    }
    if (is_scaled(problem_.value.type) && !std::isfinite(scales[j])) scales[j] = 0;
  }
}

/// to[x] += from[x] * factor.
template <class Real>
void add_scaled(const Real* __restrict from, Real factor, std::size_t count, Real* __restrict to) {
#pragma GCC unroll 8
  for (std::size_t x = 0; x < count; ++x) to[x] += from[x] * factor;
}

template <class Real>
void Rows<Real>::finish(const Real* parts, const Output<Real>& output) const {
  if (rows_ == 0) return;
  const auto features = static_cast<std::size_t>(problem_.value_features);
  Real* const merged = buffer(plan_.slab.accumulators);
  Panel<Real> panel = panel_;
  panel.state.row_max = buffer(plan_.slab.row_max);
  panel.state.row_sum = buffer(plan_.slab.row_sum);
  panel.begin_sums(static_cast<const Real*>(args_.sinks));
  const auto each_part = [&](auto&& function) {
    for (std::int64_t chunk = 0; chunk < plan_.decode.chunks; ++chunk)
      if (keys(chunk).keys > 0)
        function(
            Part<Real>::at(const_cast<Real*>(parts) + chunk * plan_.decode.part_numbers, rows_));
  };
  const auto share = [&](Real row_max, Real most) {
    if (row_max == most) return Real{1};
    Real power = row_max - most;
    kernels_.numbers.exp2(&power, &power, 1);
    return power;
  };
  for (std::size_t r = 0; r < panel.rows; ++r) {
    Real most = panel.state.row_max[r];
    each_part([&](const Part<Real>& part) { most = std::max(most, part.row_max[r]); });
    Real sum = panel.state.row_sum[r] * share(panel.state.row_max[r], most);
    std::fill_n(merged, features, Real{0});
    each_part([&](const Part<Real>& part) {
      const Real factor = share(part.row_max[r], most);
      sum += part.row_sum[r] * factor;
      add_scaled(part.sums + r * features, factor, features, merged);
    });
    panel.state.row_max[r] = most;
    panel.state.row_sum[r] = sum;
    const Real inverse = sum == 0 ? 0 : 1 / sum;
#pragma GCC unroll 8
    for (std::size_t x = 0; x < features; ++x) merged[x] *= inverse;
    output.write_row(panel, r, merged);
  }
}

/// Where the parts of a pack begin: in the workspace, or, if one chunk is all, in the slab.
template <class Real>
Real* parts_of(const heed_attention_plan& plan, std::byte* workspace, std::byte* slab,
               std::int64_t pack) {
  if (plan.decode.chunks == 1) return reinterpret_cast<Real*>(slab + plan.slab.part);
  return reinterpret_cast<Real*>(workspace + plan.decode.parts) +
         pack * plan.decode.chunks * plan.decode.part_numbers;
}

void decode(const heed_attention_plan& plan, const heed_attention_args& args,
            std::byte* workspace) {
  std::byte* const slabs = workspace + plan.results_bytes;
  std::byte* const results = plan.results_bytes > 0 ? workspace : nullptr;  // nullptr: not kept
  with_real(plan.problem.float64, [&](auto real) {
    using Real = decltype(real);
    const auto finish = [&](const Rows<Real>& rows, const Real* parts, std::byte* slab) {
      rows.finish(parts, Output<Real>(plan, args, rows.sequence(), slab,
                                      reinterpret_cast<RowResult<Real>*>(results)));
    };
    const std::int64_t chunks = plan.decode.chunks;
    const std::int64_t packs = plan.problem.batch * plan.packs();
    parallel_for(plan.context->threads, {plan.decode.tasks, plan.decode.per_claim, plan.workers},
                 [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                   std::byte* const slab = slabs + worker * plan.slab.bytes;
                   for (std::int64_t task = begin; task < end; ++task) {
                     const std::int64_t pack = task / chunks;
                     const Rows<Real> rows(plan, args, pack, slab);
                     Real* const parts = parts_of<Real>(plan, workspace, slab, pack);
                     rows.attend(task % chunks, parts + task % chunks * plan.decode.part_numbers);
                     if (chunks == 1) finish(rows, parts, slab);
                   }
                 });
    if (chunks == 1 || plan.decode.tasks == 0) return;
    parallel_for(plan.context->threads, {packs, 1, plan.workers},
                 [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                   std::byte* const slab = slabs + worker * plan.slab.bytes;
                   for (std::int64_t pack = begin; pack < end; ++pack)
                     finish(Rows<Real>(plan, args, pack, slab),
                            parts_of<Real>(plan, workspace, slab, pack), slab);
                 });
  });
}

}  // namespace

const Strategy kDecode = {"decode", decode};

}  // namespace heed
