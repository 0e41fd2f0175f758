// The kernels of one instruction set, as plain function pointers.
//
// Real is the type of the arithmetic, float or double; everything but their `read` and `write`
// sees numbers of that type only.
//
// This header is the only thing that the rest of heed and the kernels share: no xsimd, no
// containers, nothing inline that could be emitted twice. Each <isa>.cpp defines one table,
// constant-initialised; runtime/isa.cpp lists them and picks one per context.
//
// Everything is transposed: the lanes of a vector are query rows. A panel holds up to
// `max_vectors` vectors of rows side by side, so its pitch is vectors * lanes numbers:
//
//   query panel    [features][pitch]         scaled query, column by column
//   score tile     [keys][pitch]             scores in log2 units, then weights
//   accumulators   [value_features][pitch]   unnormalised output
//   the rest       [pitch]                   one number per query row
//
// Row reductions are then plain vertical vector operations, key rows are read where they lie
// with one broadcast per key and feature, and no size but the number of rows has a vector tail.
// All buffers begin at multiples of kAlignment; see engine/README.md for the reasons.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace heed {

/// Buffers that kernels read and write with aligned vectors begin at multiples of this.
inline constexpr std::size_t kAlignment = 64;

/// Rows of a kernel's result are computed in groups; score tiles and accumulators have room
/// for a multiple of this many rows, whatever the group of the instruction set.
inline constexpr std::size_t kRowPadding = 8;

/// Packed values: features in blocks of one cache line (of float32) or two (of float64),
/// [block][key][kValueBlock].
inline constexpr std::size_t kValueBlock = 16;

/// Scores are sums over runs of about this many features, weighted values over runs of at most this
/// many keys: a chain of additions is off by the more the longer it is, and these two make up most
/// of the error of a row of attention.
inline constexpr std::size_t kRun = 64;

/// Vectors in a full panel, and the most query rows that any instruction set holds in one.
inline constexpr std::size_t kMaxVectors = 3;
inline constexpr std::size_t kMaxPanel = 48;

/// What a number in memory is.
enum class ElementType : std::uint8_t {
  kF32,
  kF64,
  kBf16,
  kF16,
  kMask,  ///< a byte, not 0 where a key is attended; read by `mask_rows` alone
};

/// A matrix read where it lies: element (row, column) at data[row * row_stride + column *
/// column_stride].
template <class Real>
struct MatrixView {
  const Real* data;
  std::ptrdiff_t row_stride;
  std::ptrdiff_t column_stride;
};

/// Values, in place or packed: feature x of key j lies at
/// data[(x / kValueBlock) * block_stride + (x % kValueBlock) * feature_stride + j * key_stride].
template <class Real>
struct ValueView {
  const Real* data;
  std::ptrdiff_t key_stride;
  std::ptrdiff_t feature_stride;
  std::ptrdiff_t block_stride;
};

/// The keys of a step that the rows of vector w need: [begin[w], end[w]). Both grow with w, from
/// begin[0] = 0 on, as the limits of rows do; where the first vector ends, the last has begun.
/// Products leave out the other pairs.
struct KeyRanges {
  std::size_t begin[kMaxVectors];
  std::size_t end[kMaxVectors];
};

/// All rows need the keys [0, keys). Always inline, because kernels use it: a copy compiled for one
/// CPU must not be linked for all.
[[gnu::always_inline]] constexpr KeyRanges all_keys(std::size_t keys) {
  KeyRanges ranges{};
  for (std::size_t& end : ranges.end) end = keys;
  return ranges;
}

/// What `ranges` leave of keys [begin, end), counted from `begin`.
[[gnu::always_inline]] constexpr KeyRanges part(const KeyRanges& ranges, std::size_t begin,
                                                std::size_t end) {
  KeyRanges part{};
  for (std::size_t w = 0; w < kMaxVectors; ++w) {
    const std::size_t first = ranges.begin[w] < begin ? begin : ranges.begin[w];
    const std::size_t last = ranges.end[w] < begin ? begin : ranges.end[w];
    part.begin[w] = (first > end ? end : first) - begin;
    part.end[w] = (last > end ? end : last) - begin;
  }
  return part;
}

/// Features of gathered rows, and of what they are multiplied with, come in multiples of 16 bytes.
template <class Real>
inline constexpr std::size_t kFeaturePadding = 16 / sizeof(Real);

/// Rows of a matrix that edges point at: head h of edge e's row begins at
/// data[source[e] * stride + h * head_stride], its features side by side.
template <class Real>
struct EdgeRows {
  const Real* data;
  const std::int32_t* source;
  std::ptrdiff_t stride;
  std::ptrdiff_t head_stride;
};

/// What online softmax remembers of a panel's rows between key steps.
template <class Real>
struct RowState {
  Real* reference;     ///< [pitch] what weights are relative to, log2 units; kNoReference at first
  Real* sum;           ///< [pitch] running denominators, 0 at first
  Real* accumulators;  ///< [value_features][pitch], not read while `fresh`
  bool fresh;          ///< no key step has been accumulated yet
};

/// The reference of a row that has seen no score above -inf: finite, so that -inf minus it is
/// -inf and not NaN, and lower than anything real.
template <class Real>
inline constexpr Real kNoReference = std::is_same_v<Real, float>
                                         ? static_cast<Real>(-3.402823466e+38F)
                                         : static_cast<Real>(-1.7976931348623157e+308);

template <class Real>
struct KernelTable {
  const char* isa;
  std::uint32_t lanes;        ///< numbers per vector
  std::uint32_t max_vectors;  ///< vectors in a full panel
  std::uint32_t key_step;     ///< keys between two rescaling decisions: part of what fixes the bits

  /// Transposes up to vectors * lanes query rows into a panel, times `scale`.
  /// rows[r] points at row r; rows past `row_count` become zeros.
  void (*pack_query)(const Real* const* rows, std::size_t row_count, std::ptrdiff_t feature_stride,
                     std::size_t features, Real scale, Real* panel, std::size_t vectors);

  /// scores[j][r] = <key j, query r>, for the keys that r's vector needs. Writes whole groups: up
  /// to the last vector's end rounded up to kRowPadding rows. Those past it hold copies of other
  /// keys' scores; what vectors do not need is such a copy, their score or untouched.
  void (*scores)(const MatrixView<Real>& key, const KeyRanges& keys, const Real* panel,
                 std::size_t features, Real* scores, std::size_t vectors);

  /// scores[j][r] = factor * tanh(x), where scores[j][r] is 2 log2(e) x on the way in, so that
  /// e^(2x) is a power of two. Relative error at most 4 ULP wherever tanh(x) is a normal number;
  /// exact at infinities, NaN stays NaN.
  void (*softcap)(Real* scores, std::size_t keys, Real factor, std::size_t vectors);

  /// scores[j][r] -= slope[r] * |position[r] - j|. Positions are whole numbers.
  void (*alibi)(Real* scores, std::size_t keys, const Real* position, const Real* slope,
                std::size_t vectors);

  /// scores[j][r] += rows[r][j] * factor for r < row_count, j < keys. An addend of -inf makes the
  /// score -inf whatever it and the factor were, NaN and 0 included: it masks the key. A product
  /// that overflows downwards counts as the lowest finite number, which does not.
  void (*add_rows)(Real* scores, std::size_t keys, const Real* const* rows, std::size_t row_count,
                   Real factor, std::size_t vectors);

  /// scores[j][r] = -inf where rows[r][j] is 0, for r < row_count, j < keys.
  void (*mask_rows)(Real* scores, std::size_t keys, const std::uint8_t* const* rows,
                    std::size_t row_count, std::size_t vectors);

  /// scores[j][r] = -inf unless first[r] <= j < limit[r]. Both are whole numbers.
  void (*mask)(Real* scores, std::size_t keys, const Real* first, const Real* limit,
               std::size_t vectors);

  /// One step of online softmax, for the keys that r's vector needs; the other scores are neither
  /// read nor written. Scores become weights exp2(score - reference), sums grow by them; where a
  /// row's maximum has outgrown its reference, the reference moves and sum and accumulators
  /// [accumulated][pitch] are rescaled first, and with them the `pending` rows of weights that
  /// lie before `scores`: they are of the same step, not accumulated yet. Source: Milakov &
  /// Gimelshein 2018, algorithm 3 (arXiv:1805.02867), with lazy rescaling.
  void (*softmax)(Real* scores, const KeyRanges& keys, std::size_t pending,
                  const RowState<Real>& rows, std::size_t accumulated, std::size_t vectors);

  /// The last part of `softmax` alone, for references that are final: scores become weights
  /// exp2(score - reference), sum[r] grows by them.
  void (*exponentials)(Real* scores, std::size_t keys, const Real* reference, Real* sum,
                       std::size_t vectors);

  /// One step of hard attention: where a score exceeds best[r], best[r] becomes it and index[r]
  /// its j, keys in order, so that the lowest of equal keys stays. NaN in a score makes best[r]
  /// NaN for good.
  void (*hardest)(const Real* scores, std::size_t keys, Real* best, Real* index,
                  std::size_t vectors);

  /// Scores and softmax in one, for keys whose scores nothing else has to see: out[j][r] becomes
  /// the weight of key j, as `scores` and then `softmax` would leave it but for when references
  /// move. `keys` is a multiple of kRowPadding.
  void (*weights)(const MatrixView<Real>& key, std::size_t keys, const Real* panel,
                  std::size_t features, Real* out, std::size_t pending, const RowState<Real>& rows,
                  std::size_t accumulated, std::size_t vectors);

  /// Copies keys x features values to [feature block][key][kValueBlock], zero-padded.
  void (*pack_values)(const MatrixView<Real>& value, std::size_t keys, std::size_t features,
                      Real* packed);

  /// accumulators[x][r] += sum of weights[j][r] * value[j][x] over the keys j that r's vector
  /// needs, in runs: the first of `first_run` keys, the others of kRun. `fresh` starts from zero.
  /// Writes up to features rounded up to kRowPadding rows.
  void (*accumulate)(const ValueView<Real>& value, const KeyRanges& keys, std::size_t first_run,
                     const Real* weights, Real* accumulators, std::size_t features, bool fresh,
                     std::size_t vectors);

  /// Whether none of the numbers is infinite or NaN. `count` is a multiple of the lanes.
  bool (*all_finite)(const Real* numbers, std::size_t count);

  /// out_rows[r][x * feature_stride] = accumulators[x][r] / sum[r], and 0 where sum is 0, for
  /// r < row_count, x < features. Reads nothing past `features` rounded up to kRowPadding rows.
  void (*finish)(const Real* accumulators, const Real* sum, std::size_t features,
                 Real* const* out_rows, std::size_t row_count, std::ptrdiff_t feature_stride,
                 std::size_t vectors);

  /// to[x][r] = accumulators[x][r] / sum[r], and 0 where sum is 0, for x < features: what `finish`
  /// writes, left in a panel. May be in place.
  void (*normalise)(const Real* accumulators, const Real* sum, std::size_t features, Real* to,
                    std::size_t vectors);

  /// tile[e * pitch + h] = <row of edge e, query h>, or grows by that unless `fresh`; the other
  /// lanes of the tile stay. query is [heads][features]; `features` is a multiple of
  /// kFeaturePadding.
  void (*edge_scores)(const EdgeRows<Real>& rows, std::size_t edges, const Real* query,
                      std::size_t heads, std::size_t features, bool fresh, Real* tile,
                      std::size_t pitch);

  /// sums[h][x] (+)= the sum over e < edges of weights[e * pitch + h] * row of edge e [h][x], edges
  /// in order. sums is [heads][features]; `features` is a multiple of kFeaturePadding. `fresh`
  /// starts from zero.
  void (*edge_values)(const EdgeRows<Real>& rows, std::size_t edges, const Real* weights,
                      std::size_t pitch, std::size_t heads, std::size_t features, Real* sums,
                      bool fresh);

  /// y[i] = 2^x[i]. Error at most 1 ULP where the result is normal and below the largest power
  /// of two (float32: x in [-126, 127.5], float64: [-1022, 1023.5]); +0 below that by 0.5.
  void (*exp2)(const Real* x, Real* y, std::size_t count);

  /// to[i] = the i-th element of `from` (no mask), `stride` elements apart, as Real: exact, but for
  /// float64 read as float32, which rounds to nearest even.
  void (*read)(ElementType type, const void* from, std::ptrdiff_t stride, std::size_t count,
               Real* to);

  /// The i-th element of `to`, `stride` elements apart, = from[i] rounded to nearest even.
  void (*write)(ElementType type, const Real* from, std::size_t count, void* to,
                std::ptrdiff_t stride);
};

/// The kernels of one instruction set.
struct Kernels {
  KernelTable<float> f32;
  KernelTable<double> f64;
};

/// One per <isa>.cpp; declared here, listed in runtime/isa.cpp where compiled in.
extern const Kernels kScalarKernels;
extern const Kernels kSse2Kernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kNeonKernels;

}  // namespace heed
