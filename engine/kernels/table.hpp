// The kernels of one instruction set, as tables of plain function pointers, by family: list.hpp has
// the families and what each kernel does. Every family has two types: Element, of values in memory,
// and Real, of the arithmetic. Both are float or both double; elements of other types are read into
// Real first. A family also has its own geometry: how many rows it takes, what it pads to, in which
// order it packs.
//
// The rest of heed and the kernels share only this header and operands.hpp: no xsimd, no
// containers, nothing inline that could be emitted twice. A family is a file, panels.cpp for
// example, which is compiled for every vector instruction set and type and defines one
// constant-initialised table; context/isa.cpp puts the tables of each instruction set together and
// picks a set per context.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/operands.hpp"

namespace heed {

/// The sizes that callers of the panels' kernels allocate, cut and pad by. The sizes that
/// all instruction sets share are constants.
struct PanelGeometry {
  /// Kernels compute rows of results in groups: scores and accumulators have room for a multiple of
  /// this many rows, however many an instruction set takes at a time.
  static constexpr std::size_t row_padding = 8;

  /// Packed values: features in blocks of one cache line (of float32) or two (of float64),
  /// [block][key][value_block].
  static constexpr std::size_t value_block = 16;

  /// A score is a sum over runs of about this many features, a weighted value over runs of at most
  /// this many keys. The error of a chain of additions grows with its length, and these two chains
  /// cause most of the error of a row of attention.
  static constexpr std::size_t run = 64;

  std::uint32_t lanes;        ///< query rows per vector
  std::uint32_t max_vectors;  ///< vectors in a full panel
};

/// A line of the list as a member of its family's table.
// NOLINTNEXTLINE(bugprone-macro-parentheses): they are types and a name
#define HEED_ENTRY(result, name, parameters) result(*name) parameters;

/// Panels: everything is transposed, and the lanes of a vector are query rows. A panel holds up to
/// max_vectors vectors of rows side by side, so its pitch is vectors * lanes numbers. Two vectors
/// of four lanes:
///
///                vector 0          vector 1
///   feature 0    q0  q1  q2  q3    q4  q5  q6  q7
///   feature 1    q0  q1  q2  q3    q4  q5  q6  q7    q5: the panel's sixth query row
///   ...
///
///   query panel     Element [features][pitch]        scaled query, feature by feature
///   scores          Real [keys][pitch]               log2 units
///   probs           Real [keys][pitch]               exp2(score - row_max), where the scores were
///   accumulators    Real [value_features][pitch]     unnormalised output
///   the rest        Real [pitch]                     one number per query row
///
/// So reductions over keys are plain vertical vector operations, key rows are read where they lie
/// with one broadcast per key and feature, and no size but the number of query rows has a vector
/// tail. All buffers begin at multiples of kAlignment; engine/README.md gives the reasons.
///
/// The kernels that multiply panels, and pack for that. Some instruction sets have them for pairs
/// of bfloat16 too: an Element is then two values side by side in the place of a float (pairs.hpp,
/// tiles.hpp).
template <class Element, class Real = Element>
struct ProductKernels {
  /// Values that are multiplied and summed at a time: 1, or of pairs 2 and more. Features of
  /// queries and keys, and keys of values, come in groups of so many, the last filled up with 0.
  std::uint32_t depth;
  std::uint32_t key_block;  ///< keys between two rescaling decisions: part of what fixes the bits
  std::uint32_t parts;  ///< components of bfloat16 in a value, side by side for every group; else 1
  bool adds;            ///< qk_softmax() adds rows.addend, which others take no notice of

  /// A thread calls these before it multiplies, and when it is done; nullptr: nothing to call.
  void (*begin)();
  void (*end)();

  /// to[j * to_pitch + r] = from[j * pitch + r], rounded to bfloat16, for r < columns, and 0 up to
  /// `width`; only pairs have this. Subnormal values may become 0: products take them for 0.
  void (*round_rows)(const Real* from, std::size_t pitch, std::size_t rows, std::size_t columns,
                     std::size_t width, std::uint16_t* to, std::size_t to_pitch);

  /// Splits keys of floats into their components, to rows of whole groups. nullptr: keys are
  /// multiplied as they are.
  void (*split_rows)(const RowsView<Element>& rows, std::size_t count, std::size_t features,
                     Element* to);

  /// pack_query() and pack_values() of rows of bfloat16; rows of values lie `row_stride` elements
  /// apart. nullptr: they are widened first.
  void (*pack_bf16_query)(std::size_t vectors, const std::uint16_t* const* rows,
                          std::size_t row_count, std::size_t features, Real scale, Element* panel);
  void (*pack_bf16_values)(const std::uint16_t* rows, std::ptrdiff_t row_stride, std::size_t keys,
                           std::size_t features, Element* packed);

  /// qk_softmax() and accumulate() of `keys` keys, whole groups of `depth` that no option changes.
  /// nullptr: they are called one after the other.
  void (*attend)(std::size_t vectors, const RowsView<Element>& key, std::size_t keys,
                 const Element* panel, std::size_t features, const ValueView<Element>& value,
                 std::size_t value_features, const RowState<Real>& rows, std::size_t accumulated);

  /// scores() of keys and of values, softmax_gradient() and round_rows() of `keys` keys, whole
  /// groups of `depth` that no option changes. nullptr: they are called one after the other.
  void (*score_gradients)(std::size_t vectors, const RowsView<Element>& key,
                          const RowsView<Element>& value, std::size_t keys,
                          const GradientPanels<Element, Real>& rows,
                          const RoundedGradients<Element>& to);

  /// Elements of a group. Always inline, as all_keys() is.
  [[gnu::always_inline]] std::int64_t elements() const {
    return depth == 1 ? 1 : depth / 2 * parts;
  }

#define HEED_PANEL_KERNEL(result, name, parameters)
#define HEED_PRODUCT_KERNEL HEED_ENTRY
#define HEED_PACK_KERNEL HEED_ENTRY
#include "engine/kernels/list.hpp"
};
template <class Element, class Real = Element>
struct PanelKernels : PanelGeometry, ProductKernels<Element, Real> {
#define HEED_PANEL_KERNEL HEED_ENTRY
#define HEED_PRODUCT_KERNEL(result, name, parameters)
#include "engine/kernels/list.hpp"
};

/// The kernels of rows that multiply them where they lie.
template <class Element, class Real = Element>
struct RowProducts {
#define HEED_ROW_KERNEL(result, name, parameters)
#define HEED_ROW_PRODUCT HEED_ENTRY
#include "engine/kernels/list.hpp"
};

/// Rows: the lanes of a vector are features, as they lie in memory. They serve products where every
/// row of keys meets one query, or a few.
template <class Element, class Real = Element>
struct RowKernels : RowProducts<Element, Real> {
  /// Features of rows, and of what they are multiplied with, come in multiples of 16 bytes.
  static constexpr std::size_t feature_padding = 16 / sizeof(Element);

  std::uint32_t lanes;    ///< of RowOrder
  std::uint32_t queries;  ///< past so many, panels are faster

#define HEED_ROW_KERNEL HEED_ENTRY
#define HEED_ROW_PRODUCT(result, name, parameters)
#include "engine/kernels/list.hpp"
};

/// Nodes: lanes are features in products, and edges with heads in between. Only float has them, and
/// not `scalar`; the kernels of panels and rows can do the same and more.
template <class Real>
struct NodeKernels {
#define HEED_NODE_KERNEL HEED_ENTRY
#include "engine/kernels/list.hpp"
};

/// Values one after the other, whatever they belong to.
template <class Real>
struct NumberKernels {
#define HEED_NUMBER_KERNEL HEED_ENTRY
#include "engine/kernels/list.hpp"
};

#undef HEED_ENTRY

/// Products of floats that are split into components of bfloat16; nullptr: there are none. The
/// exact ones take values that have one component and no more: they split weights into three, and
/// sum all products of components.
template <class Real>
struct PartKernels {
  const ProductKernels<Real>* two;
  const ProductKernels<Real>* exact_one;
};

/// All that an instruction set computes in Real.
template <class Real>
struct KernelTable {
  const char* isa;
  const PanelKernels<Real>& panels;
  const RowKernels<Real>& rows;
  const NumberKernels<Real>& numbers;
  const NodeKernels<Real>* nodes = nullptr;
  /// Products of pairs of 16-bit words, for rows only of kBf16 and kI8, and kF8E4M3, whose numbers
  /// are looked up in tables; nullptr: this instruction set has none.
  const ProductKernels<Real>* pairs = nullptr;
  const RowProducts<Real>* row_pairs = nullptr;
  PartKernels<Real> by_parts = {};
};

/// The kernels of one instruction set.
struct Kernels {
  KernelTable<float> f32;
  KernelTable<double> f64;
};

// NOLINTBEGIN(bugprone-macro-parentheses): they are parts of names
#define HEED_FAMILIES_OF(Isa)                            \
  extern const PanelKernels<float> k##Isa##PanelsF32;    \
  extern const PanelKernels<double> k##Isa##PanelsF64;   \
  extern const RowKernels<float> k##Isa##RowsF32;        \
  extern const RowKernels<double> k##Isa##RowsF64;       \
  extern const NumberKernels<float> k##Isa##NumbersF32;  \
  extern const NumberKernels<double> k##Isa##NumbersF64; \
  extern const NodeKernels<float> k##Isa##NodesF32;      \
  extern const NodeKernels<double> k##Isa##NodesF64;
// NOLINTEND(bugprone-macro-parentheses)
HEED_FAMILIES_OF(Scalar)  // except nodes
HEED_FAMILIES_OF(Sse2)
HEED_FAMILIES_OF(Avx2)
HEED_FAMILIES_OF(Avx512)
HEED_FAMILIES_OF(Neon)
#undef HEED_FAMILIES_OF

/// Products of instruction sets that add a unit to another: avx512bf16 and amx have the families of
/// avx512, neonbf16 has the ones of neon.
extern const ProductKernels<float> kAvx512Bf16Pairs;
extern const RowProducts<float> kAvx512Bf16RowPairs;
extern const ProductKernels<float> kAmxPairs;
extern const ProductKernels<float> kNeonBf16Pairs;
extern const ProductKernels<float> kAmxTwoParts;
extern const ProductKernels<float> kAmxExactOnePart;

}  // namespace heed
