// The kernels of one instruction set, as plain function pointers.
//
// This header is the only thing that the rest of heed and the kernels share: no xsimd, no
// containers, nothing inline that could be emitted twice. Each <isa>.cpp defines one table,
// constant-initialised; runtime/isa.cpp lists them and picks one per context.
//
// Everything is transposed: the lanes of a vector are query rows. A panel holds up to
// `max_vectors` vectors of rows side by side, so its pitch is vectors * lanes floats:
//
//   query panel    [features][pitch]         scaled query, column by column
//   score tile     [keys][pitch]             scores in log2 units, then weights
//   accumulators   [value_features][pitch]   unnormalised output
//   row_*          [pitch]                   one number per query row
//
// Row reductions are then plain vertical vector operations, key rows are read where they lie
// with one broadcast per key and feature, and no size but the number of rows has a vector tail.
// All buffers begin at multiples of kAlignment; see engine/README.md for the reasons.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heed {

/// Buffers that kernels read and write with aligned vectors begin at multiples of this.
inline constexpr std::size_t kAlignment = 64;

/// Rows of a kernel's result are computed in groups; score tiles and accumulators have room
/// for a multiple of this many rows, whatever the group of the instruction set.
inline constexpr std::size_t kRowPadding = 8;

/// Packed values: features in blocks of one cache line, [block][key][kValueBlock].
inline constexpr std::size_t kValueBlock = 16;

/// The most query rows any instruction set holds in one panel.
inline constexpr std::size_t kMaxPanel = 48;

/// A matrix read where it lies: element (row, column) at data[row * row_stride + column *
/// column_stride].
struct MatrixView {
  const float* data;
  std::ptrdiff_t row_stride;
  std::ptrdiff_t column_stride;
};

/// Values, in place or packed: feature x of key j lies at
/// data[(x / kValueBlock) * block_stride + (x % kValueBlock) * feature_stride + j * key_stride].
struct ValueView {
  const float* data;
  std::ptrdiff_t key_stride;
  std::ptrdiff_t feature_stride;
  std::ptrdiff_t block_stride;
};

/// What online softmax remembers of a panel's rows between key steps.
struct RowState {
  float* reference;     ///< [pitch] what weights are relative to, log2 units; kNoReference at first
  float* sum;           ///< [pitch] running denominators, 0 at first
  float* accumulators;  ///< [value_features][pitch], not read while `fresh`
  bool fresh;           ///< no key step has been accumulated yet
};

/// The reference of a row that has seen no score above -inf: finite, so that -inf minus it is
/// -inf and not NaN, and lower than anything real.
inline constexpr float kNoReference = -3.402823466e+38F;

struct KernelTable {
  const char* isa;
  std::uint32_t lanes;        ///< float32 per vector
  std::uint32_t max_vectors;  ///< vectors in a full panel
  std::uint32_t key_step;     ///< keys between two rescaling decisions: part of what fixes the bits

  /// Transposes up to vectors * lanes query rows into a panel, times `scale`.
  /// rows[r] points at row r; rows past `row_count` become zeros.
  void (*pack_query)(const float* const* rows, std::size_t row_count, std::ptrdiff_t feature_stride,
                     std::size_t features, float scale, float* panel, std::size_t vectors);

  /// scores[j][r] = <key j, query r>, for j < keys. Writes whole groups: up to keys rounded up
  /// to kRowPadding rows; those past `keys` hold copies of other keys' scores.
  void (*scores)(const MatrixView& key, std::size_t keys, const float* panel, std::size_t features,
                 float* scores, std::size_t vectors);

  /// scores[j][r] = -inf where j >= limit[r]. Limits are whole numbers.
  void (*mask)(float* scores, std::size_t keys, const float* limit, std::size_t vectors);

  /// One step of online softmax: scores become weights exp2(score - reference), sums grow by
  /// them; where a row's maximum has outgrown its reference, the reference moves and sum and
  /// accumulators [value_features][pitch] are rescaled first.
  /// Source: Milakov & Gimelshein 2018, algorithm 3 (arXiv:1805.02867), with lazy rescaling.
  void (*softmax)(float* scores, std::size_t keys, const RowState& rows, std::size_t value_features,
                  std::size_t vectors);

  /// Scores and softmax in one, for keys whose scores nothing else has to see: out[j][r] becomes
  /// the weight of key j, as `scores` and then `softmax` would leave it but for when references
  /// move. `keys` is a multiple of kRowPadding. The `pending` rows of weights that lie before
  /// `out` are of the same step, not accumulated yet, and are rescaled with the accumulators.
  void (*weights)(const MatrixView& key, std::size_t keys, const float* panel, std::size_t features,
                  float* out, std::size_t pending, const RowState& rows, std::size_t value_features,
                  std::size_t vectors);

  /// Copies keys x features values to [feature block][key][kValueBlock], zero-padded.
  void (*pack_values)(const MatrixView& value, std::size_t keys, std::size_t features,
                      float* packed);

  /// accumulators[x][r] += sum over j < keys of weights[j][r] * value[j][x], keys in order.
  /// `fresh` starts from zero. Writes up to features rounded up to kRowPadding rows.
  void (*accumulate)(const ValueView& value, std::size_t keys, const float* weights,
                     float* accumulators, std::size_t features, bool fresh, std::size_t vectors);

  /// out_rows[r][x * feature_stride] = accumulators[x][r] / sum[r], and 0 where sum is 0, for
  /// r < row_count, x < features. Uses the accumulators as scratch.
  void (*finish)(float* accumulators, const float* sum, std::size_t features,
                 float* const* out_rows, std::size_t row_count, std::ptrdiff_t feature_stride,
                 std::size_t vectors);

  /// y[i] = 2^x[i]. Error at most 1 ULP for x in [-126, 127.5]; below -126.5 the result is +0.
  void (*exp2)(const float* x, float* y, std::size_t count);
};

/// One per <isa>.cpp; declared here, listed in runtime/isa.cpp where compiled in.
extern const KernelTable kScalarKernels;
extern const KernelTable kSse2Kernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;
extern const KernelTable kNeonKernels;

}  // namespace heed
