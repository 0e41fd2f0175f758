#include "api/python/module/score_function.hpp"

#include <cstring>

#include "api/python/module/array.hpp"
#include "api/python/module/names.hpp"
#include "api/python/module/outputs.hpp"

namespace heed::python {
namespace {

/// Numbers that a callable may keep: it gets copies.
nb::object int64_array(const std::int64_t* numbers, std::int64_t rows, std::int64_t columns) {
  const std::int64_t shape[2] = {rows, columns};
  Made made = make_array({}, Element::kI64, shape, 2);
  std::memcpy(made.data, numbers, sizeof(std::int64_t) * static_cast<std::size_t>(rows * columns));
  return made.object;
}

/// Copies between a tile and an array [keys, rows].
template <class Copy>
void each_key(const heed_score_tile& tile, const Array& array, Copy&& copy) {
  const std::size_t bytes = static_cast<std::size_t>(bytes_of(array.form.element));
  char* scores = static_cast<char*>(tile.scores);
  char* copied = static_cast<char*>(array.data);
  for (std::int64_t key = 0; key < tile.keys; ++key)
    copy(scores + bytes * static_cast<std::size_t>(key * tile.stride_key),
         copied + bytes * static_cast<std::size_t>(key * tile.rows),
         bytes * static_cast<std::size_t>(tile.rows));
}

void change_scores(const nb::object& callable, const heed_score_tile& tile) {
  const Element real = tile.dtype == HEED_DTYPE_F64 ? Element::kF64 : Element::kF32;
  const std::int64_t shape[2] = {tile.keys, tile.rows};
  Made scores = make_array({}, real, shape, 2);
  each_key(tile, read_array("scores", scores.object),
           [](const char* from, char* to, std::size_t bytes) { std::memcpy(to, from, bytes); });
  const nb::object keys = names()
                              .numpy.attr("arange")(tile.first_key, tile.first_key + tile.keys)
                              .attr("reshape")(1, -1);
  nb::object seen = scores.object.attr("T");
  nb::object changed = callable(seen, tile.batch, int64_array(tile.query_heads, tile.rows, 1),
                                int64_array(tile.query_rows, tile.rows, 1), keys);
  if (changed.is_none()) changed = seen;
  const nb::object dtype = seen.attr("dtype");
  changed = names().asarray(changed, dtype);
  changed = names().numpy.attr("broadcast_to")(changed, nb::make_tuple(tile.rows, tile.keys));
  changed = names().numpy.attr("ascontiguousarray")(changed.attr("T"));
  each_key(tile, read_array("scores", changed),
           [](char* to, const char* from, std::size_t bytes) { std::memcpy(to, from, bytes); });
}

void call_python(void* user, const heed_score_tile* tile) {
  auto& scores = *static_cast<PythonScores*>(user);
  if (scores.failed.load(std::memory_order_acquire)) return;
  const nb::gil_scoped_acquire gil;
  try {
    change_scores(scores.callable, *tile);
  } catch (nb::python_error& error) {
    if (!scores.failed.exchange(true)) scores.error = nb::borrow(error.value());
  }
}

}  // namespace

void ScoreFunction::raise() const {
  if (python == nullptr || !python->failed.load(std::memory_order_acquire)) return;
  PyErr_SetObject(python->error.type().ptr(), python->error.ptr());
  throw nb::python_error();
}

ScoreFunction read_score_function(nb::handle from) {
  ScoreFunction read;
  // (address, user, what both need to live), or None for a Python callable.
  const nb::object pointers = nb::module_::import_("heed.score_function").attr("_pointers")(from);
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

}  // namespace heed::python
