#include <exception>
#include <new>

#include "api/python/module/call.hpp"

namespace heed::python {
namespace {

/// Numbers of C as NumPy sees them where they lie, while they do.
nb::object view(const void* numbers, const char* dtype, std::int64_t bytes, std::int64_t rows,
                std::int64_t columns, std::int64_t stride_column) {
  const std::int64_t size = bytes * ((columns - 1) * stride_column + rows);
  auto* const memory = static_cast<char*>(const_cast<void*>(numbers));
  PyObject* const buffer = PyMemoryView_FromMemory(memory, size, PyBUF_WRITE);
  if (buffer == nullptr) throw nb::python_error();
  return names().ndarray(nb::make_tuple(rows, columns), dtype, nb::steal(buffer), 0,
                         nb::make_tuple(bytes, bytes * stride_column));
}

/// Scores or gradients of a tile, [rows, keys].
nb::object view(const heed_score_tile& tile, const void* numbers) {
  const bool wide = tile.dtype == HEED_DTYPE_F64;
  return view(numbers, wide ? "f8" : "f4", wide ? 8 : 4, tile.rows, tile.keys, tile.stride_key);
}

/// A copy, which a callable may keep.
nb::object taken(const nb::object& view) { return view.attr("copy")("K"); }

/// Puts back what a callable returned; or, where that is None, what it changed in place.
void put_back(const nb::object& to, const nb::object& changed, const nb::object& seen) {
  to.attr("__setitem__")(nb::ellipsis(), changed.is_none() ? seen : changed);
}

/// Gives `call` the indices of a tile, batch, heads, rows and keys, which broadcast with it.
template <class Call>
nb::object with_indices(const heed_score_tile& tile, Call&& call) {
  const nb::object keys = names()
                              .numpy.attr("arange")(tile.first_key, tile.first_key + tile.keys)
                              .attr("reshape")(1, -1);
  return call(tile.batch, taken(view(tile.query_heads, "i8", 8, tile.rows, 1, 0)),
              taken(view(tile.query_rows, "i8", 8, tile.rows, 1, 0)), keys);
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
    const nb::object all = view(*tile, tile->scores), seen = taken(all);
    const nb::object changed = with_indices(
        *tile, [&](const auto&... indices) { return scores.callable(seen, indices...); });
    put_back(all, changed, seen);
  });
}

void call_python_gradient(void* user, const heed_score_tile* tile, void* gradients) {
  auto& scores = *static_cast<PythonScores*>(user);
  in_python(scores, [&] {
    const nb::object all = view(*tile, gradients), seen = taken(all);
    const nb::object found = taken(view(*tile, tile->scores));
    const nb::object changed = with_indices(
        *tile, [&](const auto&... indices) { return scores.gradient(seen, found, indices...); });
    put_back(all, changed, seen);
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
