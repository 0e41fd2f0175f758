// heed.Cache and heed.Sequence.
#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/python/module/plan.hpp"

namespace heed::python {
namespace {

// ---- The description of a cache, by the names of its arguments ----

/// A descriptor, and the tables of rotary embedding that it points at.
struct CacheDescription {
  heed_cache_desc desc = HEED_CACHE_DESC_INIT;
  std::vector<float> cosines;
  std::vector<float> sines;
};

constexpr Element kStored[] = {Element::kF32, Element::kF16, Element::kBf16, Element::kI8,
                               Element::kF8E4M3};

/// A type by its name, or as NumPy, PyTorch and others have it.
std::uint32_t read_dtype(nb::handle from) {
  if (!from.is_valid()) return HEED_DTYPE_F32;
  const nb::object named = attribute(from, nb::str("__name__"));
  const nb::str text(named.is_valid() ? named : nb::borrow(from));
  std::string name = text.c_str();
  if (name.rfind("torch.", 0) == 0) name.erase(0, 6);
  for (const Element element : kStored)
    if (name == name_of(element)) return dtype_of(element);
  refuse("dtype is {}; it must be float32, float16, bfloat16, int8 or float8_e4m3fn", name);
}

/// The name of a heed_dtype that can be stored.
const char* stored_name(std::uint32_t dtype) {
  const auto* const found = std::find_if(
      std::begin(kStored), std::end(kStored),
      [&](Element element) { return static_cast<std::uint32_t>(dtype_of(element)) == dtype; });
  return name_of(*found);
}

/// 0 for None.
std::int64_t count_if_given(const Given& given, const char* name) {
  return given[name].is_valid() ? count(name, given[name]) : 0;
}

double scale_of(const Given& given, const char* name, std::uint32_t dtype) {
  if (!given[name].is_valid()) return 0;
  if (dtype != HEED_DTYPE_F8_E4M3)
    refuse("{} is given; only dtype=\"float8_e4m3fn\" has one", name);
  const double scale = number(name, given[name]);
  if (!(scale > 0)) refuse("{} is {}; it must be above 0", name, scale);
  return scale;
}

std::vector<float> copied_table(const Array& table, const heed_rotary& rotary) {
  std::vector<float> copy;
  const auto* row = static_cast<const float*>(table.data);
  for (std::int64_t i = 0; i < rotary.table_rows; ++i, row += rotary.table_stride)
    copy.insert(copy.end(), row, row + rotary.features / 2);
  return copy;
}

/// None, or what Python makes the arguments of heed.rotate of.
void read_cache_rotary(nb::handle from, CacheDescription& description) {
  if (!from.is_valid()) return;
  const nb::object given = nb::module_::import_("heed.rows").attr("_rotary")(from);
  const nb::object pairs = given[0], base = given[1], features = given[2];
  const nb::object cosines = given[3], sines = given[4];
  const Rotary read = read_rotary(pairs, base, features, cosines, sines);
  heed_rotary& rotary = description.desc.rotary;
  rotary = read.rotary;
  if (rotary.features > description.desc.features)
    refuse("rotary has {} features; keys have {}", rotary.features, description.desc.features);
  if (rotary.features == 0 && description.desc.features % 2 != 0)
    refuse("rotary turns pairs, but features is {}; give rotary an even number of them",
           description.desc.features);
  if (rotary.cosines == nullptr) return;
  description.cosines = copied_table(read.cosines, rotary);
  description.sines = copied_table(read.sines, rotary);
  rotary.cosines = description.cosines.data();
  rotary.sines = description.sines.data();
  rotary.table_stride = 0;
}

std::unique_ptr<const CacheDescription> read_cache(const Given& given) {
  auto description = std::make_unique<CacheDescription>();
  heed_cache_desc& desc = description->desc;
  desc.dtype = read_dtype(given["dtype"]);
  desc.layers = count_if_given(given, "layers");
  desc.key_heads = count("key_heads", given["key_heads"]);
  desc.features = count("features", given["features"]);
  desc.value_features = count_if_given(given, "value_features");
  desc.page_rows = count_if_given(given, "page_rows");
  if (desc.page_rows % 16 != 0)
    refuse("page_rows is {}; it must be a multiple of 16", desc.page_rows);
  desc.pages = count("pages", given["pages"]);
  desc.sequences = count_if_given(given, "sequences");
  desc.key_scale = scale_of(given, "key_scale", desc.dtype);
  desc.value_scale = scale_of(given, "value_scale", desc.dtype);
  read_cache_rotary(given["rotary"], *description);
  return description;
}

// ---- Caches of keys and values, and their sequences: heed.Cache and heed.Sequence ----

class Cache {
 public:
  explicit Cache(const Given& given) : description_(read_cache(given)) {
    check(heed_cache_create(hold_context(given["context"]).context, &desc(), &cache_));
  }
  ~Cache() { heed_cache_destroy(cache_); }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  heed_cache* get() const { return cache_; }
  const heed_cache_desc& desc() const { return description_->desc; }
  std::int64_t layers() const { return std::max<std::int64_t>(1, desc().layers); }
  std::int64_t value_features() const {
    return desc().value_features == 0 ? desc().features : desc().value_features;
  }
  heed_cache_info info() const {
    heed_cache_info info = HEED_CACHE_INFO_INIT;
    check(heed_cache_describe(cache_, &info));
    return info;
  }

  /// The layer of a call; raises TypeError or heed.ArgumentError where there is none.
  std::int64_t layer(nb::handle given) const {
    const std::int64_t layer = integer("layer", given);
    if (layer < 0 || layer >= layers())
      refuse("layer is {}; it must be 0 to {}, for the cache's layers", layer, layers() - 1);
    return layer;
  }

  /// Where the rows of a call stand, by its positions and position_offset: [batch, rows]; without
  /// data where they follow each other.
  template <class Desc>
  Vector<std::int64_t> read_places(const Given& given, std::int64_t batch, std::int64_t rows,
                                   Desc& desc) const {
    const nb::handle positions = given["positions"];
    desc.position_offset = integer("position_offset", given["position_offset"]);
    const bool moved = desc.position_offset != 0;
    const bool turns = this->desc().rotary.pairs != HEED_ROTARY_NONE;
    if (!turns && (moved || positions.is_valid()))
      refuse("{} is given, but the cache has no rotary embedding",
             moved ? "position_offset" : "positions");
    if (!positions.is_valid()) return {};
    if (moved) refuse("position_offset is given beside positions, which say where rows stand");
    Vector<std::int64_t> places = read_positions(positions, batch, rows);
    desc.positions = places.data;
    return places;
  }

 private:
  std::unique_ptr<const CacheDescription> description_;
  heed_cache* cache_ = nullptr;
};

/// A sequence of a cache, which it keeps; freed with its object, or before.
class Sequence {
 public:
  Sequence(nb::object cache, heed_sequence name) : cache_(std::move(cache)), name_(name) {}
  ~Sequence() {
    if (name_ != 0) heed_cache_free(cache().get(), name_);
  }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  const nb::object& holder() const { return cache_; }
  Cache& cache() const { return *nb::inst_ptr<Cache>(cache_); }
  bool alive() const { return name_ != 0; }
  /// Refuses one that was freed.
  heed_sequence name() const {
    const heed_sequence name = name_;
    if (name == 0) refuse("the sequence was freed");
    return name;
  }
  void free() {
    check(heed_cache_free(cache().get(), name()));
    name_ = 0;
  }

 private:
  nb::object cache_;
  std::atomic<heed_sequence> name_;
};

nb::dict describe(const Cache& cache) {
  const heed_cache_info info = cache.info();
  const heed_cache_desc& desc = cache.desc();
  return dict_of("dtype", stored_name(info.dtype), "layers", cache.layers(), "key_heads",
                 desc.key_heads, "features", desc.features, "value_features",
                 cache.value_features(), "pages", info.pages, "pages_used", info.pages_used,
                 "pages_shared", info.pages_shared, "page_rows", info.page_rows, "sequences",
                 info.sequences, "bytes", info.bytes, "page_bytes", info.page_bytes);
}

nb::str representation(const Cache& cache) {
  const heed_cache_info info = cache.info();
  return nb::str("<heed.Cache: {} of {} pages used, {} sequences>")
      .format(info.pages_used, info.pages, info.sequences);
}

Sequence* make_sequence(const nb::pointer_and_handle<Cache>& cache) {
  heed_sequence name = 0;
  check(heed_cache_sequence_create(cache.p->get(), &name));
  return new Sequence(nb::borrow(cache.h), name);
}

/// So long that other threads run, however short it is.
template <class Call>
void check_long(Call&& call) {
  check(without_gil(kBriefFlops, nullptr, call));
}

Sequence* load_file(const nb::pointer_and_handle<Cache>& cache, const Given& given) {
  const int file = file_descriptor(given["descriptor"]);
  heed_sequence name = 0;
  check_long([&] { return heed_cache_load_file(cache.p->get(), file, &name); });
  return new Sequence(nb::borrow(cache.h), name);
}

/// Bytes as they lie, or a path or file, which Python opens.
nb::object load(const nb::pointer_and_handle<Cache>& cache, const Given& given) {
  const nb::handle source = given.values()[0];
  if (PyObject_CheckBuffer(source.ptr()) == 0)
    return nb::module_::import_("heed.saving").attr("load")(cache.h, source);
  Py_buffer buffer;
  if (PyObject_GetBuffer(source.ptr(), &buffer, PyBUF_SIMPLE) != 0) throw nb::python_error();
  heed_sequence name = 0;
  const heed_status status = without_gil(kBriefFlops, nullptr, [&] {
    return heed_cache_load(cache.p->get(), buffer.buf, static_cast<std::size_t>(buffer.len), &name);
  });
  PyBuffer_Release(&buffer);
  check(status);
  return nb::cast(new Sequence(nb::borrow(cache.h), name), nb::rv_policy::take_ownership);
}

void make_cache(Cache* self, const Given& given) { new (self) Cache(given); }

std::size_t cache_bytes(const Given& given) {
  std::size_t bytes = 0;
  check(heed_cache_bytes(&read_cache(given)->desc, &bytes));
  return bytes;
}

#define HEED_CACHE_ARGUMENTS                                                                    \
  "key_heads: int, features: int, pages: int, layers: int = 1, value_features: int | None = "   \
  "None, dtype: object = 'float32', page_rows: int = 64, sequences: int = 1024, key_scale: "    \
  "float | None = None, value_scale: float | None = None, rotary: str | dict[str, typing.Any] " \
  "| None = None"

// ---- heed.Sequence ----

/// New rows, [key heads, rows, features]; with one head, its axis may be missing, and a batch of
/// one may come before.
Array read_rows(const char* name, nb::handle from, std::int64_t heads, std::int64_t features) {
  Array rows = read_array(name, from);
  const Form& form = rows.form;
  if (form.axes < 2 || form.size(4) != 1 || form.size(3) != heads || form.size(1) != features)
    refuse("{} has shape {}; it must have [{}, rows, {}]: the cache's key heads and features", name,
           shape_text(form), heads, features);
  check_floating(name, form);
  if (form.element == Element::kF64)
    refuse("{} is float64; it must be float32, float16 or bfloat16, as caches hold float32 at most",
           name);
  return rows;
}

void append(const Sequence& sequence, const Given& given) {
  const heed_sequence name = sequence.name();
  const Cache& cache = sequence.cache();
  const heed_cache_desc& holds = cache.desc();
  const Array keys = read_rows("key", given["key"], holds.key_heads, holds.features);
  const Array values = read_rows("value", given["value"], holds.key_heads, cache.value_features());
  heed_cache_append_desc desc = HEED_CACHE_APPEND_DESC_INIT;
  desc.layer = cache.layer(given["layer"]);
  desc.rows = keys.form.size(2);
  if (values.form.size(2) != desc.rows)
    refuse("key is {}, value is {}; both must have the same rows", text(keys.form),
           text(values.form));
  desc.key = layout_by(keys.form, 0, 3, 2, 1);
  desc.value = layout_by(values.form, 0, 3, 2, 1);
  const Vector<std::int64_t> places = cache.read_places(given, 1, desc.rows, desc);
  const double numbers = static_cast<double>(keys.form.elements() + values.form.elements());
  check(without_gil(numbers, nullptr, [&] {
    return heed_cache_append(cache.get(), name, &desc, address_of(keys), address_of(values));
  }));
}

std::int64_t length(const Sequence& sequence, std::int64_t layer = 0) {
  std::int64_t length = 0;
  const Cache& cache = sequence.cache();
  check(heed_cache_length(cache.get(), sequence.name(), layer, &length));
  return length;
}

std::int64_t length_of(const Sequence& sequence, const Given& given) {
  return length(sequence, sequence.cache().layer(given["layer"]));
}

void truncate(const Sequence& sequence, const Given& given) {
  const std::int64_t length = integer("length", given["length"]);
  check(heed_cache_truncate(sequence.cache().get(), sequence.name(), length));
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

void save_descriptor(const Sequence& sequence, const Given& given) {
  const int file = file_descriptor(given["descriptor"]);
  const heed_cache* cache = sequence.cache().get();
  const heed_sequence name = sequence.name();
  check_long([&] { return heed_cache_save_file(cache, name, file); });
}

nb::object save_bytes(const Sequence& sequence) {
  const heed_cache* cache = sequence.cache().get();
  const heed_sequence name = sequence.name();
  const std::size_t bytes = saved_bytes(sequence);
  PyObject* made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes));
  if (made == nullptr) throw nb::python_error();
  nb::object held = nb::steal(made);
  check_long([&] { return heed_cache_save(cache, name, PyBytes_AsString(made), bytes); });
  return held;
}

/// Python opens paths, and knows files.
void save_file(const nb::pointer_and_handle<Sequence>& sequence, const Given& given) {
  nb::module_::import_("heed.saving").attr("save")(sequence.h, given.values()[0]);
}

nb::str sequence_representation(const Sequence& sequence) {
  if (!sequence.alive()) return nb::str("<heed.Sequence, freed>");
  return nb::str("<heed.Sequence of {} rows>").format(length(sequence));
}

// ---- Cache.attention ----

/// The sequences of a call, held for its time.
struct Readers {
  std::vector<nb::object> held;
  std::vector<heed_sequence> names;

  void add(const std::string& name, nb::handle from, nb::handle cache) {
    if (!nb::isinstance<Sequence>(from))
      refuse_type("{} must be a heed.Sequence, not {}", name, type_text(from));
    const Sequence& sequence = *nb::inst_ptr<Sequence>(from);
    if (!sequence.holder().is(cache)) refuse("{} is of another cache", name);
    if (!sequence.alive()) refuse("{} was freed", name);
    held.push_back(nb::borrow(from));
    names.push_back(sequence.name());
  }

  Readers(nb::handle from, nb::handle cache) {
    if (nb::isinstance<Sequence>(from)) {
      add("sequences", from, cache);
      return;
    }
    if (PySequence_Check(from.ptr()) == 0 || nb::isinstance<nb::str>(from))
      refuse_type("sequences must be a heed.Sequence, or a list of them, not {}", type_text(from));
    for (nb::handle one : nb::list(nb::borrow(from)))
      add("sequences[" + std::to_string(names.size()) + "]", one, cache);
  }

  std::int64_t count() const { return static_cast<std::int64_t>(names.size()); }

  std::int64_t longest(const Cache& cache, std::int64_t layer) const {
    std::int64_t most = 0;
    for (const heed_sequence name : names) {
      std::int64_t length = 0;
      check(heed_cache_length(cache.get(), name, layer, &length));
      most = std::max(most, length);
    }
    return most;
  }
};

/// The cache knows what keys are.
Arguments own_options(const Given& given) {
  const Arguments options = read_arguments(given, kOfAttention);
  for (const auto& [name, option] :
       {std::pair{"key", options.key}, std::pair{"value", options.value},
        std::pair{"key_lengths", options.key_lengths},
        std::pair{"cu_seqlens_k", options.cu_seqlens_k},
        std::pair{"block_table", options.block_table}, std::pair{"key_scales", options.key_scales},
        std::pair{"value_scales", options.value_scales}})
    if (option.is_valid()) refuse_type("{} is given; the cache knows its keys and values", name);
  return options;
}

void set_keys(Call& call, const Cache& cache, std::int64_t longest, nb::handle max_seqlen_k) {
  heed_attention_desc& desc = call.desc;
  desc.key_heads = cache.desc().key_heads;
  desc.value_features = cache.value_features();
  desc.key_length = longest;
  if (max_seqlen_k.is_valid()) {
    desc.key_length = integer("max_seqlen_k", max_seqlen_k);
    if (desc.key_length < longest)
      refuse("max_seqlen_k is {}; the longest of sequences has {} rows", desc.key_length, longest);
  }
  if (desc.features != cache.desc().features)
    refuse("query is {}; it must have {} features, as the cache's keys", text(call.query.form),
           cache.desc().features);
  if (desc.query_heads % desc.key_heads != 0)
    refuse("query has {} heads and the cache {}; each must serve the same number of query heads",
           desc.query_heads, desc.key_heads);
}

nb::object cache_attention(const nb::pointer_and_handle<Cache>& self, const Given& given) {
  const Cache& cache = *self.p;
  Arguments options = own_options(given);
  const nb::handle max_seqlen_k = std::exchange(options.max_seqlen_k, nb::handle());
  const nb::handle sequences = given["sequences"];
  const Readers readers(sequences.is_valid() ? sequences : nb::handle(Py_None), self.h);
  Call call;
  set_batch(call, "sequences", readers.count());
  read_lengths(call, options);
  read_query(call, options);
  if (call.float64())
    refuse(
        "query is float64; it must be float32, float16 or bfloat16, as caches hold float32 at "
        "most");
  call.axes = call.packed_queries() ? 3 : readers.count() == 1 ? call.query.form.axes : 4;
  heed_cache_attention_desc desc = HEED_CACHE_ATTENTION_DESC_INIT;
  desc.layer = cache.layer(given["layer"]);
  set_keys(call, cache, readers.longest(cache, desc.layer), max_seqlen_k);
  read_scores(call, options);
  call.make_outputs(options);
  const std::int64_t batch = call.packed_queries() ? 1 : call.desc.batch;
  const Vector<std::int64_t> places = cache.read_places(given, batch, call.rows, desc);
  const double flops = call.flops();
  call.desc.key_heads = call.desc.features = call.desc.value_features = 0;
  desc.attention = &call.desc;
  desc.sequences = readers.names.data();
  check(without_gil(flops, &call.score_function,
                    [&] { return heed_cache_attention(cache.get(), &desc, &call.args); }));
  return call.result(options);
}

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
                     axis of one head may be missing, and a batch of one may come first
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
  method(sequence, "def length(self, layer: int = 0) -> int", &length_of,
         "The rows that a layer has. In C: heed_cache_length.");
  sequence.def("__len__", [](const Sequence& self) { return length(self); })
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
      .def("__repr__", &sequence_representation);
  refuse_pickling(sequence, "it lies in a cache of this process: pickle what Sequence.save gives");
}

}  // namespace

void bind_cache(nb::module_& module) {
  nb::class_<Cache> cache(
      module, "Cache",
      R"(Keys and values of growing sequences, in pages of one pool, for programs that generate.

All memory is taken at once; sequences that were forked share pages until one of them writes.

    layers           of the model
    key_heads        of keys and values
    features         of a key
    value_features   of a value; those of a key unless given
    dtype            what is stored, by name or as NumPy or PyTorch has it: float32, float16,
                     bfloat16, int8 (with a scale per row, which heed finds) or float8_e4m3fn
    page_rows        keys and values in a page, a multiple of 16
    pages            in the pool, for all sequences together: of each ceil(rows / page_rows), less
                     where sequences that were forked share pages
    sequences        at once, at most
    key_scale        of float8_e4m3fn: what stored keys are multiplied with; 1 unless given
    value_scale      the same of values
    rotary           turns keys as they are appended, and queries as they attend: "halves" (GPT-NeoX,
                     Llama), "interleaved" (GPT-J), or a dict of the arguments that heed.rotate has:
                     pairs, base, features, cosines, sines
    context          where to compute; the default one unless given

Any threads may use a cache at once. A call that changes a sequence is refused while another call
uses it, and every call is refused while another changes it; calls on different sequences never are.

>>> import heed, numpy as np
>>> cache = heed.Cache(key_heads=2, features=4, pages=10)
>>> sequence = cache.sequence()
>>> rows = np.ones((2, 3, 4), np.float32)
>>> sequence.append(rows, rows)
>>> len(sequence)
3
>>> cache.attention(sequence, rows[:, -1:], causal="bottom_right").shape
(2, 1, 4)

In C: heed_cache_create.)");
  method(cache,
         "def __init__(self, *, " HEED_CACHE_ARGUMENTS ", context: Context | None = None) -> None",
         &make_cache);
  method(cache, "def sequence(self) -> Sequence", &make_sequence,
         "A new sequence, which is empty. In C: heed_cache_sequence_create.");
  method(cache, "def load(self, source: object) -> Sequence", &load,
         R"(A new sequence from what Sequence.save saved, perhaps of another process or cache.

source is bytes or another buffer, a path, or a binary file, which is read from where it stands on,
no further than the sequence goes. Layers, heads, features, dtype, scales and rotary embedding must
be this cache's; what is truncated, foreign or altered is refused.

In C: heed_cache_load, heed_cache_load_file.)");
  method(cache, "def load_descriptor(self, descriptor: int) -> Sequence", &load_file,
         "The same from a file descriptor. In C: heed_cache_load_file.");
  method(
      cache,
      "def attention(self, sequences: Sequence | collections.abc.Sequence[Sequence], "
      "query: typing.Any, *, layer: int = 0, positions: typing.Any | None = None, "
      "position_offset: int = 0, out: typing.Any | None = None, "
      "**options: typing.Any) -> typing.Any",
      &cache_attention,
      R"(Attention of one layer: batch item b of query attends the keys and values of sequences[b].

    sequences        of this cache, any of them, also more than once; or one alone
    query            [batch, heads, rows, features]; of one sequence the first one or two axes may
                     lack. With cu_seqlens_q packed, [rows, heads, features]
    positions        with rotary: where query rows stand, [batch, rows] or [rows]; unless given, the
                     last row of a sequence stands where its last key does
    position_offset  added to every position
    out              where to write; must not overlap query
    options          of heed.attention, except those that say what keys are: key_lengths,
                     cu_seqlens_k, block_table, key_scales, value_scales. A model that generates
                     gives causal="bottom_right", which puts the last row at the last key; without
                     causal, as in cross-attention, every row attends all keys of its sequence,
                     later ones too. Masks, biases and weights have max_seqlen_k keys: as many as
                     the longest of the sequences, unless given

Returns what heed.attention does. In C: heed_cache_attention.)");
  method(cache, "def describe(self) -> dict[str, object]", &describe,
         "What it holds: dtype, layers, key_heads, features, value_features, pages, pages_used, "
         "pages_shared (by more than one sequence), page_rows, sequences that are alive, bytes, "
         "page_bytes (of all layers and heads). In C: heed_cache_describe.");
  cache.def("__repr__", &representation);
  refuse_pickling(cache, "it is memory of this process: save its sequences, by Sequence.save");
  bind_sequence(module);
  function(module, "def cache_bytes(*, " HEED_CACHE_ARGUMENTS ") -> int", &cache_bytes,
           R"(The bytes that heed.Cache takes, of the same arguments.

>>> import heed
>>> heed.cache_bytes(key_heads=2, features=4, pages=10) > 10 * 64 * 2 * 2 * 4 * 4
True

In C: heed_cache_bytes.)");
}

}  // namespace heed::python
