// The kernels of one instruction set, as tables of plain function pointers, by family:
//
//   panels    lanes are query rows: products, softmax, and all that options do to scores
//   rows      lanes are features: products with rows from anywhere, along edges and in caches
//   nodes     a node of a graph with few edges at once: softmax along its edges, and gradients
//   numbers   one after the other: conversions, exp2
//
// Every family has two types: Element, what its numbers are in memory, and Real, the type of the
// arithmetic. Today both are float or both double; elements of other types are read into Real
// first. A family also says its own geometry: how many rows it takes, what it pads to, in which
// order it packs.
//
// This header and operands.hpp are all that the rest of heed and the kernels share: no xsimd, no
// containers, nothing inline that could be emitted twice. list.hpp lists the kernels and says what
// each does. A family is a file, panels.cpp for example, which is compiled for every vector
// instruction set and type and then defines one constant-initialised table; context/isa.cpp puts
// the tables of each instruction set together and picks a set per context.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/operands.hpp"

namespace heed {

/// The sizes that callers of the panels' kernels allocate, cut and pad by. Those that all
/// instruction sets share are constants.
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
/// Those of the panels' kernels that multiply, and what goes with that, are also there for pairs of
/// bfloat16: an Element is then two numbers side by side in the place of a float (pairs.hpp,
/// tiles.hpp).
template <class Element, class Real = Element>
struct ProductKernels {
  /// Numbers that are multiplied and summed at a time: 1, or as pairs 2 and more. Pairs of features
  /// of queries and keys, and of keys of values, come in whole groups of so many, filled up with 0.
  std::uint32_t depth;
  std::uint32_t key_block;  ///< keys between two rescaling decisions: part of what fixes the bits
  std::uint32_t parts;      ///< of a number, each bfloat16, side by side for every group; else 1

  /// What a thread calls before it multiplies, and when it is done; nullptr: nothing.
  void (*begin)();
  void (*end)();

  /// to[j * to_pitch + r] = from[j * pitch + r], rounded to bfloat16, for r < columns, and 0 up to
  /// `width`; of pairs alone. Subnormal numbers may be kept or become 0, for which products take
  /// them.
  void (*round_rows)(const Real* from, std::size_t pitch, std::size_t rows, std::size_t columns,
                     std::size_t width, std::uint16_t* to, std::size_t to_pitch);

  /// Where there are several parts: copies keys of floats to rows of whole groups of parts.
  /// nullptr: keys are multiplied as they are.
  void (*split_rows)(const RowsView<Element>& rows, std::size_t count, std::size_t features,
                     Element* to);

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

/// Of those of rows what multiplies rows that are read where they lie.
template <class Element, class Real = Element>
struct RowProducts {
#define HEED_ROW_KERNEL(result, name, parameters)
#define HEED_ROW_PRODUCT HEED_ENTRY
#include "engine/kernels/list.hpp"
};

/// Rows: the lanes of a vector are features, as they lie in memory. For products where every row of
/// keys meets one query alone, or a few.
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

/// Nodes: lanes are features in products, and edges with heads in between. Only of float, and
/// nullptr for `scalar`; the panels and rows can do the same and more.
template <class Real>
struct NodeKernels {
#define HEED_NODE_KERNEL HEED_ENTRY
#include "engine/kernels/list.hpp"
};

/// Numbers one after the other, whatever they belong to.
template <class Real>
struct NumberKernels {
#define HEED_NUMBER_KERNEL HEED_ENTRY
#include "engine/kernels/list.hpp"
};

#undef HEED_ENTRY

/// Products of floats as parts of bfloat16; nullptr: there are none. `exact`: of numbers that one
/// or two parts are all of, with all products of these, and weights as three.
template <class Real>
struct PartKernels {
  const ProductKernels<Real>* three;
  const ProductKernels<Real>* two;
  const ProductKernels<Real>* exact_two;
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
  /// Products of pairs of 16-bit words, those of rows only where they are of kBf16 or kI8; nullptr:
  /// this instruction set has none.
  const ProductKernels<Real>* pairs = nullptr;
  const RowProducts<Real>* row_pairs = nullptr;
  /// Products of floats as parts of bfloat16.
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

/// Products of those that add a unit to another instruction set: avx512bf16 and amx have the
/// families of avx512, neonbf16 those of neon.
extern const ProductKernels<float> kAvx512Bf16Pairs;
extern const RowProducts<float> kAvx512Bf16RowPairs;
extern const ProductKernels<float> kAmxPairs;
extern const ProductKernels<float> kNeonBf16Pairs;
extern const ProductKernels<float> kAmxThreeParts;
extern const ProductKernels<float> kAmxTwoParts;
extern const ProductKernels<float> kAmxExactTwoParts;
extern const ProductKernels<float> kAmxExactOnePart;

}  // namespace heed
