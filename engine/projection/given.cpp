#include "engine/projection/given.hpp"

#include "engine/runtime/error.hpp"

namespace heed {
namespace {

void check_fits(const GivenMatrix& given, const Matrix& matrix, bool float64,
                const PreparedFor& products) {
  const heed_weights& weights = *given.p;
  check_prepared(given.p_field, weights, "plan", products);
  if (given.b != nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "%s is given; it must be NULL with %s, which has its bias inside", given.b_field,
         given.p_field);
  if (weights.in != matrix.in || weights.out != matrix.out)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "%s is prepared from %lld features to %lld; it must be from %lld to %lld", given.p_field,
         static_cast<long long>(weights.in), static_cast<long long>(weights.out),
         static_cast<long long>(matrix.in), static_cast<long long>(matrix.out));
  if (weights.float64 != float64)
    fail(HEED_STATUS_INVALID_ARGUMENT, "%s is prepared for %s arithmetic; this plan's is %s",
         given.p_field, weights.float64 ? "float64" : "float32", float64 ? "float64" : "float32");
}

}  // namespace

PreparedFor prepared_for(const heed_context& context) {
  return {context.backend, has_pairs(context) && context.precision == Precision::kMedium};
}

void check_prepared(const char* field, const heed_weights& weights, const char* of,
                    const PreparedFor& products) {
  if (weights.backend != products.backend)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "%s is prepared with a context whose product is \"%s\"; this %s's is \"%s\"", field,
         name_of(weights.backend), of, name_of(products.backend));
  if (weights.rounded && !products.rounds)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "%s is prepared with a context whose precision is \"medium\", which rounded it to "
         "bfloat16; "
         "this %s does not round matrices",
         field, of);
}

void check_given(const GivenMatrix& given, const Matrix& matrix, bool float64,
                 const PreparedFor& products) {
  if ((given.w != nullptr) == (given.p != nullptr))
    fail(HEED_STATUS_INVALID_ARGUMENT, "%s and %s are both %s; give one of them", given.w_field,
         given.p_field, given.w == nullptr ? "NULL" : "given");
  if (given.p != nullptr) check_fits(given, matrix, float64, products);
}

}  // namespace heed
