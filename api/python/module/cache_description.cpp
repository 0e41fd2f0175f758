// What a cache is made of, by the names of its arguments.
#include <algorithm>
#include <iterator>

#include "api/python/module/cache.hpp"
#include "api/python/module/numbers.hpp"
#include "api/python/module/rotary.hpp"

namespace heed::python {
namespace {

constexpr Element kStored[] = {Element::kF32, Element::kF16, Element::kBf16, Element::kI8,
                               Element::kF8E4M3};

/// A type by its name, or as NumPy, PyTorch and others have it.
std::uint32_t read_dtype(nb::handle from) {
  if (from.is_none()) return HEED_DTYPE_F32;
  const nb::object named = attribute(from, nb::str("__name__"));
  const nb::str text(named.is_valid() ? named : nb::borrow(from));
  std::string name = text.c_str();
  if (name.rfind("torch.", 0) == 0) name.erase(0, 6);
  for (const Element element : kStored)
    if (name == name_of(element)) return dtype_of(element);
  refuse("dtype is %s; it must be float32, float16, bfloat16, int8 or float8_e4m3fn", name.c_str());
}

/// At least 1, or 0 for None.
std::int64_t size_of(const char* name, nb::handle from) {
  if (from.is_none()) return 0;
  const std::int64_t size = integer(name, from);
  if (size < 1) refuse("%s is %lld; it must be at least 1", name, static_cast<long long>(size));
  return size;
}

std::int64_t needed(const char* name, nb::handle from) {
  if (from.is_none()) refuse_type("%s must be an int, not NoneType", name);
  return size_of(name, from);
}

double scale_of(const char* name, nb::handle from, std::uint32_t dtype) {
  if (from.is_none()) return 0;
  if (dtype != HEED_DTYPE_F8_E4M3)
    refuse("%s is given; only dtype=\"float8_e4m3fn\" has one", name);
  const double scale = number(name, from);
  if (!(scale > 0)) refuse("%s is %g; it must be above 0", name, scale);
  return scale;
}

std::vector<float> copied_table(const Array& table, const heed_rotary& rotary) {
  std::vector<float> copy;
  const auto* row = static_cast<const float*>(table.data);
  for (std::int64_t i = 0; i < rotary.table_rows; ++i, row += rotary.table_stride)
    copy.insert(copy.end(), row, row + rotary.features / 2);
  return copy;
}

/// None, the pairs alone, or a dict of the arguments of heed.rotate.
void read_cache_rotary(nb::handle from, CacheDescription& description) {
  if (from.is_none()) return;
  static constexpr const char* kNames[] = {"pairs", "base", "features", "cosines", "sines"};
  nb::object given[5];
  for (nb::object& one : given) one = nb::none();
  given[0] = nb::str("halves");
  if (nb::isinstance<nb::str>(from)) {
    given[0] = nb::borrow(from);
  } else if (nb::isinstance<nb::dict>(from)) {
    // A list of its own: to compare names may run code of the caller's, which may change the dict.
    for (nb::handle item : nb::borrow<nb::dict>(from).items()) {
      const nb::object key = item[0], value = item[1];
      const auto* const name =
          std::find_if(std::begin(kNames), std::end(kNames),
                       [&key](const char* known) { return key.equal(nb::str(known)); });
      if (name == std::end(kNames))
        refuse_type("rotary has %s; it may have pairs, base, features, cosines and sines",
                    nb::repr(key).c_str());
      given[name - kNames] = value;
    }
  } else {
    refuse_type("rotary must be \"halves\", \"interleaved\", a dict or None, not %s",
                type_text(from).c_str());
  }
  const Rotary read = read_rotary(given[0], given[1], given[2], given[3], given[4]);
  heed_rotary& rotary = description.desc.rotary;
  rotary = read.rotary;
  if (rotary.features > description.desc.features)
    refuse("rotary has %lld features; keys have %lld", static_cast<long long>(rotary.features),
           static_cast<long long>(description.desc.features));
  if (rotary.features == 0 && description.desc.features % 2 != 0)
    refuse("rotary turns pairs, but features is %lld; give rotary an even number of them",
           static_cast<long long>(description.desc.features));
  if (rotary.cosines == nullptr) return;
  description.cosines = copied_table(read.cosines, rotary);
  description.sines = copied_table(read.sines, rotary);
  rotary.cosines = description.cosines.data();
  rotary.sines = description.sines.data();
  rotary.table_stride = 0;
}

}  // namespace

std::unique_ptr<const CacheDescription> read_cache(const CacheSettings& given) {
  auto description = std::make_unique<CacheDescription>();
  heed_cache_desc& desc = description->desc;
  desc.dtype = read_dtype(given.dtype);
  desc.layers = size_of("layers", given.layers);
  desc.key_heads = needed("key_heads", given.key_heads);
  desc.features = needed("features", given.features);
  desc.value_features = size_of("value_features", given.value_features);
  desc.page_rows = size_of("page_rows", given.page_rows);
  if (desc.page_rows % 16 != 0)
    refuse("page_rows is %lld; it must be a multiple of 16",
           static_cast<long long>(desc.page_rows));
  desc.pages = needed("pages", given.pages);
  desc.sequences = size_of("sequences", given.sequences);
  desc.key_scale = scale_of("key_scale", given.key_scale, desc.dtype);
  desc.value_scale = scale_of("value_scale", given.value_scale, desc.dtype);
  read_cache_rotary(given.rotary, *description);
  return description;
}

const char* stored_name(std::uint32_t dtype) {
  const auto* const found = std::find_if(
      std::begin(kStored), std::end(kStored),
      [&](Element element) { return static_cast<std::uint32_t>(dtype_of(element)) == dtype; });
  return name_of(*found);
}

}  // namespace heed::python
