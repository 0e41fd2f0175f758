// heed.rotate.
#include <algorithm>
#include <limits>

#include "api/python/module/bind.hpp"
#include "api/python/module/context.hpp"
#include "api/python/module/gil.hpp"
#include "api/python/module/names.hpp"
#include "api/python/module/outputs.hpp"
#include "api/python/module/rotary.hpp"

namespace heed::python {
namespace {

std::uint32_t read_pairs(nb::handle from) {
  if (from.equal(nb::str("halves"))) return HEED_ROTARY_HALVES;
  if (from.equal(nb::str("interleaved"))) return HEED_ROTARY_INTERLEAVED;
  refuse("pairs is %s; it must be \"halves\" or \"interleaved\"", nb::repr(from).c_str());
}

Array read_angles(const char* name, nb::handle from) {
  Array table = read_array(name, from);
  const Form& form = table.form;
  if (form.element != Element::kF32 || form.axes != 2 || form.size(1) == 0 ||
      (form.size(1) > 1 && form.stride(1) != 1))
    refuse(
        "%s is %s with strides %s; it must be float32 [positions, pairs], with pairs side by side",
        name, text(form).c_str(), shape_text(form.strides, form.axes).c_str());
  return table;
}

}  // namespace

Vector<std::int64_t> read_positions(nb::handle from, std::int64_t batch, std::int64_t rows) {
  const bool table = is_table("positions", from);
  Table<std::int64_t> given;
  if (table) {
    given = read_table<std::int64_t>("positions", from);
  } else {
    given.entries = read_vector<std::int64_t>("positions", from);
    given.columns = given.entries.count;
  }
  const std::int64_t shape[] = {given.rows, given.columns};
  if (given.columns != rows || (table && given.rows != batch && given.rows != 1))
    refuse("positions has shape %s; it must have [%lld] or [%lld, %lld]: a position for each row",
           shape_text(shape + (table ? 0 : 1), table ? 2 : 1).c_str(), static_cast<long long>(rows),
           static_cast<long long>(batch), static_cast<long long>(rows));
  Vector<std::int64_t> positions = std::move(given.entries);
  positions.count = batch * rows;
  const bool one = !table || given.rows == 1;
  if (one ? batch == 1 : given.stride == rows) return positions;
  const std::int64_t* const data = positions.data;
  std::vector<std::int64_t> copy;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t* const row = data + (one ? 0 : b * given.stride);
    copy.insert(copy.end(), row, row + rows);
  }
  positions.copy = std::move(copy);
  positions.data = positions.copy.data();
  return positions;
}

Rotary read_rotary(nb::handle pairs, nb::handle base, nb::handle features, nb::handle cosines,
                   nb::handle sines) {
  Rotary rotary;
  heed_rotary& read = rotary.rotary;
  read.pairs = read_pairs(pairs);
  if (!features.is_none()) {
    read.features = integer("features", features);
    if (read.features < 2 || read.features % 2 != 0)
      refuse("features is %lld; it must be even, at least 2",
             static_cast<long long>(read.features));
  }
  if (cosines.is_none() != sines.is_none())
    refuse("%s is given without %s", cosines.is_none() ? "sines" : "cosines",
           cosines.is_none() ? "cosines" : "sines");
  if (cosines.is_none()) {
    if (base.is_none()) return rotary;
    read.base = number("base", base);
    if (!(read.base >= 1e-256 && read.base <= std::numeric_limits<double>::max()))
      refuse("base is %g; it must be finite and at least 1e-256", read.base);
    return rotary;
  }
  if (!base.is_none()) refuse("base is given beside cosines and sines, which say the angles");
  rotary.cosines = read_angles("cosines", cosines);
  rotary.sines = read_angles("sines", sines);
  const Form& form = rotary.cosines.form;
  if (form != rotary.sines.form)
    refuse("cosines is %s with strides %s, sines %s with strides %s; they must be alike",
           text(form).c_str(), shape_text(form.strides, 2).c_str(), text(rotary.sines.form).c_str(),
           shape_text(rotary.sines.form.strides, 2).c_str());
  if (read.features == 0) read.features = 2 * form.size(1);
  if (read.features != 2 * form.size(1))
    refuse("cosines has %lld pairs; features, %lld, are %lld pairs",
           static_cast<long long>(form.size(1)), static_cast<long long>(read.features),
           static_cast<long long>(read.features / 2));
  read.cosines = static_cast<const float*>(rotary.cosines.data);
  read.sines = static_cast<const float*>(rotary.sines.data);
  read.table_rows = form.size(2);
  read.table_stride = form.size(2) > 1 ? form.stride(2) : form.size(1);
  return rotary;
}

namespace {

nb::object rotate(nb::handle x, nb::handle positions, nb::handle pairs, nb::handle base,
                  nb::handle features, nb::handle cosines, nb::handle sines, nb::handle position,
                  nb::handle out, nb::handle context) {
  const Array from = read_array("x", x);
  const Form& form = from.form;
  if (form.axes < 2)
    refuse(
        "x has shape %s; it must have axes [batch, heads, rows, features], the first one or two "
        "of which may lack",
        shape_text(form.shape, form.axes).c_str());
  if (!is_floating(form.element))
    refuse("x is %s; it must be float32, float64, float16 or bfloat16", name_of(form.element));
  const Rotary rotary = read_rotary(pairs, base, features, cosines, sines);
  if (rotary.rotary.features > form.size(1))
    refuse("features is %lld; x has %lld", static_cast<long long>(rotary.rotary.features),
           static_cast<long long>(form.size(1)));
  if (rotary.rotary.features == 0 && (form.size(1) < 2 || form.size(1) % 2 != 0))
    refuse("x has %lld features; features must say how many, an even number, are turned",
           static_cast<long long>(form.size(1)));
  heed_rotate_desc desc = HEED_ROTATE_DESC_INIT;
  desc.batch = form.size(4);
  desc.heads = form.size(3);
  desc.rows = form.size(2);
  desc.features = form.size(1);
  desc.from = layout_of(form, false);
  desc.rotary = rotary.rotary;
  desc.position = integer("position", position);
  Vector<std::int64_t> given;
  if (!positions.is_none()) {
    if (desc.position != 0)
      refuse("position is %lld beside positions, which say where rows stand",
             static_cast<long long>(desc.position));
    given = read_positions(positions, desc.batch, desc.rows);
  }
  Made made;
  Array to;
  if (out.is_none()) {
    made = make_array(from.kind, form.element, form.shape, form.axes);
    desc.to.dtype = dtype_of(form.element);
  } else {
    to = read_output("out", out);
    if (to.form.axes != form.axes || !std::equal(form.shape, form.shape + form.axes, to.form.shape))
      refuse("out has shape %s; x has %s", shape_text(to.form.shape, to.form.axes).c_str(),
             shape_text(form.shape, form.axes).c_str());
    if (!is_floating(to.form.element) ||
        (to.form.element == Element::kF64) != (form.element == Element::kF64))
      refuse("out is %s, x %s; float64 goes with float64, and the others with each other",
             name_of(to.form.element), name_of(form.element));
    desc.to = layout_of(to.form, false);
    made = {nb::borrow(out), address_of(to)};
  }
  const HeldContext held = hold_context(context);
  check(without_gil(static_cast<double>(form.elements()), {}, [&] {
    return heed_rotate(held.context, &desc, address_of(from), given.data, made.data);
  }));
  return out.is_none() ? as_kind_of(from.kind, x, made.object) : made.object;
}

}  // namespace

void bind_rotate(nb::module_& module) {
  module.def("rotate", &rotate, nb::arg("x").none(), nb::arg("positions").none(),
             nb::arg("pairs").none(), nb::arg("base").none(), nb::arg("features").none(),
             nb::arg("cosines").none(), nb::arg("sines").none(), nb::arg("position").none(),
             nb::arg("out").none(), nb::arg("context").none(),
             nb::sig("def rotate(x: object, positions: object, pairs: str, base: float | None, "
                     "features: int | None, cosines: object, sines: object, position: int, "
                     "out: object, context: Context | None) -> typing.Any"));
}

}  // namespace heed::python
