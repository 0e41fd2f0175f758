// Matrices of weights: as the caller has them, or prepared (heed.Weights).
#pragma once

#include "api/python/module/arguments.hpp"
#include "api/python/module/array.hpp"

namespace heed::python {

/// A matrix and its bias, prepared; immutable.
class Weights {
 public:
  explicit Weights(const Given& given);
  ~Weights() { heed_weights_destroy(weights_); }
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  const heed_weights* get() const { return weights_; }
  const heed_weights_info& info() const { return info_; }

 private:
  heed_weights* weights_ = nullptr;
  heed_weights_info info_ = HEED_WEIGHTS_INFO_INIT;
};

/// A matrix that an argument gives: y[out] = sum over in of x[in] * matrix[in, out]. The caller
/// holds it.
struct Matrix {
  Array array;
  const heed_weights* prepared = nullptr;
  heed_matrix_layout layout = HEED_MATRIX_LAYOUT_INIT;
  const void* data = nullptr;  // null if prepared, or not given
  std::int64_t in = 0;         // of all that lie one below the other
  std::int64_t out = 0;

  bool given() const { return data != nullptr || prepared != nullptr; }
};

/// `axes` is 2, or 3 for several matrices [matrix, in, out]; heed.Weights may be any.
Matrix read_matrix(const char* name, nb::handle from, int axes);

/// The layout of [in, out], or [matrix, in, out].
heed_matrix_layout matrix_layout(const Form& form);

/// A matrix and its bias among the operands of an operation, and where one that is prepared stands;
/// edges have neither bias nor that.
struct Projection {
  Operand matrix;
  Operand bias;
  std::size_t prepared;
};
#define HEED_PROJECTION(Api, of) \
  { HEED_OPERAND(Api, w_##of, w_##of), HEED_VECTOR(Api, b_##of), offsetof(Api::Args, p_##of) }

/// Reads the biases of `count` matrices, each as wide as its own or without data if there is none,
/// and tells C of both. All biases are of one type, returned as a heed_dtype, 0 if there are none.
std::uint32_t place_with_biases(const Projection* rows, int count, const Matrix* matrices,
                                const Arguments& given, Array* biases, void* desc, void* args);

/// Refuses a matrix that `of`, of `in` features, cannot be multiplied with.
void check_in(const char* name, const Matrix& matrix, const char* of, std::int64_t in);

/// Features of a head, of which the matrix has so many side by side.
std::int64_t features_of(const char* name, const Matrix& matrix, std::int64_t heads);

/// Refuses a matrix whose columns are not heads of so many features.
void check_columns(const char* name, const Matrix& matrix, std::int64_t heads,
                   std::int64_t features);

/// Refuses a matrix in another arithmetic than `like`, which is float64 or not.
void check_arithmetic(const char* name, const Form& form, const char* like, bool float64);

}  // namespace heed::python
