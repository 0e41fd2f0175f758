// Operands and results of kernels: matrices, rows and edges where they lie, ranges of keys,
// rows to fetch ahead, and the state of online softmax. As table.hpp, which has the kernels, it has
// nothing inline that could be emitted twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

/// A condition that a kernel's caller must keep to. Builds with sanitizers, which define
/// HEED_CHECKS_CONTRACTS, check it and end with a message where it is broken; others trust their
/// callers.
#if defined(HEED_CHECKS_CONTRACTS)
#include <cstdio>
#include <cstdlib>
#define HEED_CONTRACT(kept)                                                                  \
  ((kept) ? static_cast<void>(0)                                                             \
          : (static_cast<void>(std::fprintf(stderr, "%s:%d: a kernel's caller breaks: %s\n", \
                                            __FILE__, __LINE__, #kept)),                     \
             std::abort()))
#else
#define HEED_CONTRACT(kept) static_cast<void>(0)
#endif

namespace heed {

/// Buffers that kernels read and write with aligned vectors begin at multiples of this.
inline constexpr std::size_t kAlignment = 64;

/// Arrays on the stack have room for the panels of every family and instruction set: at most so
/// many vectors, and so many query rows.
inline constexpr std::size_t kMaxVectors = 3;
inline constexpr std::size_t kMaxPanel = 48;

/// The type of a value in memory.
enum class ElementType : std::uint8_t {
  kF32,
  kF64,
  kBf16,
  kF16,
  kI8,      ///< -127 to 127, times a scale that lies elsewhere
  kF8E4M3,  ///< OCP's: largest 448, no infinity; times a scale, likewise
  kMask,    ///< a byte, not 0 where a key is attended; read by `mask_rows` alone
};

/// The type of numbers of the arithmetic.
template <class Real>
inline constexpr ElementType kTypeOf = ElementType::kF32;
template <>
inline constexpr ElementType kTypeOf<double> = ElementType::kF64;

/// A matrix read where it lies: element (row, column) at data[row * row_stride + column *
/// column_stride].
template <class Element>
struct MatrixView {
  const Element* data;
  std::ptrdiff_t row_stride;
  std::ptrdiff_t column_stride;
};

/// Rows of elements side by side: element (row, column) at data[row * row_stride + column].
template <class Element>
struct RowsView {
  const Element* data;
  std::ptrdiff_t row_stride;
};

/// Rows, and a panel that has a line for each of their columns.
template <class Element>
struct RowsAndPanel {
  RowsView<Element> rows;
  const Element* panel;
  std::size_t columns;
};

/// Values, in place or packed in blocks of B = value_block features: feature x of key j lies at
/// data[(x / B) * block_stride + (x % B) * feature_stride + j * key_stride]; of pairs the group of
/// keys j, its Elements side by side. Single values have feature_stride 1.
template <class Element>
struct ValueView {
  const Element* data;
  std::ptrdiff_t key_stride;
  std::ptrdiff_t feature_stride;
  std::ptrdiff_t block_stride;
};

/// The keys that the rows of vector w need: [begin[w], end[w]). Products leave out the other pairs.
/// As the limits of rows do, both ends grow with w, from begin[0] = 0 on, and the last vector
/// begins where the first ends or before:
///
///   keys        0 1 2 3 4 5 6 7
///   vector 0    x x x x             [0, 4)
///   vector 1      x x x x x         [1, 6)
///   vector 2          x x x x x     [3, 8)
struct KeyRanges {
  std::size_t begin[kMaxVectors];
  std::size_t end[kMaxVectors];

  // Always inline, as all_keys() is.
  [[gnu::always_inline]] constexpr bool hold_for(std::size_t vectors) const {
    bool held = begin[0] == 0 && begin[vectors - 1] <= end[0];
    for (std::size_t w = 1; w < vectors; ++w)
      held = held && begin[w - 1] <= begin[w] && end[w - 1] <= end[w];
    return held;
  }
};

/// All rows need the keys [0, keys). Always inline, because kernels use it: a copy compiled for one
/// CPU must not be linked for all.
[[gnu::always_inline]] constexpr KeyRanges all_keys(std::size_t keys) {
  KeyRanges ranges{};
  for (std::size_t& end : ranges.end) end = keys;
  return ranges;
}

/// The keys of `ranges` that are in [begin, end), counted from `begin`.
[[gnu::always_inline]] constexpr KeyRanges clipped(const KeyRanges& ranges, std::size_t begin,
                                                   std::size_t end) {
  KeyRanges inside{};
  for (std::size_t w = 0; w < kMaxVectors; ++w) {
    const std::size_t first = ranges.begin[w] < begin ? begin : ranges.begin[w];
    const std::size_t last = ranges.end[w] < begin ? begin : ranges.end[w];
    inside.begin[w] = (first > end ? end : first) - begin;
    inside.end[w] = (last > end ? end : last) - begin;
  }
  return inside;
}

/// Keys that one counter of Philox serves, from a multiple of that on: it has as many bytes.
inline constexpr std::uint64_t kDropoutKeys = 16;

/// Which pairs of some keys and a panel's rows are dropped: the ones whose byte is less than
/// `threshold`. It is byte k % kDropoutKeys, the lowest of a word first, of the four words that
/// Philox makes of {k / kDropoutKeys, row, head, batch}, by their lower 32 bits.
struct DroppedPairs {
  std::uint32_t key[2];  ///< of Philox
  std::uint32_t threshold, batch;
  const std::uint32_t* rows;   ///< of the panel's lanes; a lane without a row has any
  const std::uint32_t* heads;  ///< likewise
  std::uint64_t first_key;
};

/// Rows of a matrix that edges point at, in the type that they are stored in: edge e's is row
/// source[e], and its heads lie head_stride apart, the features of each side by side.
struct EdgeRows {
  ElementType type;  ///< Real, or for float also a type of 16 bits
  const void* data;
  const std::int32_t* source;
  std::ptrdiff_t stride, head_stride;  ///< bytes
  /// While edge e's row is read, the row of edge e + ahead is prefetched; 0: none is. `source` goes
  /// on for so many edges more.
  std::size_t ahead = 0;

  // Always inline, as all_keys() is.
  [[gnu::always_inline]] const char* row(std::size_t edge) const {
    return static_cast<const char*>(data) + source[edge] * stride;
  }
  /// The same rows, from a head on.
  [[gnu::always_inline]] EdgeRows from_head(std::int64_t head) const {
    EdgeRows rows = *this;
    rows.data = static_cast<const char*>(data) + head * head_stride;
    return rows;
  }
  /// The same rows, which have just been read.
  [[gnu::always_inline]] EdgeRows again() const {
    EdgeRows rows = *this;
    rows.ahead = 0;
    return rows;
  }
};

/// act() of scores: tanh, or else x, times the slope unless it is above 0.
template <class Real>
struct Activation {
  bool tanh;
  Real slope;
};

/// Queries, and weights of features, of a panel whose scores are no products: [features][pitch].
template <class Real>
struct ActivatedPanel {
  const Real* query;
  const Real* weights;
  std::size_t features;
  Activation<Real> act;
};

/// Where their gradients go: [features][pitch]; gradients of keys to [keys][key_pitch].
template <class Real>
struct ActivatedGradient {
  Real* query;
  Real* weights;
  Real* key;
  std::size_t key_pitch;
};

/// The most queries that kernels attend over rows at once.
inline constexpr std::size_t kAttendQueries = 8;

/// Rows of nodes that follow each other, or one for all of them at a stride of 0: [heads][features]
/// of Reals, `stride` numbers apart.
template <class Real>
struct NodeRows {
  Real* first;
  std::ptrdiff_t stride;
};

/// The row of each edge's own node: of the node with that index.
template <class Real>
struct OwnRows {
  NodeRows<const Real> rows;
  const std::int32_t* index;

  // Always inline, as all_keys() is.
  [[gnu::always_inline]] const Real* row(std::size_t edge) const {
    return rows.first + index[edge] * rows.stride;
  }
};

/// The most edges that kernels of nodes take at once.
inline constexpr std::size_t kNodeEdges = 128;

/// Nodes of a graph that follow each other, their own rows, and the rows that their edges lead to.
/// Sources have their keys and values, queries and gradients of results here. Where scores are
/// no products of query and key, `query` is weights of features, `keys` what act() makes of both,
/// and `slopes` its derivatives; or, if `act` is given, of numbers: query and key have one for each
/// head, and act() of their sum is the score. Gradients of queries and keys are then such too.
template <class Real>
struct NodeEdges {
  std::size_t nodes;
  std::size_t edges;            ///< of all of them: up to kNodeEdges
  const std::int64_t* offsets;  ///< [nodes + 1] where their edges begin, counted from anywhere
  const std::int32_t* own;      ///< [edges] which node has it, from 0 on
  EdgeRows keys, values;
  EdgeRows slopes;  ///< of scores by what gradients are wanted of: of products, keys
  std::size_t heads, features, value_features;
  NodeRows<const Real> query;  ///< of `features`
  NodeRows<const Real> grad;   ///< of its results, of `value_features`
  Real scale;                  ///< of scores, in log2 units
  const Activation<Real>* act;

  // Always inline, as all_keys() is.
  [[gnu::always_inline]] constexpr bool holds_for(std::size_t padding) const {
    return nodes <= kNodeEdges && edges <= kNodeEdges &&
           offsets[nodes] - offsets[0] == static_cast<std::int64_t>(edges) &&
           (act != nullptr || features % padding == 0) && value_features % padding == 0;
  }
};

/// Rows that follow each other at a stride.
struct RowRun {
  const void* data;
  std::size_t count;
  /// When row j is read, row j from here on is prefetched, if j < next_count; of the bytes of a row
  /// as many as row j has.
  const void* next;
  std::size_t next_count;
};

/// Rows of a matrix in the type that they are stored in, read where they lie: in runs of any
/// length, since an address per row would take a load before every load. Where runs end changes no
/// bit. Features of a row lie side by side. Rows of 8 bits are multiplied with their scales.
struct StoredRows {
  /// Pages have a multiple of so many rows; runs are cut at such, from where they or pages begin.
  static constexpr std::size_t kRunRows = 16;
  static constexpr std::size_t kMostRuns = 4;
  /// So many rows are in kMostRuns runs at most, wherever they lie.
  static constexpr std::size_t kMostRows = kRunRows * kMostRuns;

  ElementType type;       ///< Real, or for float also a type of 16 or 8 bits
  std::ptrdiff_t stride;  ///< bytes
  std::ptrdiff_t next_stride;
  std::size_t count;
  std::size_t features;  ///< at least the lanes
  const float* scales;   ///< [count], of rows of 8 bits
  std::size_t run_count;
  RowRun runs[kMostRuns];

  // Always inline, as all_keys() is.
  [[gnu::always_inline]] constexpr bool hold_for(std::size_t lanes) const {
    std::size_t in_runs = 0;
    bool held = run_count <= kMostRuns && features >= lanes;
    for (std::size_t r = 0; held && r < run_count; ++r) {
      held = runs[r].count > 0;
      in_runs += runs[r].count;
    }
    return held && in_runs == count;
  }

  const char* row(const RowRun& run, std::size_t j) const {
    return static_cast<const char*>(run.data) + static_cast<std::ptrdiff_t>(j) * stride;
  }
  const char* next(const RowRun& run, std::size_t j) const {
    return static_cast<const char*>(run.next) + static_cast<std::ptrdiff_t>(j) * next_stride;
  }
};

/// Rows of StoredRows one after the other, up to `most` at a time.
class RowGroups {
 public:
  // Always inline, as all_keys() is.
  [[gnu::always_inline]] RowGroups(const StoredRows& rows, std::size_t most)
      : rows_(rows), most_(most) {}
  [[gnu::always_inline]] StoredRows next() {
    const std::size_t left = rows_.count - first_;
    StoredRows group;  // runs are written as they are found: to clear them takes as long
    group.type = rows_.type;
    group.stride = rows_.stride;
    group.next_stride = rows_.next_stride;
    group.count = left < most_ ? left : most_;
    group.features = rows_.features;
    group.scales = rows_.scales == nullptr ? nullptr : rows_.scales + first_;
    group.run_count = 0;
    for (std::size_t j = 0; j < group.count;) {
      const RowRun& from = rows_.runs[run_];
      RowRun& run = group.runs[group.run_count++];
      const std::size_t wanted = group.count - j;
      run = {rows_.row(from, row_), from.count - row_, nullptr, 0};
      if (run.count > wanted) run.count = wanted;
      if (row_ < from.next_count) {
        run.next = rows_.next(from, row_);
        run.next_count = from.next_count - row_;
      }
      j += run.count;
      row_ += run.count;
      if (row_ == from.count) ++run_, row_ = 0;
    }
    first_ += group.count;
    return group;
  }

 private:
  const StoredRows& rows_;
  const std::size_t most_;
  std::size_t run_ = 0;
  std::size_t row_ = 0;    ///< of the run
  std::size_t first_ = 0;  ///< of all
};

/// Where kernels put the features of a stored row: vector by vector. The last vector ends with the
/// row, so that nothing is read past it, and repeats features of the one before if it must; these
/// do not count. Six features in vectors of four lanes:
///
///   x0 x1 x2 x3  -- -- x4 x5
struct RowOrder {
  std::size_t lanes;
  std::size_t features;  ///< at least `lanes`

  // Always inline, as all_keys() is.
  /// Features in whole vectors: they lie where they lie in the row.
  [[gnu::always_inline]] std::size_t whole() const { return features / lanes * lanes; }
  /// Numbers of all vectors.
  [[gnu::always_inline]] std::size_t padded() const {
    return (features + lanes - 1) / lanes * lanes;
  }
  /// Where the first of the other features lies; the rest follow it.
  [[gnu::always_inline]] std::size_t rest() const { return whole() + (padded() - features); }
  /// Numbers of a query, as row_query() leaves it.
  [[gnu::always_inline]] std::size_t query_numbers() const { return 2 * padded() + lanes; }
  /// Where feature x lies.
  [[gnu::always_inline]] std::size_t place(std::size_t x) const {
    return x < whole() ? x : x - whole() + rest();
  }
};

/// Rows that are read or written before long. Kernels that multiply prefetch them, a line now and
/// then, because memory is idle meanwhile; nothing else depends on them.
class Ahead {
 public:
  // Always inline, as all_keys() is.
  /// `count` rows of `bytes` bytes, at least one of each. Rows without room here are left out.
  [[gnu::always_inline]] void add(const char* first, std::ptrdiff_t stride, std::size_t count,
                                  std::size_t bytes) {
    if (added_ == kMost) return;
    const bool whole = stride == static_cast<std::ptrdiff_t>(bytes);
    rows_[added_++] = {first, stride, whole ? 1 : count, whole ? count * bytes : bytes};
    if (added_ == 1) begin(0);
  }

  [[gnu::always_inline]] void fetch_line() {
    if (lines_ == 0) return;
    __builtin_prefetch(next_, 0, 2);
    next_ += kLine;
    if (--lines_ > 0) return;
    const Rows& rows = rows_[at_];
    if (--left_ > 0) {
      row_ += rows.stride;
      next_ = row_;
      lines_ = (rows.bytes + kLine - 1) / kLine;
    } else if (at_ + 1 < added_) {
      begin(at_ + 1);
    }
  }

 private:
  struct Rows {
    const char* first;
    std::ptrdiff_t stride;
    std::size_t count;
    std::size_t bytes;
  };
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kMost = 8;

  [[gnu::always_inline]] void begin(std::size_t at) {
    at_ = at;
    row_ = next_ = rows_[at].first;
    left_ = rows_[at].count;
    lines_ = (rows_[at].bytes + kLine - 1) / kLine;
  }

  Rows rows_[kMost] = {};
  std::size_t added_ = 0;
  std::size_t at_ = 0;          ///< of rows_
  std::size_t left_ = 0;        ///< rows of these, the current one included
  const char* row_ = nullptr;   ///< the current one
  const char* next_ = nullptr;  ///< its next line
  std::size_t lines_ = 0;       ///< left of it; 0: nothing is left at all
};

/// The panels of query rows and of the gradients of their results, and what `softmax_gradient`
/// knows of these rows.
template <class Element, class Real>
struct GradientPanels {
  const Element* query;
  std::size_t features;
  const Element* grad_out;
  std::size_t value_features;
  const Real *whole, *rest, *delta;  ///< [pitch]
};

/// Probabilities and gradients of scores, rounded to bfloat16: as rows that begin `pitch` values
/// apart, and the gradients as a panel of pairs of keys too.
template <class Element>
struct RoundedGradients {
  std::uint16_t *probs, *gradients;  ///< [key][pitch]
  std::size_t pitch;
  Element* paired;  ///< [keys / 2][pitch of the panel]
};

/// The state of online softmax for a panel's rows, kept from one key block to the next.
template <class Real>
struct RowState {
  /// [pitch] Probabilities are relative to this, log2 units; kNoRowMax at first. It is lazy: it
  /// moves only when a score has outgrown it by a factor of 256, so the row's true maximum may be
  /// larger.
  Real* row_max;
  Real* row_sum;       ///< [pitch] running denominators, 0 at first
  Real* accumulators;  ///< [value_features][pitch], not read while `fresh`
  bool fresh;          ///< nothing has been accumulated yet
  Ahead* ahead = nullptr;
  const Real* addend = nullptr;  ///< [key][pitch] what qk_softmax adds to scores; nullptr: nothing
};

/// The row_max of a row that has seen no score above -inf: finite, so that -inf minus it is
/// -inf and not NaN, and lower than anything real.
template <class Real>
inline constexpr Real kNoRowMax = std::is_same_v<Real, float>
                                      ? static_cast<Real>(-3.402823466e+38F)
                                      : static_cast<Real>(-1.7976931348623157e+308);

/// A finite score past the other end counts as this, not as the largest number: as a row_max that
/// stands for +inf.
template <class Real>
inline constexpr Real kHighestScore = std::is_same_v<Real, float>
                                          ? static_cast<Real>(0x1.fffffcp127F)
                                          : static_cast<Real>(0x1.ffffffffffffep1023);

/// A log-sum-exp further from 0, of either sign, has lost digits that its probabilities show: they
/// are off by more than 2^-14.
template <class Real>
inline constexpr double kFarLogSum = std::is_same_v<Real, float> ? 0x1p10 : 0x1p39;

/// Whole numbers so large, of either sign, are still exact beside the rounding of an exponent.
inline constexpr double kMostWhole = 1 << 20;

/// How far, in log2 units, a score may outgrow its row_max before that moves and the row is
/// rescaled. Probabilities, not normalised yet, are then at most 2^8, far from overflow, and
/// rescaling is rare: after the first key block a maximum seldom grows by a factor of 256.
template <class Real>
inline constexpr Real kRescaleThreshold = 8;

}  // namespace heed
