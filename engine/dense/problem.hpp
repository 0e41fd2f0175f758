// One dense attention problem: the descriptor after its defaults are filled in and its fields
// are checked. From here on nobody asks whether a number makes sense.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/heed.h"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/dropout.hpp"
#include "engine/tensor/layout.hpp"
#include "engine/tensor/scale.hpp"

namespace heed {

/// A window's side without a bound, as in heed_attention_desc.
inline constexpr std::int64_t kUnbounded = -1;

/// Row i of a sequence stands at position i + offset and attends the keys from i + first up to, not
/// including, i + end, masks aside. Values past all rows and keys are clamped, far from overflow.
struct Limits {
  std::int64_t offset, first, end;
};

struct Problem : Scaling {
  std::int64_t batch;
  std::int64_t query_heads;
  std::int64_t key_heads;
  std::int64_t query_length;  ///< of the longest sequence
  std::int64_t key_length;
  std::int64_t features;
  std::int64_t value_features;
  std::int64_t packed_queries;  ///< rows of packed tensors; 0: not packed
  std::int64_t packed_keys;
  std::int64_t pages;  ///< of the pools of keys and values; 0: not paged
  std::int64_t page_rows;
  std::int64_t table_stride;  ///< entries of a sequence in the block table
  Layout query, key, value, out;
  Layout key_scales, value_scales;   ///< used where keys, or values, are of 8 bits
  Layout mask, bias;                 ///< used where args give one
  Layout lse, weights, column_sums;  ///< used where args give one
  bool float64;                      ///< the arithmetic's type: double, else float
  bool projected;  ///< queries, keys and values belong to a block, which does not round them

  /// Query row i stands at position p = i + offset and attends the keys from p - left to
  /// p + right: causal is a window with nothing to its right.
  std::int64_t left, right;
  bool bottom_right;    ///< offset is a sequence's key length minus its query length
  std::int64_t offset;  ///< unless bottom_right
  bool offset_given;    ///< causal or alignment says it

  heed_weights_point weights_point;
  bool sum_columns;
  std::uint32_t dropout;     ///< of kDropoutValues; 0: none
  std::int64_t weight_rows;  ///< listed in args; 0: all

  /// The share of weights that dropout leaves on the whole.
  double kept() const { return kept_part(dropout); }

  /// Query heads that share one key head; 1 where there are none.
  std::int64_t group() const { return key_heads == 0 ? 1 : query_heads / key_heads; }

  /// The limits of a sequence of these lengths.
  Limits limits(std::int64_t queries, std::int64_t keys) const;

  /// Later rows attend more keys.
  bool triangular() const { return right != kUnbounded && left == kUnbounded; }
};

/// Values of a query's gradient; where scores are no products, of the weights of features' too.
inline Size summed_features(const Problem& p) {
  return Size(p.features) * (p.is_product() ? 1 : 2);
}

/// Throws unless pages may have so many rows.
void check_page_rows(std::int64_t rows);

/// Throws an Error that names the field, its value and the bound.
Problem validate(const heed_attention_desc& desc);

/// Throws unless a run has the tensors that it needs, and its lengths and rows make sense.
void validate(const Problem& problem, const heed_attention_args& args);

/// The keys, or the values, of a run.
struct StoredTensor {
  const void* data;
  const Layout& layout;
  const float* scales;  ///< used where is_scaled(layout.type)
  const Layout& scale_layout;
};
inline StoredTensor keys_of(const Problem& p, const heed_attention_args& args) {
  return {args.key, p.key, args.key_scales, p.key_scales};
}
inline StoredTensor values_of(const Problem& p, const heed_attention_args& args) {
  return {args.value, p.value, args.value_scales, p.value_scales};
}

/// One item of the batch, with the lengths that a run's arguments give it.
struct Sequence {
  std::int64_t batch;
  std::int64_t query_begin, query_length;  ///< begins at 0 if it is empty or not packed
  std::int64_t key_begin, key_length;
  std::int64_t first_attended;  ///< key: no row attends the keys before it
  const std::int32_t* pages;    ///< where keys lie, see key_row(); nullptr: one after the other
  std::int64_t page_rows;
  Limits limits;

  /// The address of key or value j of a head.
  const std::byte* key_row(const void* data, const Layout& layout, std::int64_t head,
                           std::int64_t j) const {
    if (pages == nullptr) return row_at(data, layout, batch, head, key_begin + j);
    return row_at(data, layout, pages[j / page_rows], head, j % page_rows);
  }
  /// The scale of key or value j of a head, if is_scaled(its type).
  float scale(const StoredTensor& of, std::int64_t head, std::int64_t j) const {
    return *reinterpret_cast<const float*>(key_row(of.scales, of.scale_layout, head, j));
  }
  /// Reads feature x of key or value j of a head to to[x].
  template <class Real>
  void read_key(const KernelTable<Real>& kernels, const StoredTensor& of, std::int64_t head,
                std::int64_t j, std::int64_t features, Real* to) const {
    const Layout& layout = of.layout;
    kernels.numbers.read(layout.type, key_row(of.data, layout, head, j), layout.strides.feature,
                         static_cast<std::size_t>(features), to);
    if (!is_scaled(layout.type)) return;
    const auto factor = static_cast<Real>(scale(of, head, j));
#pragma GCC unroll 8
    for (std::int64_t x = 0; x < features; ++x) to[x] *= factor;
  }
  /// How many keys, j the first, lie one after the other, stride_row apart.
  std::int64_t keys_in_place(std::int64_t j) const {
    return pages == nullptr ? key_length - j : page_rows - j % page_rows;
  }

  /// Row i attends the keys [first_key(i), end_key(i)), masks aside. Both grow with i.
  std::int64_t first_key(std::int64_t i) const { return within(i + limits.first); }
  std::int64_t end_key(std::int64_t i) const { return within(i + limits.end); }

 private:
  std::int64_t within(std::int64_t j) const {
    return j < first_attended ? first_attended : (j < key_length ? j : key_length);
  }
};

/// Sequence b of a run, whose arguments have been validated.
Sequence sequence_of(const Problem& problem, const heed_attention_args& args, std::int64_t b);

/// For HEED_VERBOSE: the sizes of a problem, and the options in force.
Text sizes_of(const Problem& problem);
Text options_of(const Problem& problem, const heed_attention_args& args);

}  // namespace heed
