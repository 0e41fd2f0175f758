// A matrix and its bias, of a block or prepared: where they lie, and what heed and the oracle get
// of them; and rows times a matrix that is prepared: described, drawn and run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/project.hpp"
#include "tests/problem/laid_out.hpp"
#include "tests/support/calls.hpp"

namespace heed_test {

/// The arithmetic's type.
inline std::uint32_t real_dtype(const heed_weights_desc& desc) {
  return desc.arithmetic == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
}

class WeightMatrix {
 public:
  /// As a valid layout says, without a bias and not prepared. `real` is the arithmetic's type;
  /// `matrices` 0: one.
  WeightMatrix(Index matrices, Index in, Index out, const heed_matrix_layout& layout,
               std::uint32_t real, std::size_t misalign = 0);
  WeightMatrix(const heed_weights_desc& desc, std::size_t misalign)
      : WeightMatrix(desc.matrices, desc.in, desc.out, desc.layout, real_dtype(desc), misalign) {}

  /// Numbers, and perhaps a bias of that type.
  void draw(Draw& draw, std::uint32_t bias_dtype, double amplitude);
  void add_bias(std::uint32_t dtype, std::size_t misalign);

  Index in() const { return tensor.shape()[2]; }
  Index out() const { return tensor.shape()[3]; }
  std::uint32_t real() const { return real_; }
  double get(Index m, Index i, Index o) const { return tensor.get({m, 0, i, o}); }
  void set(Index m, Index i, Index o, double x) { tensor.set({m, 0, i, o}, x); }

  /// Calls function(matrix, in, out) for every element.
  template <class Function>
  void each(Function&& function) const {
    tensor.each([&](const Axes& at) { function(at[0], at[2], at[3]); });
  }

  /// What keeps a product of numbers around 1 around `amplitude`.
  void fill(Random& random, double amplitude);

  void fill_identity();

  /// What heed gets: of a matrix that is given as it is, else NULL.
  const void* raw() const { return prepared ? nullptr : tensor.data(); }
  const void* raw_bias() const { return prepared || !bias ? nullptr : bias->data(); }
  const heed_matrix_layout& layout() const { return layout_; }
  /// Once the tensor lies otherwise.
  void lies(const heed_matrix_layout& layout) { layout_ = layout; }

  /// Prepared by heed from numbers that are gone afterwards, or none.
  Weights prepare(const Context& context) const;

  /// What the oracle gets.
  GivenMatrix given() const { return {tensor.source(), bias ? bias->source() : Source{}, out()}; }

 private:
  Index matrices_;
  heed_matrix_layout layout_;
  std::uint32_t real_;
  std::uint32_t bias_dtype_ = HEED_DTYPE_DEFAULT;

 public:
  Tensor tensor;  ///< [matrix, 1, in, out]
  std::optional<Tensor> bias;
  bool prepared = false;
};

// ---- Products with rows ----

struct ProjectSizes {
  Index batch, rows, in, out;
};

/// The layouts of a descriptor of products with a matrix.
struct LaidOutProjection {
  LaidOutProjection(heed_project_desc& desc, const WeightMatrix& w);
  LaidOut x, y;

  std::vector<LaidOut> all() const { return {x, y}; }
};

struct Projection {
  /// Of one type, with a bias.
  Projection(const ProjectSizes& sizes, std::uint32_t dtype);
  /// Of a valid descriptor.
  Projection(const heed_project_desc& described, WeightMatrix matrix, std::size_t misalign = 0);

  std::vector<Element> expected(const Multiplied& as = {}) const;
  std::vector<Element> expected_on(const char* isa) const;

  Numbers run_all(const Context& context);

  heed_project_desc desc;
  WeightMatrix w;
  Tensor x, y;
};

/// A valid descriptor of one matrix, or of some one below the other.
heed_weights_desc draw_weights_desc(Draw& draw);
/// Of products with it.
heed_project_desc draw_project_desc(Draw& draw, const WeightMatrix& w);
Projection draw_projection(std::uint64_t seed);

std::string line_of(const Projection& p);

}  // namespace heed_test
