// A matrix as a run's arguments give it.
#pragma once

#include "engine/projection/matrix.hpp"
#include "engine/projection/weights.hpp"

namespace heed {

/// Either w, with or without b, or p; each with the name of its field, as in "args.w_query".
struct GivenMatrix {
  const char* w_field;
  const void* w;
  const char* b_field;
  const void* b;
  const char* p_field;
  const heed_weights* p;
};

/// That of an input, as in "query".
#define HEED_GIVEN_MATRIX(args, input)                                                        \
  {                                                                                           \
    "args.w_" #input, (args).w_##input, "args.b_" #input, (args).b_##input, "args.p_" #input, \
        (args).p_##input                                                                      \
  }

/// What a run's products want of prepared matrices.
struct PreparedFor {
  Backend backend;
  bool rounds;  ///< they round matrices, too
};
PreparedFor prepared_for(const heed_context& context);

/// Throws an Error unless one of the two is given, and a prepared one fits the matrix.
void check_given(const GivenMatrix& given, const Matrix& matrix, bool float64,
                 const PreparedFor& products);

/// Throws unless what `field` names is prepared for the products of `of`, as in "plan".
void check_prepared(const char* field, const heed_weights& weights, const char* of,
                    const PreparedFor& products);

}  // namespace heed
