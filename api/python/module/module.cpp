// heed._heed: heed.h for the package heed; and what this build can do here, for heed.info.
#include "api/python/module/arguments.hpp"
#include "api/python/module/array.hpp"

namespace heed::python {
namespace {

nb::dict isas() {
  nb::dict all;
  for (std::size_t i = 0; i < heed_isa_count(); ++i) {
    heed_isa_info info = HEED_ISA_INFO_INIT;
    check(heed_isa_get(i, &info));
    all[info.name] = dict_of("usable", info.usable != 0, "lanes", info.lanes, "panel", info.panel);
  }
  return all;
}

/// Names of everything that was compiled in, in the words of heed.info.
nb::dict built() {
  nb::list executors, products;
  for (std::size_t i = 0; i < heed_executor_count(); ++i) executors.append(heed_executor_name(i));
  for (std::size_t i = 0; i < heed_product_count(); ++i) products.append(heed_product_name(i));
  return dict_of("isas", isas(), "executors", executors, "products", products);
}

/// How heed sees an array, for tests: nothing is copied.
nb::dict seen(nb::handle array) {
  const Array read = read_array("array", array);
  const auto numbers = [&](const std::int64_t* of) {
    nb::list all;
    for (int axis = 0; axis < read.form.axes; ++axis) all.append(of[axis]);
    return nb::tuple(all);
  };
  return dict_of("address", reinterpret_cast<std::uintptr_t>(read.data), "dtype",
                 name_of(read.form.element), "shape", numbers(read.form.sizes), "strides",
                 numbers(read.form.strides), "writable", read.writable);
}

/// The compiler, for reports of problems.
#if defined(__clang__)
constexpr const char* kCompiler = "clang " __clang_version__;
#elif defined(__GNUC__)
constexpr const char* kCompiler = "g++ " __VERSION__;
#else
constexpr const char* kCompiler = "unknown";
#endif

}  // namespace

}  // namespace heed::python

NB_MODULE(_heed, module) {
  using namespace heed::python;
  module.doc() = "The compiled part of heed; see there.";
  nb::set_leak_warnings(false);  // the default context lives as long as the process
  bind_context(module);
  bind_weights(module);
  bind_dense(module);
  bind_rows(module);
  bind_block(module);
  bind_graph(module);
  bind_cache(module);
  bind_mpi(module);
  module.attr("version") = heed_version_string();
  module.attr("compiler") = kCompiler;
  internal(module, "def seen(array: object) -> dict[str, typing.Any]", &seen);
  internal(module, "def built() -> dict[str, typing.Any]", &built);
}
