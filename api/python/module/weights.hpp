// Matrices of weights: as the caller has them, or prepared (heed.Weights).
#pragma once

#include "api/python/module/array.hpp"

namespace heed::python {

/// A matrix and its bias, prepared; immutable.
class Weights {
 public:
  Weights(nb::handle context, const heed_weights_desc& desc, const void* matrix, const void* bias,
          double numbers);
  ~Weights() { heed_weights_destroy(weights_); }
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  const heed_weights* get() const { return weights_; }
  const heed_weights_info& info() const { return info_; }

 private:
  heed_weights* weights_ = nullptr;
  heed_weights_info info_ = HEED_WEIGHTS_INFO_INIT;
};

/// What an argument gives: y[out] = sum over in of x[in] * matrix[in, out]. The caller holds it.
struct Matrix {
  Array array;
  const heed_weights* prepared = nullptr;
  heed_matrix_layout layout = HEED_MATRIX_LAYOUT_INIT;
  const void* data = nullptr;  // null if prepared, or not given
  std::int64_t in = 0;         // of all that lie one below the other
  std::int64_t out = 0;

  bool given() const { return data != nullptr || prepared != nullptr; }
};

/// A bias beside it, as wide as the matrix; invalid if there is none.
struct Bias {
  Array array;
  const void* data = nullptr;
};

/// `axes` is 2, or 3 for several matrices [matrix, in, out]; heed.Weights may be any.
Matrix read_matrix(const char* name, nb::handle from, int axes);

/// A matrix [in, .] and its bias, which is none beside heed.Weights. `source` is what has `in`.
struct NamedMatrix {
  const char* name;
  const char* bias_name;
};
Bias read_bias(const NamedMatrix& names, nb::handle from, const Matrix& matrix);

/// Refuses a matrix that `of`, of `in` features, cannot be multiplied with.
void check_in(const char* name, const Matrix& matrix, const char* of, std::int64_t in);

/// Refuses a matrix in another arithmetic than `like`, which is float64 or not.
void check_arithmetic(const char* name, const Form& form, const char* like, bool float64);

}  // namespace heed::python
