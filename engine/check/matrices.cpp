#include "engine/check/matrices.hpp"

#include "engine/check/attention.hpp"
#include "engine/check/numbers.hpp"

namespace heed {

void add_weights(Operands& all, const GivenWeights& given) {
  const Matrix& m = given.matrix;
  if (given.w != nullptr)
    all.add(Role::kInput, given.w_field, given.w, m.layout, {m.in / m.in_each, 1, m.in_each, m.out},
            kMatrixAxes);
  all.add_vector(given.b_field, given.b, side_by_side(given.bias.type), m.out);
}

void add_node_weights(Operands& all, const GivenWeights& given, std::int64_t nodes) {
  const Matrix& m = given.matrix;
  all.add(Role::kInput, given.w_field, given.w, m.layout, {nodes, 1, m.in, m.out}, kMatrixAxes);
}

void check_to_prepare(const heed_context& context, const GivenWeights& given) {
  Operands all("");
  add_weights(all, given);
  tell_odd_strides(all);
  for (const Operand& operand : all) tell_odd_numbers(context, &operand);
}

}  // namespace heed
