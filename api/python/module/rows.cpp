// heed.merge and heed.rotate.
#include <algorithm>
#include <limits>
#include <vector>

#include "api/python/module/bind.hpp"
#include "api/python/module/context.hpp"
#include "api/python/module/errors.hpp"
#include "api/python/module/numbers.hpp"
#include "api/python/module/outputs.hpp"
#include "api/python/module/plan.hpp"

namespace heed::python {

// ---- heed.merge ----
namespace {

/// A result and its log-sum-exp: of a part, or of all; and the objects that they are.
struct Pair {
  nb::object out_object;
  nb::object lse_object;
  Array out;
  Array lse;
};

/// Reads the pair of Python's that messages call `name`.
Pair read_pair(const std::string& name, nb::handle from, Array (*read)(const char*, nb::handle)) {
  if (PySequence_Check(from.ptr()) == 0 || nb::len(from) != 2)
    refuse_type("%s must be a pair (out, lse), not %s", name.c_str(), type_text(from).c_str());
  Pair pair = {from[0], from[1], {}, {}};
  pair.out = read((name + "[0]").c_str(), pair.out_object);
  pair.lse = read((name + "[1]").c_str(), pair.lse_object);
  return pair;
}

/// What lse looks like beside out: [.., heads, rows], also where out is packed [rows, heads, ..].
std::vector<std::int64_t> lse_shape(const Form& out, bool packed) {
  std::vector<std::int64_t> shape(out.shape, out.shape + out.axes - 1);
  if (packed) std::swap(shape[0], shape[1]);
  return shape;
}

void check_shapes(const std::string& name, const Pair& pair, bool packed) {
  const Form& out = pair.out.form;
  const Form& lse = pair.lse.form;
  if (out.axes < 2 || (packed && out.axes != 3))
    refuse("%s[0] has shape %s; it must have axes %s", name.c_str(),
           shape_text(out.shape, out.axes).c_str(),
           packed ? "[rows, heads, features]"
                  : "[batch, heads, rows, features], the first one or two of which may lack");
  const std::vector<std::int64_t> expected = lse_shape(out, packed);
  if (lse.axes != out.axes - 1 || !std::equal(expected.begin(), expected.end(), lse.shape))
    refuse("%s[1] has shape %s; it must have %s, as %s[0] has %s", name.c_str(),
           shape_text(lse.shape, lse.axes).c_str(),
           shape_text(expected.data(), out.axes - 1).c_str(), name.c_str(),
           shape_text(out.shape, out.axes).c_str());
  if (!is_floating(out.element))
    refuse("%s[0] is %s; it must be float32, float64, float16 or bfloat16", name.c_str(),
           name_of(out.element));
  if (lse.element != Element::kF32 && lse.element != Element::kF64)
    refuse("%s[1] is %s; it must be float32 or float64", name.c_str(), name_of(lse.element));
}

/// Parts lie alike, for C has one layout for all.
void check_alike(const std::string& name, const Form& part, const Form& first) {
  if (part == first) return;
  refuse("%s is %s with strides %s; it must be as of the first part, %s with strides %s",
         name.c_str(), text(part).c_str(), shape_text(part.strides, part.axes).c_str(),
         text(first).c_str(), shape_text(first.strides, first.axes).c_str());
}

std::vector<Pair> read_parts(nb::handle given, bool packed) {
  if (PySequence_Check(given.ptr()) == 0)
    refuse_type("parts must be a sequence of pairs (out, lse), not %s", type_text(given).c_str());
  std::vector<Pair> parts;
  for (nb::handle one : nb::list(nb::borrow(given))) {
    const std::string name = "parts[" + std::to_string(parts.size()) + "]";
    Pair part = read_pair(name, one, &read_array);
    check_shapes(name, part, packed);
    if (!parts.empty()) {
      check_alike(name + "[0]", part.out.form, parts[0].out.form);
      check_alike(name + "[1]", part.lse.form, parts[0].lse.form);
    }
    parts.push_back(std::move(part));
  }
  if (parts.empty()) refuse("parts is empty; there must be at least one part");
  return parts;
}

/// Where results go; `given` keeps the memory of the caller's.
struct Merged {
  Pair given;
  nb::object out;
  nb::object lse;
  void* out_data;
  void* lse_data;
  heed_layout out_layout;
  heed_layout lse_layout;
};

Merged into_given(nb::handle given, const Pair& like, bool packed) {
  Pair to = read_pair("out", given, &read_output);
  check_shapes("out", to, packed);
  if (shape_text(to.out.form.shape, to.out.form.axes) !=
      shape_text(like.out.form.shape, like.out.form.axes))
    refuse("out[0] has shape %s; the parts have %s",
           shape_text(to.out.form.shape, to.out.form.axes).c_str(),
           shape_text(like.out.form.shape, like.out.form.axes).c_str());
  Merged merged = {{},
                   to.out_object,
                   to.lse_object,
                   address_of(to.out),
                   address_of(to.lse),
                   layout_of(to.out.form, packed),
                   lse_layout(to.lse.form)};
  merged.given = std::move(to);
  return merged;
}

Merged into_new(const Pair& like, bool packed) {
  const Form& out = like.out.form;
  const std::vector<std::int64_t> shape = lse_shape(out, packed);
  Made made_out = make_array(like.out.kind, out.element, out.shape, out.axes);
  Made made_lse = make_array(like.lse.kind, like.lse.form.element, shape.data(), out.axes - 1);
  return {{},
          std::move(made_out.object),
          std::move(made_lse.object),
          made_out.data,
          made_lse.data,
          layout_of(contiguous_form(out.element, out.shape, out.axes), packed),
          lse_layout(contiguous_form(like.lse.form.element, shape.data(), out.axes - 1))};
}

nb::object merge(nb::handle given, nb::handle out, nb::handle packed_flag, nb::handle context) {
  const bool packed = flag("packed", packed_flag);
  const std::vector<Pair> parts = read_parts(given, packed);
  const Form& form = parts[0].out.form;
  const Merged merged =
      out.is_none() ? into_new(parts[0], packed) : into_given(out, parts[0], packed);
  heed_merge_desc desc = HEED_MERGE_DESC_INIT;
  desc.batch = packed ? 1 : form.size(4);
  desc.heads = form.size(packed ? 2 : 3);
  desc.rows = form.size(packed ? 3 : 2);
  desc.features = form.size(1);
  desc.part_out = layout_of(form, packed);
  desc.part_lse = lse_layout(parts[0].lse.form);
  desc.out = merged.out_layout;
  desc.lse = merged.lse_layout;
  std::vector<const void*> outs;
  std::vector<const void*> lses;
  for (const Pair& part : parts) {
    outs.push_back(address_of(part.out));
    lses.push_back(address_of(part.lse));
  }
  const HeldContext held = hold_context(context);
  const double flops = static_cast<double>(form.elements()) * static_cast<double>(parts.size());
  check(without_gil(flops, {}, [&] {
    return heed_merge(held.context, &desc, parts.size(), outs.data(), lses.data(), merged.out_data,
                      merged.lse_data);
  }));
  if (!out.is_none()) return nb::make_tuple(merged.out, merged.lse);
  return nb::make_tuple(as_kind_of(parts[0].out.kind, parts[0].out_object, merged.out),
                        as_kind_of(parts[0].lse.kind, parts[0].lse_object, merged.lse));
}

}  // namespace

void bind_merge(nb::module_& module) {
  internal(module,
           "def merge(parts: object, out: object, packed: bool, context: Context | None) -> "
           "tuple[typing.Any, typing.Any]",
           &merge);
}

// ---- heed.rotate ----

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
  internal(module,
           "def rotate(x: object, positions: object, pairs: str, base: float | None, features: "
           "int | None, cosines: object, sines: object, position: int, out: object, context: "
           "Context | None) -> typing.Any",
           &rotate);
}

}  // namespace heed::python
