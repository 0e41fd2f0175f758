#include "api/python/module/cache.hpp"

#include <algorithm>

#include "api/python/module/bind.hpp"
#include "api/python/module/context.hpp"
#include "api/python/module/numbers.hpp"
#include "api/python/module/pickling.hpp"
#include "api/python/module/rotary.hpp"
#include "api/python/module/signature.hpp"

namespace heed::python {

Cache::Cache(nb::handle context, std::unique_ptr<const CacheDescription> description)
    : description_(std::move(description)) {
  check(heed_cache_create(hold_context(context).context, &desc(), &cache_));
}

heed_cache_info Cache::info() const {
  heed_cache_info info = HEED_CACHE_INFO_INIT;
  check(heed_cache_describe(cache_, &info));
  return info;
}

std::int64_t Cache::layer(nb::handle given) const {
  const std::int64_t layer = integer("layer", given);
  const std::int64_t layers = std::max<std::int64_t>(1, desc().layers);
  if (layer < 0 || layer >= layers)
    refuse("layer is %lld; it must be 0 to %lld, for the cache's layers",
           static_cast<long long>(layer), static_cast<long long>(layers - 1));
  return layer;
}

Vector<std::int64_t> Cache::read_places(nb::handle positions, nb::handle offset, std::int64_t batch,
                                        std::int64_t rows) const {
  const bool moved = integer("position_offset", offset) != 0;
  if (!turns() && (moved || !positions.is_none()))
    refuse("%s is given, but the cache has no rotary embedding",
           moved ? "position_offset" : "positions");
  if (positions.is_none()) return {};
  if (moved) refuse("position_offset is given beside positions, which say where rows stand");
  return read_positions(positions, batch, rows);
}

namespace {

nb::dict describe(const Cache& cache) {
  const heed_cache_info info = cache.info();
  nb::dict said;
  said["dtype"] = stored_name(info.dtype);
  said["layers"] = std::max<std::int64_t>(1, cache.desc().layers);
  said["key_heads"] = cache.desc().key_heads;
  said["features"] = cache.desc().features;
  said["value_features"] = cache.value_features();
  said["pages"] = info.pages;
  said["pages_used"] = info.pages_used;
  said["pages_shared"] = info.pages_shared;
  said["page_rows"] = info.page_rows;
  said["sequences"] = info.sequences;
  said["bytes"] = info.bytes;
  said["page_bytes"] = info.page_bytes;
  return said;
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

Sequence* load_file(const nb::pointer_and_handle<Cache>& cache, nb::handle descriptor) {
  const int file = file_descriptor(descriptor);
  heed_sequence name = 0;
  check([&] {
    const nb::gil_scoped_release released;
    return heed_cache_load_file(cache.p->get(), file, &name);
  }());
  return new Sequence(nb::borrow(cache.h), name);
}

/// Bytes as they lie, or a path or file, which Python opens.
nb::object load(const nb::pointer_and_handle<Cache>& cache, nb::handle source) {
  if (PyObject_CheckBuffer(source.ptr()) == 0)
    return nb::module_::import_("heed.saving").attr("load")(cache.h, source);
  Py_buffer buffer;
  if (PyObject_GetBuffer(source.ptr(), &buffer, PyBUF_SIMPLE) != 0) throw nb::python_error();
  heed_sequence name = 0;
  heed_status status = HEED_STATUS_OK;
  {
    const nb::gil_scoped_release released;
    status =
        heed_cache_load(cache.p->get(), buffer.buf, static_cast<std::size_t>(buffer.len), &name);
  }
  PyBuffer_Release(&buffer);
  check(status);
  return nb::cast(new Sequence(nb::borrow(cache.h), name), nb::rv_policy::take_ownership);
}

void make_cache(Cache* self, nb::handle key_heads, nb::handle features, nb::handle pages,
                nb::handle layers, nb::handle value_features, nb::handle dtype,
                nb::handle page_rows, nb::handle sequences, nb::handle key_scale,
                nb::handle value_scale, nb::handle rotary, nb::handle context) {
  new (self) Cache(context, read_cache({key_heads, features, pages, layers, value_features, dtype,
                                        page_rows, sequences, key_scale, value_scale, rotary}));
}

std::size_t cache_bytes(nb::handle key_heads, nb::handle features, nb::handle pages,
                        nb::handle layers, nb::handle value_features, nb::handle dtype,
                        nb::handle page_rows, nb::handle sequences, nb::handle key_scale,
                        nb::handle value_scale, nb::handle rotary) {
  std::size_t bytes = 0;
  check(heed_cache_bytes(&read_cache({key_heads, features, pages, layers, value_features, dtype,
                                      page_rows, sequences, key_scale, value_scale, rotary})
                              ->desc,
                         &bytes));
  return bytes;
}

constexpr char kSignature[] =
    "def __init__(self, *, key_heads: int, features: int, pages: int, layers: int = 1, "
    "value_features: int | None = None, dtype: object = 'float32', page_rows: int = 64, "
    "sequences: int = 1024, key_scale: float | None = None, value_scale: float | None = None, "
    "rotary: str | dict[str, typing.Any] | None = None, context: Context | None = None) -> None";

/// The same arguments, but for self and context.
const char* bytes_signature() {
  static const std::string signature = [] {
    std::string text = kSignature;
    const auto replace = [&](const char* from, const char* to) {
      text.replace(text.find(from), std::string(from).size(), to);
    };
    replace("__init__(self, ", "cache_bytes(");
    replace(", context: Context | None = None) -> None", ") -> int");
    return text;
  }();
  return signature.c_str();
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
    pages            in the pool, for all sequences together
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
  method(cache, kSignature, &make_cache);
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
    options          of heed.attention, causal="bottom_right" as a rule, but for those that say what
                     keys are: key_lengths, cu_seqlens_k, block_table, key_scales, value_scales.
                     Masks, biases and weights have max_seqlen_k keys: as many as the longest of the
                     sequences, unless given

Returns what heed.attention does. In C: heed_cache_attention.)");
  method(cache, "def describe(self) -> dict[str, object]", &describe,
         "What it holds: dtype, layers, key_heads, features, value_features, pages, pages_used, "
         "pages_shared (by more than one sequence), page_rows, sequences that are alive, bytes, "
         "page_bytes (of all layers and heads). In C: heed_cache_describe.");
  cache.def("__repr__", &representation);
  refuse_pickling(cache, "it is memory of this process: save its sequences, by Sequence.save");
  bind_sequence(module);
  function(module, bytes_signature(), &cache_bytes,
           R"(The bytes that heed.Cache takes, of the same arguments.

>>> import heed
>>> heed.cache_bytes(key_heads=2, features=4, pages=10) > 10 * 64 * 2 * 2 * 4 * 4
True

In C: heed_cache_bytes.)");
}

}  // namespace heed::python
