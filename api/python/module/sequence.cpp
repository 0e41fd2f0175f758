// heed.Sequence.
#include "api/python/module/array.hpp"
#include "api/python/module/cache.hpp"
#include "api/python/module/call.hpp"
#include "api/python/module/gil.hpp"
#include "api/python/module/pickling.hpp"
#include "api/python/module/signature.hpp"

namespace heed::python {
namespace {

/// New rows, [key heads, rows, features]; with one head, its axis may lack, and a batch of one may
/// come before.
Array read_rows(const char* name, nb::handle from, std::int64_t heads, std::int64_t features) {
  Array rows = read_array(name, from);
  const Form& form = rows.form;
  if (form.axes < 2 || form.size(4) != 1 || form.size(3) != heads || form.size(1) != features)
    refuse("%s has shape %s; it must have [%lld, rows, %lld]: the cache's key heads and features",
           name, shape_text(form.shape, form.axes).c_str(), static_cast<long long>(heads),
           static_cast<long long>(features));
  check_floating(name, form);
  if (form.element == Element::kF64)
    refuse("%s is float64; it must be float32, float16 or bfloat16, as caches hold float32 at most",
           name);
  return rows;
}

heed_layout layout_of_rows(const Form& form) {
  heed_layout layout = layout_of(form, false);
  layout.stride_batch = 0;
  return layout;
}

void append(const Sequence& sequence, nb::handle key, nb::handle value, nb::handle layer,
            nb::handle positions, nb::handle position_offset) {
  const heed_sequence name = sequence.name();
  const Cache& cache = sequence.cache();
  const heed_cache_desc& holds = cache.desc();
  const Array keys = read_rows("key", key, holds.key_heads, holds.features);
  const Array values = read_rows("value", value, holds.key_heads, cache.value_features());
  heed_cache_append_desc desc = HEED_CACHE_APPEND_DESC_INIT;
  desc.layer = cache.layer(layer);
  desc.rows = keys.form.size(2);
  if (values.form.size(2) != desc.rows)
    refuse("key is %s, value is %s; both must have the same rows", text(keys.form).c_str(),
           text(values.form).c_str());
  desc.key = layout_of_rows(keys.form);
  desc.value = layout_of_rows(values.form);
  const Vector<std::int64_t> places = cache.read_places(positions, position_offset, 1, desc.rows);
  desc.positions = places.data;
  desc.position_offset = integer("position_offset", position_offset);
  const double numbers = static_cast<double>(keys.form.elements() + values.form.elements());
  check(without_gil(numbers, {}, [&] {
    return heed_cache_append(cache.get(), name, &desc, address_of(keys), address_of(values));
  }));
}

std::int64_t length(const Sequence& sequence, nb::handle layer) {
  std::int64_t length = 0;
  const Cache& cache = sequence.cache();
  check(heed_cache_length(cache.get(), sequence.name(), cache.layer(layer), &length));
  return length;
}

void truncate(const Sequence& sequence, nb::handle length) {
  check(heed_cache_truncate(sequence.cache().get(), sequence.name(), integer("length", length)));
}

Sequence* fork(const Sequence& sequence) {
  heed_sequence name = 0;
  check(heed_cache_fork(sequence.cache().get(), sequence.name(), &name));
  return new Sequence(sequence.holder(), name);
}

void free_pages(Sequence& sequence) { sequence.free(); }

std::size_t saved_bytes(const Sequence& sequence) {
  std::size_t bytes = 0;
  check(heed_cache_save_bytes(sequence.cache().get(), sequence.name(), &bytes));
  return bytes;
}

void save_descriptor(const Sequence& sequence, nb::handle descriptor) {
  const int file = file_descriptor(descriptor);
  const heed_cache* cache = sequence.cache().get();
  const heed_sequence name = sequence.name();
  check([&] {
    const nb::gil_scoped_release released;
    return heed_cache_save_file(cache, name, file);
  }());
}

nb::object save_bytes(const Sequence& sequence) {
  const heed_cache* cache = sequence.cache().get();
  const heed_sequence name = sequence.name();
  const std::size_t bytes = saved_bytes(sequence);
  PyObject* made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes));
  if (made == nullptr) throw nb::python_error();
  nb::object held = nb::steal(made);
  check([&] {
    const nb::gil_scoped_release released;
    return heed_cache_save(cache, name, PyBytes_AsString(made), bytes);
  }());
  return held;
}

/// Python opens paths, and knows files.
void save_file(const nb::pointer_and_handle<Sequence>& sequence, nb::handle file) {
  nb::module_::import_("heed.saving").attr("save")(sequence.h, file);
}

nb::str representation(const Sequence& sequence) {
  if (!sequence.alive()) return nb::str("<heed.Sequence, freed>");
  return nb::str("<heed.Sequence of {} rows>").format(length(sequence, nb::int_(0)));
}

}  // namespace

void bind_sequence(nb::module_& module) {
  nb::class_<Sequence> sequence(
      module, "Sequence",
      R"(Keys and values of one sequence in a heed.Cache, which it keeps alive.

Made by Cache.sequence, Cache.load and fork. Its pages go back to the cache with the object, or by
free.

>>> import heed, numpy as np
>>> cache = heed.Cache(key_heads=1, features=2, pages=4)
>>> prompt = cache.sequence()
>>> prompt.append(np.eye(2, dtype=np.float32), np.ones((2, 2), np.float32))
>>> answer = prompt.fork()
>>> answer.append(np.zeros((1, 2), np.float32), np.zeros((1, 2), np.float32))
>>> len(prompt), len(answer), cache.describe()["pages_used"]
(2, 3, 2)

In C: heed_sequence.)");
  method(sequence,
         "def append(self, key: typing.Any, value: typing.Any, *, layer: int = 0, "
         "positions: typing.Any | None = None, position_offset: int = 0) -> None",
         &append,
         R"(Adds rows to one layer, each number rounded once to what the cache stores.

    key              [key heads, rows, features] of float32, float16 or bfloat16, any strides; the
                     axis of one head may lack, and a batch of one may come first
    value            [key heads, rows, value features]
    layer            of the cache
    positions        [rows], with rotary: where the rows stand, instead of one after the other
    position_offset  row t of the sequence stands at t + position_offset

heed.OutOfMemoryError, with nothing changed, where the cache has too few pages; heed.BusyError where
another thread uses the sequence. In C: heed_cache_append.)");
  method(sequence, "def fork(self) -> Sequence", &fork,
         "A sequence with the same rows, which both share until one of them writes. In C: "
         "heed_cache_fork.");
  method(sequence, "def truncate(self, length: int) -> None", &truncate,
         "Keeps the first `length` rows of every layer. In C: heed_cache_truncate.");
  method(sequence, "def free(self) -> None", &free_pages,
         "Gives the pages back now, but for those that others share; afterwards every call of "
         "the sequence is refused. In C: heed_cache_free.");
  method(sequence, "def length(self, layer: int = 0) -> int", &length,
         "The rows that a layer has. In C: heed_cache_length.");
  sequence.def("__len__", [](const Sequence& self) { return length(self, nb::int_(0)); })
      .def("save", &save_bytes, nb::sig("def save(self) -> bytes"),
           R"(The sequence as bytes, or in a file.

Cache.load takes them, in a later process or in a cache with other pages. All layers must have the
same length. The format is in api/docs/reference/cache.md: little-endian, versioned, with a checksum. In C:
heed_cache_save.)");
  method(sequence, "def save(self, file: typing.Any) -> None", &save_file,
         "Into a path, or a binary file from where it stands on. In C: heed_cache_save_file.");
  method(sequence, "def save_descriptor(self, descriptor: int) -> None", &save_descriptor,
         "The same to a file descriptor. In C: heed_cache_save_file.");
  method(sequence, "def saved_bytes(self) -> int", &saved_bytes,
         "How many bytes save makes. In C: heed_cache_save_bytes.");
  sequence
      .def_prop_ro(
          "cache", [](const Sequence& self) { return self.holder(); },
          nb::sig("def cache(self) -> Cache"), "The cache that it is of.")
      .def("__repr__", &representation);
  refuse_pickling(sequence, "it lies in a cache of this process: pickle what Sequence.save gives");
}

}  // namespace heed::python
