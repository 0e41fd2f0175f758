// Decoding's softmax: the rows of a pack of heads over a chunk of keys, a block of keys at a time.
#pragma once

#include <algorithm>

#include "engine/dense/dropout.hpp"
#include "engine/dense/stored.hpp"
#include "engine/dense/values.hpp"
#include "engine/tensor/merge.hpp"

namespace heed {

/// The partial result of a chunk with so many rows, in a buffer of the plan's partial_values.
template <class Real>
PartialResults<Real> chunk_results(Real* values, std::int64_t rows) {
  return {values, values + rows, values + 2 * rows};
}

/// The keys of a chunk that some row of a sequence attends, masks aside.
inline KeyBlock chunk_keys(const Sequence& sequence, std::int64_t chunk) {
  const std::int64_t begin = std::max(chunk * kDecodeChunk, sequence.first_key(0));
  const std::int64_t end =
      std::min((chunk + 1) * kDecodeChunk, sequence.end_key(sequence.query_length - 1));
  return {begin, static_cast<std::size_t>(std::max(end - begin, std::int64_t{0}))};
}

/// The rows of one pack of heads of one sequence.
template <class Real>
struct DecodedRows {
  DecodedRows(const AttentionThread<Real>& on, std::int64_t pack_index)
      : on(on),
        pack{pack_index * on.plan.pack_heads, on.plan.pack_heads, nullptr},
        key_head(pack.head / on.problem.group()),
        rows(on.plan.decodes(on.sequence) ? on.plan.pack_heads * on.sequence.query_length : 0),
        products(on.plan.decode.tables || (on.plan.decode.pairs && rows > 1)
                     ? *on.kernels.row_pairs
                     : static_cast<const RowProducts<Real>&>(on.kernels.rows)),
        scores(on, HEED_WEIGHTS_PROBABILITIES),
        dropout(this->on) {
    if (rows > 0) panel = make_panel<Real>(pack, on.sequence, 0, rows, on.kernels.panels.lanes);
  }
  DecodedRows(const DecodedRows&) = delete;
  DecodedRows& operator=(const DecodedRows&) = delete;

  const AttentionThread<Real> on;
  const HeadPack pack;
  const std::int64_t key_head;
  const std::int64_t rows;  ///< 0: the sequence is empty, or has too many rows to be decoded
  /// Memory is as slow as one row's products, so that pairs win nothing there.
  const RowProducts<Real>& products;
  const Scores<Real> scores;
  const Dropout<Real> dropout;
  Panel<Real> panel{};
};

/// A pack's rows on their way through the keys of a chunk.
template <class Real>
class ChunkSoftmax {
 public:
  /// `query` and `sums` have room for all rows: RowOrder::query_numbers(), and padded features.
  ChunkSoftmax(const DecodedRows<Real>& rows, const KeyBlock& keys, const Stored<Real>& key,
               const Stored<Real>& value, Real* query, Real* sums)
      : rows_(rows),
        on_(rows.on),
        panel_(rows.panel),
        keys_(keys),
        key_(key),
        value_(value),
        order_(value.order()),
        query_(query),
        sums_(sums),
        plain_(rows.scores.plain() && !rows.dropout.drops() && on_.args.mask == nullptr &&
               panel_.attended_by_all(keys)),
        pitch_(plain_ ? narrowest_pitch(panel_) : panel_.pitch) {}

  /// Whether keys and values are read in one pass, by a few rows and without options: then blocks
  /// may be as long as rows that are read where they lie. From caches two kernels a block are
  /// faster.
  bool fuses() const {
    return plain_ && panel_.rows <= kAttendQueries &&
           on_.sequence.key_length >= on_.plan.decode.many_keys;
  }

  void begin(const PartialResults<Real>& result) {
    result_ = result;
    pack_queries();
    std::fill_n(sums_, panel_.rows * order_.padded(), Real{0});
    std::fill_n(result_.row_sum, panel_.rows, Real{0});
    std::fill_n(result_.row_max, panel_.rows, Real{kNoRowMax<Real>});
    // Lanes without a row.
    if (pitch_ > panel_.rows)
      std::fill_n(scores(), static_cast<std::size_t>(on_.plan.decode.block_keys) * pitch_, Real{0});
  }

  /// The next block. `prefetches`: the rows to be read next. `isolates`: values are copied, and
  /// infinite and NaN ones kept from rows that may not attend them.
  void step(const KeyBlock& block, bool prefetches, bool isolates) {
    const auto at = static_cast<std::size_t>(block.begin - keys_.begin);
    const Allowed allowed = plain_ ? Allowed::kAll : rows_.scores.allowed(panel_, block);
    if (allowed == Allowed::kNone) return;
    const StoredRows keys =
        key_.block(rows_.key_head, at, block.keys, after_keys(at, block.keys, prefetches));
    const auto values = [&] {
      return value_.block(rows_.key_head, at, block.keys, after_values(at, block.keys, prefetches));
    };
    if (fuses())
      return rows_.products.row_attend(keys, values(), query_, panel_.rows, turn(), result_.row_max,
                                       result_.row_sum, sums_);
    rows_.products.row_scores(keys, query_, panel_.rows, scores(), pitch_);
    if (!plain_) rows_.scores.apply_options(panel_, block, allowed, scores());
    on_.kernels.rows.row_probs(block.keys, pitch_, panel_.rows, scores(), result_.row_max,
                               result_.row_sum, sums_, order_.padded());
    if (rows_.dropout.drops())
      rows_.dropout.apply(panel_, block, all_keys(block.keys), scores(), 1, scores(),
                          result_.row_sum);
    const StoredRows value_rows = values();
    if (isolates) isolate(block);
    rows_.products.row_values(value_rows, scores(), pitch_, panel_.rows, sums_, result_.row_sum);
  }

  /// Writes the results. False if a value that is not finite may have reached rows that may not
  /// attend it.
  bool end() const {
    const std::size_t features = on_.value_features();
    const std::size_t whole = std::min(order_.whole(), features);
    for (std::size_t r = 0; r < panel_.rows; ++r) {
      const Real* const from = sums_ + r * order_.padded();
      Real* const to = std::copy_n(from, whole, result_.sums + r * features);
      std::copy_n(from + order_.rest(), features - whole, to);
    }
    return !rows_.scores.may_leak(panel_, keys_) ||
           on_.kernels.numbers.all_finite(sums_, panel_.rows * order_.padded());
  }

 private:
  using Next = typename Stored<Real>::Next;

  std::size_t turn() const { return static_cast<std::size_t>(on_.plan.decode.turn_keys); }

  /// Whether one row takes keys and values in the order of memory: their values are prefetched
  /// while keys are read, and the next turn's keys while values are.
  bool alternates() const { return fuses() && panel_.rows == 1 && key_.one_head(); }

  Next after_keys(std::size_t begin, std::size_t count, bool prefetches) const {
    if (!prefetches) return {nullptr, 0, 0};
    return alternates() ? Next{&value_, rows_.key_head, begin}
                        : key_.after(rows_.key_head, begin, count);
  }
  Next after_values(std::size_t begin, std::size_t count, bool prefetches) const {
    if (!prefetches) return {nullptr, 0, 0};
    return alternates() ? Next{&key_, rows_.key_head, begin + std::min(count, turn())}
                        : value_.after(rows_.key_head, begin, count);
  }

  /// Options see panels of rows. Without any, keys lie as close as the rows allow.
  static std::size_t narrowest_pitch(const Panel<Real>& panel) {
    std::size_t pitch = panel.pitch;
    while (pitch % 2 == 0 && pitch / 2 >= panel.rows) pitch /= 2;
    return pitch;
  }

  void pack_queries() const {
    const RowOrder order = key_.order();
    const std::size_t features = on_.features();
    Real* const query = on_.buffer(&Slab::rows);
    std::fill(query + features, query + std::max(features, order.features), Real{0});
    for (std::size_t r = 0; r < panel_.rows; ++r) {
      rows_.scores.read_query(panel_.query_row(r), panel_.head(r), query);
      rows_.products.row_query(on_.problem.key.type, query, order.features,
                               rows_.scores.query_scale(), query_ + r * order.query_numbers());
    }
  }

  /// Takes infinite and NaN values out of the copy of a block, and adds them to the rows that
  /// attend them.
  void isolate(const KeyBlock& block) const {
    const Problem& p = on_.problem;
    const std::size_t features = on_.value_features();
    const auto bytes = static_cast<std::size_t>(p.value.bytes);
    const Real* const attended = rows_.scores.attended(panel_, block);
    auto* const copies = reinterpret_cast<std::byte*>(on_.buffer(&Slab::values));
    auto* const scales = reinterpret_cast<float*>(on_.buffer(&Slab::value_scales));
    const auto read = [&](std::size_t j) {
      Real* const values = on_.buffer(&Slab::rows);
      on_.sequence.read_key(on_.kernels, values_of(p, on_.args), rows_.key_head,
                            block.begin + static_cast<std::int64_t>(j), p.value_features, values);
      return values;
    };
    each_special(block.keys, features, read, [&](std::size_t j, std::size_t x, Real value) {
      add_special(
          value, attended + j * panel_.pitch, scores() + j * pitch_, panel_.rows,
          [&](std::size_t r) -> Real& { return sums_[r * order_.padded() + order_.place(x)]; });
      std::fill_n(copies + (j * order_.features + x) * bytes, bytes, std::byte{0});
    });
    for (std::size_t j = 0; j < block.keys && is_scaled(p.value.type); ++j)
      if (!std::isfinite(scales[j])) scales[j] = 0;
  }

  Real* scores() const { return on_.buffer(&Slab::scores); }

  const DecodedRows<Real>& rows_;
  const AttentionThread<Real>& on_;
  const Panel<Real>& panel_;
  const KeyBlock keys_;
  const Stored<Real>& key_;
  const Stored<Real>& value_;
  const RowOrder order_;  ///< of sums
  Real* const query_;
  Real* const sums_;
  const bool plain_;         ///< every row attends every key, and no option changes a score
  const std::size_t pitch_;  ///< of scores
  PartialResults<Real> result_{};
};

}  // namespace heed
