// Products of rows with matrices: queries, keys and values from data, and what edges add to them.
//
// Product. A number x W + b is a sum of F products and a bias, each term of which sees at most F +
// 1 roundings, whatever the order and the blocks of the sum; one more is far more than the
// oracle's:
//
//     error <= gamma(F + 2) (sum (|x| + e) |W| + |b|) + sum e |W| + kUnderflow (F + 1)
//
// with e how far off x itself may be, which is not 0 after the first step. 16-bit numbers are
// widened exactly.
//
// Edges. heed is free to compute q (k + f W) and p (v + f W), or q k + (q W^T) f and
// sum p v + (sum p f) W: what is kept of f W is its value and the sum of its terms' sizes, to which
// either way's roundings are relative; see graph_row.hpp.
#pragma once

#include <cmath>

#include "tests/reference/arithmetic.hpp"
#include "tests/reference/graph_inputs.hpp"

namespace heed_test {

/// A number that nobody can bound.
template <class Wide>
inline constexpr Bounded<Wide> kUnknownNumber = {0, kInfinite<Wide>};

/// value within bound, if heed's cannot overflow: an infinity or NaN that is there for sure is
/// exact.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> bounded(Wide value, Wide bound, Wide magnitude) {
  if (std::isinf(bound) || std::isnan(bound)) return kUnknownNumber<Wide>;
  if (!std::isfinite(value)) return {value, 0};
  if (!(magnitude + bound < Arithmetic<Real>::kMax)) return kUnknownNumber<Wide>;
  return {value, bound};
}

/// Element `out` of x W + b, with matrix m.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> projected(const Bounded<Wide>* x, Index width, const MatrixSource& matrix, Index m,
                        Index out, Wide bias) {
  using A = Arithmetic<Real>;
  Wide sum = bias;
  Wide magnitude = std::fabs(bias);
  Wide moved = 0;
  for (Index i = 0; i < width; ++i) {
    const auto w = static_cast<Wide>(matrix.at(m, i, out));
    sum += x[i].value * w;
    magnitude += std::fabs(x[i].value * w);
    moved += x[i].bound == 0 ? 0 : x[i].bound * std::fabs(w);
  }
  const auto terms = static_cast<Wide>(width);
  if (!std::isfinite(sum)) return bounded<Real>(sum, std::isfinite(moved) ? 0 : moved, sum);
  return bounded<Real>(
      sum, gamma_of<Real>(terms + 2) * (magnitude + moved) + moved + A::kUnderflow * (terms + 1),
      magnitude);
}

/// What an edge adds to an element of a key or value.
template <class Wide>
struct EdgeTerm {
  Wide value;
  Wide magnitude;  ///< sum |f| |W|; infinite where heed's ways may make NaN of an infinity or not
};

/// The same for all edges; without columns where edges add nothing.
template <class Wide>
struct EdgeTerms {
  Index columns = 0;
  Index width = 0;          ///< of the edges' features
  Wide largest = 0;         ///< of the matrix
  std::vector<Wide> sizes;  ///< sum |f| of every edge
  std::vector<EdgeTerm<Wide>> numbers;

  bool given() const { return columns > 0; }
  const EdgeTerm<Wide>* row(Index e) const { return numbers.data() + e * columns; }
  Wide size(Index e) const { return sizes[static_cast<std::size_t>(e)]; }
};

template <class Wide>
EdgeTerm<Wide> edge_term(const Source& features, Index e, Index width, const MatrixSource& matrix,
                         Index out) {
  EdgeTerm<Wide> term{0, 0};
  bool nan = false;
  for (Index i = 0; i < width; ++i) {
    const auto f = static_cast<Wide>(features.at(0, 0, e, i));
    const auto w = static_cast<Wide>(matrix.at(0, i, out));
    nan = nan || std::isnan(f) || std::isnan(w);
    term.value += f * w;
    term.magnitude += std::fabs(f * w);
  }
  if (nan) return {std::numeric_limits<Wide>::quiet_NaN(), 0};
  if (!std::isfinite(term.magnitude)) return {0, kInfinite<Wide>};
  return term;
}

template <class Wide>
EdgeTerms<Wide> edge_terms(const GraphGiven& given, const void* matrix,
                           const heed_matrix_layout& layout, Index columns) {
  EdgeTerms<Wide> all;
  if (matrix == nullptr) return all;
  const std::uint32_t real = real_dtype(given.desc);
  const Index width = given.desc.edge_width;
  const Source features = rows_source(given.args.edge_data, given.desc.edge_data, 1, width);
  const MatrixSource source = matrix_source(matrix, layout, width, columns, real);
  all.columns = columns;
  all.width = width;
  for (Index i = 0; i < width; ++i)
    for (Index o = 0; o < columns; ++o)
      all.largest = std::max(all.largest, std::fabs(static_cast<Wide>(source.at(0, i, o))));
  for (Index e = 0; e < given.edges.size(); ++e) {
    Wide size = 0;
    for (Index i = 0; i < width; ++i) size += std::fabs(static_cast<Wide>(features.at(0, 0, e, i)));
    all.sizes.push_back(size);
    for (Index o = 0; o < columns; ++o)
      all.numbers.push_back(edge_term<Wide>(features, e, width, source, o));
  }
  return all;
}

}  // namespace heed_test
