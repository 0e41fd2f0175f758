// heed.merge and heed.rotate.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "api/python/module/plan.hpp"

namespace heed::python {

// ---- Rotary embedding, as heed.rotate and caches are told about it ----

namespace {

Array read_angles(const char* name, nb::handle from) {
  Array table = read_array(name, from);
  const Form& form = table.form;
  if (form.element != Element::kF32 || form.axes != 2 || form.size(1) == 0 ||
      (form.size(1) > 1 && form.stride(1) != 1))
    refuse(
        "{} is {} with strides {}; it must be float32 [positions, pairs], with pairs side by side",
        name, text(form), stride_text(form));
  return table;
}

}  // namespace

Vector<std::int64_t> read_positions(nb::handle from, std::int64_t batch, std::int64_t rows) {
  const int axes = is_table("positions", from) ? 2 : 1;
  Vector<std::int64_t> given = read_vector<std::int64_t>("positions", from, axes);
  const std::int64_t shape[] = {given.rows, given.columns};
  if (given.columns != rows || (given.rows != batch && given.rows != 1))
    refuse("positions has shape {}; it must have [{}] or [{}, {}]: a position for each row",
           shape_text(shape + 2 - axes, axes), rows, batch, rows);
  given.count = batch * rows;
  const bool one = given.rows == 1;
  if (one ? batch == 1 : given.stride == rows) return given;
  std::vector<std::int64_t> copy;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t* const row = given.data + (one ? 0 : b * given.stride);
    copy.insert(copy.end(), row, row + rows);
  }
  given.copy = std::move(copy);
  given.data = given.copy.data();
  return given;
}

Rotary read_rotary(nb::handle pairs, nb::handle base, nb::handle features, nb::handle cosines,
                   nb::handle sines) {
  Rotary rotary;
  heed_rotary& read = rotary.rotary;
  read.pairs = HEED_ROTARY_HALVES + read_word("pairs", pairs, {"halves", "interleaved"});
  if (!features.is_none()) {
    read.features = integer("features", features);
    if (read.features < 2 || read.features % 2 != 0)
      refuse("features is {}; it must be even, at least 2", read.features);
  }
  if (cosines.is_none() != sines.is_none())
    refuse("{} is given without {}", cosines.is_none() ? "sines" : "cosines",
           cosines.is_none() ? "cosines" : "sines");
  if (cosines.is_none()) {
    if (base.is_none()) return rotary;
    read.base = number("base", base);
    if (!(read.base >= 1e-256 && read.base <= std::numeric_limits<double>::max()))
      refuse("base is {}; it must be finite and at least 1e-256", read.base);
    return rotary;
  }
  if (!base.is_none()) refuse("base is given beside cosines and sines, which say the angles");
  rotary.cosines = read_angles("cosines", cosines);
  rotary.sines = read_angles("sines", sines);
  const Form& form = rotary.cosines.form;
  if (form != rotary.sines.form)
    refuse("cosines is {} with strides {}, sines {} with strides {}; they must be alike",
           text(form), stride_text(form), text(rotary.sines.form), stride_text(rotary.sines.form));
  if (read.features == 0) read.features = 2 * form.size(1);
  if (read.features != 2 * form.size(1))
    refuse("cosines has {} pairs; features, {}, are {} pairs", form.size(1), read.features,
           read.features / 2);
  read.cosines = static_cast<const float*>(rotary.cosines.data);
  read.sines = static_cast<const float*>(rotary.sines.data);
  read.table_rows = form.size(2);
  read.table_stride = form.size(2) > 1 ? form.stride(2) : form.size(1);
  return rotary;
}

namespace {

// ---- heed.merge ----

/// A result and its log-sum-exp: of a part, or of all.
struct Pair {
  Output out;
  Output lse;
};

/// Reads the pair of Python's that messages call `name`.
Pair read_pair(const std::string& name, nb::handle from, Array (*read)(const char*, nb::handle)) {
  if (PySequence_Check(from.ptr()) == 0 || nb::len(from) != 2)
    refuse_type("{} must be a pair (out, lse), not {}", name, type_text(from));
  const nb::object out = from[0], lse = from[1];
  return {{out, read((name + "[0]").c_str(), out), true},
          {lse, read((name + "[1]").c_str(), lse), true}};
}

/// The shape of lse beside out: [.., heads, rows], also where out is packed [rows, heads, ..].
Shape lse_shape(const Form& out, bool packed) {
  Shape shape = out;
  --shape.axes;
  if (packed) std::swap(shape.sizes[0], shape.sizes[1]);
  return shape;
}

void check_shapes(const std::string& name, const Pair& pair, bool packed) {
  const Form& out = pair.out.array.form;
  const Form& lse = pair.lse.array.form;
  if (out.axes < 2 || (packed && out.axes != 3))
    refuse("{}[0] has shape {}; it must have axes {}", name, shape_text(out),
           packed ? "[rows, heads, features]"
                  : "[batch, heads, rows, features], the first one or two of which may be missing");
  const Shape expected = lse_shape(out, packed);
  if (!lse.has_shape(expected))
    refuse("{}[1] has shape {}; it must have {}, as {}[0] has {}", name, shape_text(lse),
           shape_text(expected), name, shape_text(out));
  check_floating((name + "[0]").c_str(), out);
  if (lse.element != Element::kF32 && lse.element != Element::kF64)
    refuse("{}[1] is {}; it must be float32 or float64", name, name_of(lse.element));
}

/// Parts lie alike, for C has one layout for all.
void check_alike(const std::string& name, const Form& part, const Form& first) {
  if (part == first) return;
  refuse("{} is {} with strides {}; it must be as of the first part, {} with strides {}", name,
         text(part), stride_text(part), text(first), stride_text(first));
}

std::vector<Pair> read_parts(nb::handle given, bool packed) {
  if (PySequence_Check(given.ptr()) == 0)
    refuse_type("parts must be a sequence of pairs (out, lse), not {}", type_text(given));
  std::vector<Pair> parts;
  for (nb::handle one : nb::list(nb::borrow(given))) {
    const std::string name = "parts[" + std::to_string(parts.size()) + "]";
    Pair part = read_pair(name, one, &read_array);
    check_shapes(name, part, packed);
    if (!parts.empty()) {
      check_alike(name + "[0]", part.out.array.form, parts[0].out.array.form);
      check_alike(name + "[1]", part.lse.array.form, parts[0].lse.array.form);
    }
    parts.push_back(std::move(part));
  }
  if (parts.empty()) refuse("parts is empty; there must be at least one part");
  return parts;
}

/// Where results go: the caller's pair, which `given` is, or new arrays.
Pair make_merged(nb::handle given, const Array& out, const Array& lse, bool packed) {
  if (given.is_none())
    return {make_array(out.kind, out.form.element, out.form),
            make_array(lse.kind, lse.form.element, lse_shape(out.form, packed))};
  Pair to = read_pair("out", given, &read_output);
  check_shapes("out", to, packed);
  const Form& form = to.out.array.form;
  if (!form.has_shape(out.form))
    refuse("out[0] has shape {}; the parts have {}", shape_text(form), shape_text(out.form));
  return to;
}

nb::object merge(nb::handle given, nb::handle out, nb::handle packed_flag, nb::handle context) {
  const bool packed = flag("packed", packed_flag);
  const std::vector<Pair> parts = read_parts(given, packed);
  const Form& form = parts[0].out.array.form;
  const Pair to = make_merged(out, parts[0].out.array, parts[0].lse.array, packed);
  heed_merge_desc desc = HEED_MERGE_DESC_INIT;
  desc.batch = packed ? 1 : form.size(4);
  desc.heads = form.size(packed ? 2 : 3);
  desc.rows = form.size(packed ? 3 : 2);
  desc.features = form.size(1);
  desc.part_out = layout_of(form, packed);
  desc.part_lse = lse_layout(parts[0].lse.array.form);
  desc.out = layout_of(to.out.array.form, packed);
  desc.lse = lse_layout(to.lse.array.form);
  std::vector<const void*> outs;
  std::vector<const void*> lses;
  for (const Pair& part : parts) {
    outs.push_back(part.out.data());
    lses.push_back(part.lse.data());
  }
  const double flops = static_cast<double>(form.elements()) * static_cast<double>(parts.size());
  run_in(context, flops, nullptr, [&](const heed_context* held) {
    return heed_merge(held, &desc, parts.size(), outs.data(), lses.data(), to.out.data(),
                      to.lse.data());
  });
  return nb::make_tuple(to.out.handed(parts[0].out.array.kind, parts[0].out.object),
                        to.lse.handed(parts[0].lse.array.kind, parts[0].lse.object));
}

// ---- heed.rotate ----

nb::object rotate(nb::handle x, nb::handle positions, nb::handle pairs, nb::handle base,
                  nb::handle features, nb::handle cosines, nb::handle sines, nb::handle position,
                  nb::handle out, nb::handle context) {
  const Array from = read_array("x", x);
  const Form& form = from.form;
  check_axes("x", form, 2, kMaxAxes,
             "[batch, heads, rows, features], the first one or two of which may be missing");
  check_floating("x", form);
  const Rotary rotary = read_rotary(pairs, base, features, cosines, sines);
  if (rotary.rotary.features > form.size(1))
    refuse("features is {}; x has {}", rotary.rotary.features, form.size(1));
  if (rotary.rotary.features == 0 && (form.size(1) < 2 || form.size(1) % 2 != 0))
    refuse("x has {} features; features must say how many, an even number, are turned",
           form.size(1));
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
      refuse("position is {} beside positions, which say where rows stand", desc.position);
    given = read_positions(positions, desc.batch, desc.rows);
  }
  Output to;
  if (out.is_none()) {
    to = make_array(from.kind, form.element, form);
  } else {
    to = {nb::borrow(out), read_output("out", out), true};
    const Form& own = to.array.form;
    if (!own.has_shape(form))
      refuse("out has shape {}; x has {}", shape_text(own), shape_text(form));
    if (!is_floating(own.element) ||
        (own.element == Element::kF64) != (form.element == Element::kF64))
      refuse("out is {}, x {}; float64 goes with float64, and the others with each other",
             name_of(own.element), name_of(form.element));
  }
  desc.to = layout_of(to.array.form, false);
  run_in(context, static_cast<double>(form.elements()), nullptr, [&](const heed_context* held) {
    return heed_rotate(held, &desc, address_of(from), given.data, to.data());
  });
  return to.handed(from.kind, x);
}

}  // namespace

void bind_rows(nb::module_& module) {
  internal(module,
           "def merge(parts: object, out: object, packed: bool, context: Context | None) -> "
           "tuple[typing.Any, typing.Any]",
           &merge);
  internal(module,
           "def rotate(x: object, positions: object, pairs: str, base: float | None, features: "
           "int | None, cosines: object, sines: object, position: int, out: object, context: "
           "Context | None) -> typing.Any",
           &rotate);
}

}  // namespace heed::python
