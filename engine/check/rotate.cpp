#include "engine/check/rotate.hpp"

#include "engine/check/attention.hpp"
#include "engine/check/numbers.hpp"
#include "engine/check/overlap.hpp"

namespace heed {

void check_rotate(const heed_context& context, const RotateProblem& p, const Rotate& rotate) {
  if (p.rows == 0) return;
  Operands all("");
  const Operand* const from =
      all.add(role_beside({rotate.from, p.from}, {rotate.to, p.to}, p.sizes), "from", rotate.from,
              p.from, p.sizes, kTensorAxes);
  all.add(Role::kOutput, "to", rotate.to, p.to, p.sizes, kTensorAxes);
  all.add_vector("positions", rotate.positions,
                 side_by_side(ElementType::kMask, sizeof(std::int64_t)), p.sizes[0] * p.sizes[2]);
  const Layout table = {ElementType::kF32, sizeof(float), {0, 0, p.rotary.table_stride, 1}};
  const Shape entries = {1, 1, p.rotary.last_position + 1, p.rotary.angles()};
  all.rename("desc.rotary.");
  all.add(Role::kInput, "cosines", p.rotary.cosines, table, entries, kTensorAxes);
  all.add(Role::kInput, "sines", p.rotary.sines, table, entries, kTensorAxes);
  tell_odd_strides(all);
  refuse_overlaps(all, nullptr, 0);
  tell_odd_numbers(context, from);
}

}  // namespace heed
