#include <cstring>
#include <exception>
#include <new>

#include "api/python/module/call.hpp"

namespace heed::python {
namespace {

/// Numbers that a callable may keep: it gets copies.
nb::object int64_array(const std::int64_t* numbers, std::int64_t rows, std::int64_t columns) {
  const Output made = make_array({}, Element::kI64, {rows, columns});
  std::memcpy(made.array.data, numbers,
              sizeof(std::int64_t) * static_cast<std::size_t>(rows * columns));
  return made.object;
}

/// Copies between numbers of a tile and an array [keys, rows].
template <class Copy>
void each_key(const heed_score_tile& tile, void* numbers, const Array& array, Copy&& copy) {
  const std::size_t bytes = static_cast<std::size_t>(bytes_of(array.form.element));
  char* lying = static_cast<char*>(numbers);
  char* copied = static_cast<char*>(array.data);
  for (std::int64_t key = 0; key < tile.keys; ++key)
    copy(lying + bytes * static_cast<std::size_t>(key * tile.stride_key),
         copied + bytes * static_cast<std::size_t>(key * tile.rows),
         bytes * static_cast<std::size_t>(tile.rows));
}

/// Scores or gradients of a tile, as an array [rows, keys] that a callable may keep.
nb::object taken(const heed_score_tile& tile, void* numbers) {
  const Element real = tile.dtype == HEED_DTYPE_F64 ? Element::kF64 : Element::kF32;
  const Output copy = make_array({}, real, {tile.keys, tile.rows});
  each_key(tile, numbers, copy.array,
           [](const char* from, char* to, std::size_t bytes) { std::memcpy(to, from, bytes); });
  return copy.object.attr("T");
}

/// Puts back what a callable returned; or, where that is None, what it changed in place.
void put_back(const heed_score_tile& tile, void* numbers, nb::object changed,
              const nb::object& seen) {
  if (changed.is_none()) changed = seen;
  const nb::object dtype = seen.attr("dtype");
  changed = names().asarray(changed, dtype);
  changed = names().numpy.attr("broadcast_to")(changed, nb::make_tuple(tile.rows, tile.keys));
  changed = names().numpy.attr("ascontiguousarray")(changed.attr("T"));
  each_key(tile, numbers, read_array("scores", changed),
           [](char* to, const char* from, std::size_t bytes) { std::memcpy(to, from, bytes); });
}

/// Gives `call` the indices of a tile, batch, heads, rows and keys, which broadcast with it.
template <class Call>
nb::object with_indices(const heed_score_tile& tile, Call&& call) {
  const nb::object keys = names()
                              .numpy.attr("arange")(tile.first_key, tile.first_key + tile.keys)
                              .attr("reshape")(1, -1);
  return call(tile.batch, int64_array(tile.query_heads, tile.rows, 1),
              int64_array(tile.query_rows, tile.rows, 1), keys);
}

/// Runs `work` in the interpreter, unless something was raised before.
template <class Work>
void in_python(PythonScores& scores, Work&& work) {
  if (scores.failed.load(std::memory_order_acquire)) return;
  const nb::gil_scoped_acquire gil;
  const auto keep = [&](const nb::python_error& error) {
    if (!scores.failed.exchange(true)) scores.error = nb::borrow(error.value());
  };
  try {
    work();
  } catch (const nb::python_error& error) {
    keep(error);
  } catch (const std::bad_alloc&) {  // nothing may be thrown through C
    PyErr_NoMemory();
    keep(nb::python_error());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    keep(nb::python_error());
  }
}

void call_python(void* user, const heed_score_tile* tile) {
  auto& scores = *static_cast<PythonScores*>(user);
  in_python(scores, [&] {
    const nb::object seen = taken(*tile, tile->scores);
    const nb::object changed = with_indices(
        *tile, [&](const auto&... indices) { return scores.callable(seen, indices...); });
    put_back(*tile, tile->scores, changed, seen);
  });
}

void call_python_gradient(void* user, const heed_score_tile* tile, void* gradients) {
  auto& scores = *static_cast<PythonScores*>(user);
  in_python(scores, [&] {
    const nb::object seen = taken(*tile, gradients);
    const nb::object found = taken(*tile, tile->scores);
    const nb::object changed = with_indices(
        *tile, [&](const auto&... indices) { return scores.gradient(seen, found, indices...); });
    put_back(*tile, gradients, changed, seen);
  });
}

/// (address, user, what both need to live), or None for a Python callable.
nb::object pointers_of(const char* name, nb::handle from) {
  return nb::module_::import_("heed.score_function").attr("_pointers")(name, from);
}

}  // namespace

void ScoreFunction::raise() const {
  if (python == nullptr || !python->failed.load(std::memory_order_acquire)) return;
  PyErr_SetObject(python->error.type().ptr(), python->error.ptr());
  throw nb::python_error();
}

ScoreFunction read_score_function(nb::handle from) {
  ScoreFunction read;
  const nb::object pointers = pointers_of("score_function", from);
  if (pointers.is_none()) {
    read.python = std::make_unique<PythonScores>();
    read.python->callable = nb::borrow(from);
    read.function = &call_python;
    read.user = read.python.get();
    return read;
  }
  // NOLINTBEGIN(performance-no-int-to-ptr): Python has addresses as numbers
  read.function = reinterpret_cast<heed_score_function>(nb::cast<std::uintptr_t>(pointers[0]));
  read.user = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(pointers[1]));
  // NOLINTEND(performance-no-int-to-ptr)
  read.keeper = pointers[2];
  return read;
}

heed_score_gradient read_score_gradient(ScoreFunction& beside, nb::handle from) {
  if (nb::isinstance<nb::tuple>(from))
    refuse_type(
        "score_gradient must be a callable or a function pointer, not tuple: it is given "
        "the user of score_function");
  const nb::object pointers = pointers_of("score_gradient", from);
  if (pointers.is_none() != (beside.python != nullptr))
    refuse_type("score_gradient is a {}, score_function a {}; both must be the same",
                pointers.is_none() ? "callable" : "function pointer",
                beside.python != nullptr ? "callable" : "function pointer");
  if (pointers.is_none()) {
    beside.python->gradient = nb::borrow(from);
    return &call_python_gradient;
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): Python has addresses as numbers
  return reinterpret_cast<heed_score_gradient>(nb::cast<std::uintptr_t>(pointers[0]));
}

}  // namespace heed::python
